"""Scripts in the style of the frameworks' examples: first with their tracker, then with Epochal.

Each script of `scripts/` runs as it is with W&B (offline) or TensorBoard. Then it runs with
Epochal: unchanged under `python -m epochal.wandb`, or with one line changed. Both have the same
values.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import epochal

pytestmark = pytest.mark.slow
SCRIPTS = Path(__file__).parent / "scripts"
Values = dict[str, dict[int, float]]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, value in {
        "EPOCHAL_GIT": "0",
        "EPOCHAL_COMPANION": "0",
        "EPOCHAL_DIR": str(tmp_path / "runs"),
        "WANDB_MODE": "offline",
        "WANDB_SILENT": "true",
        "OMP_NUM_THREADS": "1",
    }.items():
        monkeypatch.setenv(name, value)
    return tmp_path


def run_script(name: str, *launcher: str, changes: dict[str, str] | None = None) -> None:
    text = (SCRIPTS / name).read_text(encoding="utf-8")
    for before, after in (changes or {}).items():
        assert before in text
        text = text.replace(before, after)
    Path(name).write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, *launcher, name],
        capture_output=True,
        text=True,
        check=False,
        env=dict(os.environ),
    )
    assert done.returncode == 0, done.stderr


def values_of(folder: Path) -> Values:
    run = epochal.load(folder)
    found: Values = {}
    for metric in run.metrics():
        if metric.axis == "step":
            series = run.series(metric.name)
            points = zip(series.steps.tolist(), series.values.tolist(), strict=True)
            found[metric.name] = dict(points)
    return found


def own_values(folder: str = "runs") -> Values:
    (file,) = Path(folder).glob("*/*/run.json")
    return values_of(file.parent)


def wandb_values() -> Values:
    """What W&B's own file has, as the importer reads it."""
    (folder,) = Path("wandb").glob("offline-run-*")
    subprocess.run(
        [sys.executable, "-m", "epochal", "import", str(folder), "--dir", "imported"],
        check=True,
        capture_output=True,
    )
    (file,) = Path("imported").glob("**/run.json")
    return values_of(file.parent)


def tensorboard_values(folder: str) -> Values:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found: Values = {}
    for path in sorted(Path(folder).rglob("*tfevents*")):
        events = EventAccumulator(str(path), size_guidance={"scalars": 0}).Reload()
        for tag in events.Tags()["scalars"]:
            found[tag] = {event.step: event.value for event in events.Scalars(tag)}
    return found


def rounded(points: dict[int, float]) -> dict[int, float]:
    """As TensorBoard keeps them: in single precision."""
    return {step: float(np.float32(value)) for step, value in points.items()}


def test_a_plain_loop_with_wandb_runs_unchanged() -> None:
    run_script("regression.py")
    theirs = wandb_values()
    run_script("regression.py", "-m", "epochal.wandb")
    ours = own_values()
    assert len(theirs["train/loss"]) == 16
    for name in ("train/loss", "epoch", "val.loss", "val.best"):
        assert list(ours[name].values()) == list(theirs[name].values()), name


def test_a_trainer_of_transformers_takes_epochal_in_report_to() -> None:
    run_script("language_model.py")
    theirs = wandb_values()
    run_script(
        "language_model.py",
        changes={
            'report_to="wandb"': 'report_to="epochal"',
            "import torch\n": "import torch\nimport epochal.integrations.transformers\n",
        },
    )
    ours = own_values()
    for name in ("train/loss", "train/grad_norm", "train/learning_rate"):
        assert ours[name] == dict(zip((2, 4, 6, 8), theirs[name].values(), strict=True)), name
    # W&B counts rows: the evaluation after the training is one more.
    evaluations = list(theirs["eval/loss"].values())
    assert ours["eval/loss"] == {4: evaluations[0], 8: evaluations[1]}
    assert evaluations[2:] == evaluations[1:2]


def test_a_training_with_accelerate_needs_its_name_in_log_with() -> None:
    run_script("classifier.py")
    theirs = tensorboard_values("logs")
    run_script(
        "classifier.py",
        changes={
            'log_with="tensorboard"': 'log_with="epochal"',
            "import torch\n": "import torch\nimport epochal.integrations.accelerate\n",
        },
    )
    ours = own_values()
    assert len(theirs["train_loss"]) == 3
    for name in ("train_loss", "accuracy", "epoch"):
        assert rounded(ours[name]) == theirs[name], name


def test_a_training_with_lightning_changes_the_import_of_its_logger() -> None:
    run_script("autoencoder.py")
    theirs = tensorboard_values("logs")
    run_script(
        "autoencoder.py",
        changes={
            "from lightning.pytorch.loggers import TensorBoardLogger as Logger": (
                "from epochal.integrations.lightning import EpochalLogger as Logger"
            )
        },
    )
    ours = own_values("logs")
    assert len(theirs["train_loss"]) == 6
    for name in ("train_loss", "val_loss", "epoch"):
        assert rounded(ours[name]) == theirs[name], name
