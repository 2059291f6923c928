"""A real agent learns to balance a pole, learns on from a file, and crashes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from matplotlib import pyplot
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.logger import CSVOutputFormat, Figure, Image, Logger, Video

import epochal
from epochal.integrations.stable_baselines3 import EpochalCallback, EpochalOutput
from tests.frameworks.reading import config, points, records, run_folders, script, status

pytestmark = pytest.mark.filterwarnings("ignore")


def ppo(**options: Any) -> PPO:
    small = {"n_steps": 32, "batch_size": 16, "n_epochs": 1, "seed": 0, "device": "cpu"}
    return PPO("MlpPolicy", "CartPole-v1", **{**small, **options})


def test_the_run_has_what_the_logger_says(runs: Path, tmp_path: Path) -> None:
    model = ppo()
    model.set_logger(Logger(str(tmp_path), [CSVOutputFormat(str(tmp_path / "progress.csv"))]))
    model.learn(128, callback=EpochalCallback(name="pole"))
    (folder,) = run_folders(runs)
    rows = np.genfromtxt(tmp_path / "progress.csv", delimiter=",", names=True)
    found = points(folder, "rollout/ep_rew_mean")
    assert list(found) == [32, 64, 96, 128]
    theirs = rows[next(n for n in rows.dtype.names or () if n.endswith("ep_rew_mean"))]
    assert list(found.values()) == theirs.tolist()
    told = config(folder)
    assert (told["algorithm"], told["env"], told["gamma"]) == ("PPO", "CartPole-v1", 0.99)
    assert status(folder) == "finished"
    assert model.logger.output_formats[1:] == []


def test_an_agent_that_learns_on_continues_its_run(runs: Path, tmp_path: Path) -> None:
    model = ppo()
    model.learn(64, callback=EpochalCallback(name="pole"))
    model.save(tmp_path / "agent")
    again = PPO.load(tmp_path / "agent", env=gymnasium.make("CartPole-v1"))
    callback = EpochalCallback(name="pole", resume="allow")
    again.learn(64, callback=callback, reset_num_timesteps=False)
    (folder,) = run_folders(runs)
    assert list(points(folder, "time/iterations")) == [32, 64, 96, 128]


def test_off_policy_agents_too(runs: Path) -> None:
    model = DQN("MlpPolicy", "CartPole-v1", learning_starts=10, device="cpu", seed=0)
    model.learn(200, callback=EpochalCallback(), log_interval=1)
    (folder,) = run_folders(runs)
    assert points(folder, "rollout/exploration_rate")


def test_texts_arrays_and_pictures_are_kept(runs: Path, tmp_path: Path) -> None:
    with epochal.init(name="mine") as run:
        logger = Logger(str(tmp_path), [EpochalOutput(run)])
        logger.record("note", "hello")
        logger.record("weights", np.arange(10.0))
        logger.record("frame", Image(np.zeros((4, 4, 3), dtype=np.uint8), "HWC"))
        logger.record("batch", Image(np.zeros((2, 3, 4, 5), dtype=np.uint8), "NCHW"))
        logger.record("episode", Video(torch.zeros(1, 6, 3, 8, 8, dtype=torch.uint8), fps=4))
        logger.record("curve", Figure(pyplot.figure(), close=True))
        logger.record("hidden", 1.0, exclude="epochal")
        logger.record("shown", np.float32(0.5), exclude="tensorboard")
        logger.dump(step=3)
    (folder,) = run_folders(runs)
    kinds = {r["log"] for r in records(folder)}
    assert {"text", "histogram", "blob"} <= kinds
    pictures = [r for r in records(folder) if r["log"] == "blob"]
    assert [(r["name"], r["width"], r["height"]) for r in pictures[:3]] == [
        ("frame", 4, 4),
        ("batch", 5, 4),
        ("batch", 5, 4),
    ]
    assert [(r["name"], r.get("frames")) for r in pictures[3:]] == [("episode", 6), ("curve", None)]
    assert pyplot.get_fignums() == []
    assert points(folder, "shown") == {3: 0.5}
    assert not any("hidden" in r.get("m", {}) for r in records(folder))


def test_a_crash_makes_the_run_failed(runs: Path) -> None:
    script(
        """
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from epochal.integrations.stable_baselines3 import EpochalCallback
class Broken(BaseCallback):
    def _on_step(self):
        if self.num_timesteps == 80:
            raise RuntimeError("no power")
        return True
model = PPO("MlpPolicy", "CartPole-v1", n_steps=32, batch_size=16, device="cpu")
model.learn(500, callback=[EpochalCallback(), Broken()])
""",
        fails=True,
    )
    (folder,) = run_folders(runs)
    assert status(folder) == "failed"
    assert list(points(folder, "time/iterations")) == [32, 64]
