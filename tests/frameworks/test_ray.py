"""Real trials of Ray Tune, one of which fails, and a training function of Ray Train."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from ray import tune

import epochal
from epochal.integrations.ray import EpochalCallback
from tests.frameworks.reading import config, points, records, run_folders, status

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def objective(settings: dict[str, Any]) -> None:
    for step in range(3):
        if settings["x"] == 2 and step == 2:
            raise RuntimeError("no power")
        table = epochal.Table([{"answer": step}])
        tune.report({"loss": settings["x"] / (step + 1), "inner": {"acc": step}, "rows": table})


def test_each_trial_is_a_run(runs: Path, tmp_path: Path) -> None:
    tuner = tune.Tuner(
        objective,
        param_space={"x": tune.grid_search([1, 2])},
        run_config=tune.RunConfig(
            name="grid", storage_path=str(tmp_path / "ray"), callbacks=[EpochalCallback()]
        ),
    )
    results = tuner.fit()
    assert results.num_errors == 1
    folders = {config(folder)["x"]: folder for folder in run_folders(runs)}
    assert {folder.parent.name for folder in folders.values()} == {"grid"}
    assert points(folders[1], "loss") == {1: 1.0, 2: 0.5, 3: 1 / 3}
    assert points(folders[1], "inner.acc") == {1: 0, 2: 1, 3: 2}
    assert points(folders[2], "loss") == {1: 2.0, 2: 1.0}
    assert [(r["name"], r["step"]) for r in records(folders[2]) if r["log"] == "blob"] == [
        ("rows", 1),
        ("rows", 2),
    ]
    assert (status(folders[1]), status(folders[2])) == ("finished", "failed")


def test_a_trial_that_is_restored_continues_its_run(runs: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.touch()

    def fails_once(settings: dict[str, Any]) -> None:
        saved = tune.get_checkpoint()
        first = 0 if saved is None else int(Path(saved.path, "step").read_text()) + 1
        for step in range(first, 4):
            if step == 2 and broken.exists():
                raise RuntimeError("no power")
            folder = tmp_path / f"checkpoint-{step}"
            folder.mkdir(exist_ok=True)
            (folder / "step").write_text(str(step))
            tune.report({"loss": 1.0 / (step + 1)}, checkpoint=tune.Checkpoint(str(folder)))

    config_of_run = tune.RunConfig(
        name="again", storage_path=str(tmp_path / "ray"), callbacks=[EpochalCallback()]
    )
    tune.Tuner(fails_once, run_config=config_of_run).fit()
    (folder,) = run_folders(runs)
    assert status(folder) == "failed"
    broken.unlink()
    tune.Tuner.restore(str(tmp_path / "ray" / "again"), fails_once, resume_errored=True).fit()
    (folder,) = run_folders(runs)
    assert status(folder) == "finished"
    assert points(folder, "loss") == {1: 1.0, 2: 0.5, 3: 1 / 3, 4: 0.25}


def test_a_training_function_of_ray_train_logs_itself(runs: Path, tmp_path: Path) -> None:
    from ray.train import RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    def train(settings: dict[str, Any]) -> None:
        import epochal

        if ray.train.get_context().get_world_rank() == 0:
            with epochal.init(dir=settings["dir"], name="worker", companion=False) as run:
                for step in range(3):
                    run.log({"loss": 1.0 / (step + 1)}, step=step)
        ray.train.report({"done": 1})

    TorchTrainer(
        train,
        train_loop_config={"dir": str(runs)},
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(name="train", storage_path=str(tmp_path / "ray")),
    ).fit()
    (folder,) = run_folders(runs)
    assert points(folder, "loss") == {0: 1.0, 1: 0.5, 2: 1 / 3}
    assert status(folder) == "finished"
