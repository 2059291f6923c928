"""A real Lightning Trainer with ``EpochalLogger``: resumed, crashed, and spawned on two ranks."""

from __future__ import annotations

import math
import os
import pickle
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator
from csv import DictReader
from pathlib import Path
from typing import Any

import lightning
import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger

import epochal
from epochal.integrations.lightning import EpochalLogger
from epochal.journal.layout import RunFolder
from epochal.run.config import RunConfig
from epochal.run.run import Run
from tests.doubles.journals import of_kind
from tests.members.faults import raising

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("EPOCHAL_GIT", "0")
    monkeypatch.setenv("EPOCHAL_COMPANION", "0")
    monkeypatch.setenv("EPOCHAL_DIR", str(tmp_path / "runs"))
    monkeypatch.chdir(tmp_path)
    yield tmp_path / "runs"
    epochal.finish()


class Line(lightning.LightningModule):  # type: ignore[misc]
    """Learns a line."""

    def __init__(self, lr: float = 0.1, fail_at: int | None = None) -> None:
        super().__init__()
        self.save_hyperparameters()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(1, 1)
        self.example_input_array = torch.zeros(2, 1)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.layer(inputs)
        return made

    def loss(self, batch: Any) -> torch.Tensor:
        return torch.nn.functional.mse_loss(self(batch[0]), batch[1])

    def training_step(self, batch: Any, index: int) -> torch.Tensor:
        if self.global_step == self.hparams.fail_at:
            raise RuntimeError("no more memory")
        loss = self.loss(batch)
        self.log("train/loss", loss)
        return loss

    def validation_step(self, batch: Any, index: int) -> None:
        self.log("val/loss", self.loss(batch))

    def test_step(self, batch: Any, index: int) -> None:
        self.log("test/loss", self.loss(batch))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=self.hparams.lr)


def data() -> torch.utils.data.DataLoader[Any]:
    inputs = torch.linspace(-1, 1, 16)[:, None]
    return torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(inputs, 3 * inputs), batch_size=4
    )


def trainer(logger: Any, **options: Any) -> lightning.Trainer:
    return lightning.Trainer(
        **{
            "accelerator": "cpu",
            "devices": 1,
            "max_epochs": 2,
            "log_every_n_steps": 1,
            "logger": logger,
            "enable_progress_bar": False,
            "enable_model_summary": False,
            **options,
        }
    )


def points(folder: Path, name: str) -> dict[int, float]:
    series = epochal.load(folder).series(name)
    return dict(zip(series.steps.tolist(), series.values.tolist(), strict=True))


def run_folders(runs: Path) -> list[Path]:
    return sorted(path.parent for path in runs.glob("*/*/run.json"))


def test_a_training_gives_the_values_of_another_logger(runs: Path) -> None:
    csv = CSVLogger("csv")
    done = trainer([EpochalLogger("lines", "a"), csv])
    done.fit(Line(), data(), data())
    (folder,) = run_folders(runs)
    assert (folder.parent.name, folder.name) == ("lines", "a")
    with open(Path(csv.log_dir) / "metrics.csv", encoding="utf-8") as file:
        rows = list(DictReader(file))
    for name in ("train/loss", "val/loss"):
        expected = {int(row["step"]): float(row[name]) for row in rows if row[name]}
        assert len(expected) == (8 if name == "train/loss" else 2)
        assert points(folder, name) == expected
    run = epochal.load(folder)
    assert run.config["lr"] == 0.1
    assert run.info.status.state == "finished"


def test_checkpoints_lie_in_the_run_and_are_recorded(runs: Path) -> None:
    best = ModelCheckpoint(monitor="val/loss", save_top_k=1)
    trainer(EpochalLogger("lines", "a"), callbacks=[best]).fit(Line(), data(), data())
    (folder,) = run_folders(runs)
    saved = [
        dict(entry.record)
        for entry in epochal.load(folder).view.entries("event", name="checkpoint")
    ]
    assert [event["step"] for event in saved] == [4, 8]
    assert saved[-1]["path"] == best.best_model_path
    assert Path(saved[-1]["path"]).parent == folder / "checkpoints"
    assert saved[-1]["is_best"]
    assert saved[-1]["metric"] == pytest.approx(float(best.best_model_score))


def test_a_training_from_a_checkpoint_continues_its_run(runs: Path) -> None:
    trainer(EpochalLogger("lines", "a"), max_epochs=1).fit(Line(), data())
    (checkpoint,) = (runs / "lines" / "a" / "checkpoints").iterdir()
    trainer(EpochalLogger("lines", "a")).fit(Line(), data(), ckpt_path=str(checkpoint))
    (folder,) = run_folders(runs)
    assert RunFolder(folder).last_attempt() == 2
    assert list(points(folder, "train/loss")) == list(range(8))


def test_a_test_after_the_training_belongs_to_the_run(runs: Path) -> None:
    done = trainer(EpochalLogger("lines"))
    model = Line()
    done.fit(model, data())
    done.test(model, data())
    (folder,) = run_folders(runs)
    assert list(points(folder, "train/loss")) == list(range(8))
    assert list(points(folder, "test/loss")) == [8]


def test_a_training_that_crashes_keeps_what_was_logged(runs: Path) -> None:
    with pytest.raises(RuntimeError, match="no more memory"):
        trainer(EpochalLogger("lines", "a")).fit(Line(fail_at=5), data())
    (folder,) = run_folders(runs)
    run = epochal.load(folder)
    assert run.info.status.state == "failed"
    assert "no more memory" in str(run.info.status.reason)
    assert list(points(folder, "train/loss")) == list(range(5))


def test_a_run_that_is_given_stays_open(runs: Path) -> None:
    with epochal.init("mine", "given", console=False) as run:
        logger = EpochalLogger(run=run)
        trainer(logger).fit(Line(), data())
        assert logger.experiment is run
        assert run.state != "finished"
        assert logger.log_dir == str(run.dir)
    assert list(points(run_folders(runs)[0], "train/loss")) == list(range(8))


def test_it_pickles_with_an_open_run(runs: Path) -> None:
    logger = EpochalLogger("lines", "a", tags=["x"])
    logger.log_metrics({"loss": 1.0}, 0)
    copy = pickle.loads(pickle.dumps(logger))
    assert (copy.name, copy.version, copy.save_dir) == ("lines", "a", logger.save_dir)
    logger.finalize("success")
    copy.log_metrics({"loss": 0.5}, 1)
    copy.finalize("aborted")
    (folder,) = run_folders(runs)
    assert points(folder, "loss") == {0: 1.0, 1: 0.5}
    assert epochal.load(folder).info.status.state == "interrupted"


def test_values_and_hyperparameters_of_every_kind(runs: Path) -> None:
    logger = EpochalLogger("lines", "a", prefix="p")
    logger.log_hyperparams(Namespace(lr=0.1, layers=[1, 2], name="x"))
    logger.log_metrics({"a": torch.tensor(2.0), "b": math.nan}, 3)
    logger.finalize("success")
    (folder,) = run_folders(runs)
    assert epochal.load(folder).config == {"lr": 0.1, "layers": [1, 2], "name": "x"}
    assert points(folder, "p-a") == {3: 2.0}
    assert math.isnan(points(folder, "p-b")[3])


def test_samples_are_logged_with_the_calls_of_the_wandb_logger(runs: Path) -> None:
    logger = EpochalLogger("lines", "a", prefix="x")
    picture, sound = torch.rand(3, 8, 8), torch.zeros(100)
    logger.log_metrics({"loss": 1.0}, step=4)
    logger.log_image(key="in", images=[picture, picture], caption=["one", "two"], step=4)
    logger.log_audio("out", [sound], sample_rate=[8000])
    logger.log_video("clip", [torch.zeros(2, 3, 8, 8)], fps=[4], format=["gif"])
    logger.log_table("answers", columns=["q", "a"], data=[["1 + 1", 2]])
    logger.log_text("texts", columns=["text"], data=[["hello"]])
    with pytest.raises(epochal.UsageError, match="caption= has 1 entries for 2 samples"):
        logger.log_image("in", [picture, picture], caption=["one"])
    logger.finalize("success")
    kept = of_kind(Path(logger.log_dir), "blob")
    assert [(r["name"], r["step"], r["index"], r["caption"]) for r in kept[:2]] == [
        ("x-in", 4, 0, "one"),
        ("x-in", 4, 1, "two"),
    ]
    assert [(r["name"], r["step"], r["media_type"].partition("/")[0]) for r in kept[2:]] == [
        ("x-out", 4, "audio"),
        ("x-clip", 4, "image"),
        ("x-answers", 4, "application"),
        ("x-texts", 4, "application"),
    ]


def test_the_model_is_drawn_when_asked(runs: Path) -> None:
    logger = EpochalLogger("lines", "a", log_graph=True)
    trainer(logger, max_epochs=1).fit(Line(), data())
    (folder,) = run_folders(runs)
    assert len(epochal.load(folder).view.entries("graph")) == 1


_SPAWN = """
import atexit, sys
sys.path.insert(0, sys.argv[1])
import torch.distributed as dist
from tests.integrations import test_lightning as own

@atexit.register
def leave_group():
    # Lightning leaves only NCCL's group. A thread of gloo's may abort the end of the process.
    if dist.is_initialized():
        dist.destroy_process_group()

if __name__ == "__main__":
    logger = own.EpochalLogger("lines")
    options = {"devices": 2, "strategy": "ddp_spawn", "max_epochs": 1}
    trainer = own.trainer(logger, **options)
    trainer.fit(own.Line(), own.data())
    print("version", logger.version)
"""


@pytest.mark.timeout(900)  # three processes load torch and Lightning: minutes on a busy machine
def test_two_spawned_ranks_write_one_run(runs: Path) -> None:
    Path("train.py").write_text(_SPAWN)
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "train.py", root],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    (folder,) = run_folders(runs)
    assert f"version {folder.name}" in done.stdout
    assert list(points(folder, "train/loss")) == [0, 1]
    assert epochal.load(folder).info.status.state == "finished"


def test_a_fault_of_the_logger_changes_no_training(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, found = Line(), Line()
    trainer(False).fit(expected, data(), data())
    with monkeypatch.context() as patch:
        patch.setattr(Run, "log", raising(ValueError("broken on purpose")))
        patch.setattr(RunConfig, "update", raising(ValueError("broken on purpose")))
        trainer(EpochalLogger("lines", "a")).fit(found, data(), data())
    assert all(map(torch.equal, expected.state_dict().values(), found.state_dict().values()))
    (folder,) = run_folders(runs)
    (event,) = [one for one in of_kind(folder, "event") if one["name"] == "internal-error"]
    assert event["member"] == "integration lightning"
    assert epochal.load(folder).info.status.state == "finished"
