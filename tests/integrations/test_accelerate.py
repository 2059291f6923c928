"""A real training with Accelerate and ``log_with="epochal"``, alone and in two processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, GradientState, PartialState

import epochal
from epochal.integrations.accelerate import EpochalTracker
from epochal.run.run import Run
from tests.doubles.journals import of_kind
from tests.members.faults import raising

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("EPOCHAL_GIT", "0")
    monkeypatch.setenv("EPOCHAL_COMPANION", "0")
    monkeypatch.setenv("EPOCHAL_CONSOLE", "0")
    monkeypatch.setenv("EPOCHAL_DIR", str(tmp_path / "runs"))
    monkeypatch.chdir(tmp_path)
    yield tmp_path / "runs"
    epochal.finish()
    for state in (AcceleratorState, GradientState, PartialState):
        state._reset_state()


def train(accelerator: Any, *, steps: int, first: int = 0) -> dict[int, float]:
    """Train a linear model on a line; gives the losses that were logged."""
    torch.manual_seed(0)
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inputs = torch.linspace(-1, 1, 16)[:, None]
    data = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(inputs, 3 * inputs), batch_size=16
    )
    model, optimizer, data = accelerator.prepare(model, optimizer, data)
    losses = {}
    for step in range(first, first + steps):
        for batch, target in data:
            loss = torch.nn.functional.mse_loss(model(batch), target)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            accelerator.log({"loss": loss.detach()}, step=step)
            losses[step] = loss.item()
    return losses


def points(folder: Path, name: str) -> dict[int, float]:
    series = epochal.load(folder).series(name)
    return dict(zip(series.steps.tolist(), series.values.tolist(), strict=True))


def run_folders(runs: Path) -> list[Path]:
    return sorted(path.parent for path in runs.glob("*/*/run.json"))


def test_the_name_is_enough(runs: Path) -> None:
    accelerator = Accelerator(cpu=True, log_with="epochal")
    options = {"epochal": {"name": "a", "tags": ["small"]}}
    accelerator.init_trackers("lines", config={"lr": 0.1}, init_kwargs=options)
    losses = train(accelerator, steps=5)
    accelerator.end_training()
    (folder,) = run_folders(runs)
    assert (folder.parent.name, folder.name) == ("lines", "a")
    assert points(folder, "loss") == losses
    run = epochal.load(folder)
    assert run.config["lr"] == 0.1
    assert run.info.status.state == "finished"
    assert list(run.info.tags) == ["small"]


def test_a_tracker_of_ones_own_and_its_run(runs: Path) -> None:
    with epochal.init("mine", "given", console=False) as run:
        accelerator = Accelerator(cpu=True, log_with=[EpochalTracker(run=run)])
        accelerator.init_trackers("other")
        assert accelerator.get_tracker("epochal", unwrap=True) is run
        train(accelerator, steps=2)
        accelerator.end_training()
        assert run.state != "finished"
    (folder,) = run_folders(runs)
    assert folder.parent.name == "mine"
    assert list(points(folder, "loss")) == [0, 1]


def test_a_training_that_is_resumed_continues_its_run(runs: Path) -> None:
    for first in (0, 3):
        accelerator = Accelerator(cpu=True, log_with="epochal")
        options: dict[str, Any] = {"name": "a", "resume": "allow"}
        if first:
            options["resume_step"] = first
        accelerator.init_trackers("lines", init_kwargs={"epochal": options})
        train(accelerator, steps=5, first=first)
        accelerator.end_training()
    (folder,) = run_folders(runs)
    assert list(points(folder, "loss")) == list(range(8))


def test_images_and_tables_are_kept(runs: Path) -> None:
    tracker = EpochalTracker("pictures", name="a")
    tracker.log({"loss": 1.0}, step=0)
    tracker.log_images({"sample": np.zeros((2, 4, 4, 3), np.uint8)}, step=1)
    tracker.log_table("answers", columns=["question", "answer"], data=[["1 + 1", "2"]])
    tracker.finish()
    (folder,) = run_folders(runs)
    kept = [entry.record for entry in epochal.load(folder).view.entries("blob")]
    assert [(r["name"], r["step"], r.get("index")) for r in kept] == [
        ("sample", 1, 0),
        ("sample", 1, 1),
        ("answers", 1, None),
    ]


_SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
import epochal.integrations.accelerate
from accelerate import Accelerator
from tests.integrations import test_accelerate as own

accelerator = Accelerator(cpu=True, log_with="epochal")
accelerator.init_trackers("lines", config={"ranks": accelerator.num_processes})
own.train(accelerator, steps=3)
if len(sys.argv) > 2:
    raise RuntimeError("no more memory")
accelerator.end_training()
"""


def launch(*arguments: str, processes: int = 1) -> str:
    Path("train.py").write_text(_SCRIPT)
    root = str(Path(__file__).parents[2])
    command = [sys.executable]
    if processes > 1:
        command += ["-m", "torch.distributed.run", f"--nproc-per-node={processes}"]
        command += ["--master-port=0", "--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0"]
    done = subprocess.run(
        [*command, "train.py", root, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    return done.stderr


def test_two_processes_write_one_run_from_the_main_one(runs: Path) -> None:
    shown = launch(processes=2)
    assert run_folders(runs), shown
    (folder,) = run_folders(runs)
    assert epochal.load(folder).config["ranks"] == 2
    assert list(points(folder, "loss")) == [0, 1, 2]
    writers = {path.name.partition("-")[0] for path in (folder / "journal").iterdir()}
    assert not any(writer.startswith("rank") for writer in writers), writers


def test_a_crash_keeps_what_was_logged(runs: Path) -> None:
    assert "no more memory" in launch("crash")
    (folder,) = run_folders(runs)
    assert epochal.load(folder).info.status.state == "failed"
    assert list(points(folder, "loss")) == [0, 1, 2]


def test_a_fault_of_the_tracker_changes_no_training(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = train(Accelerator(cpu=True), steps=5)
    accelerator = Accelerator(cpu=True, log_with="epochal")
    accelerator.init_trackers("lines", init_kwargs={"epochal": {"name": "a"}})
    with monkeypatch.context() as patch:
        patch.setattr(Run, "log", raising(ValueError("broken on purpose")))
        losses = train(accelerator, steps=5)
    accelerator.end_training()
    assert losses == expected
    (folder,) = run_folders(runs)
    (event,) = [one for one in of_kind(folder, "event") if one["name"] == "internal-error"]
    assert event["member"] == "integration accelerate"
    assert epochal.load(folder).info.status.state == "finished"
