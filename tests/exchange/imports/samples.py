"""Small sources of every format: real files that the trackers wrote, and text files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from epochal.exchange.imports.foreign import Source, SourceRun
from epochal.exchange.imports.registry import open_foreign
from epochal.records import Record

GOLDEN = Path(__file__).with_name("golden")
TENSORBOARD = GOLDEN / "tensorboard"
WANDB = GOLDEN / "wandb"
MLFLOW = GOLDEN / "mlflow.db"
TRACKIO = GOLDEN / "trackio"

TRAINING = [
    {
        "log": "step",
        "time": "2025-03-01T12:00:00.500000",
        "step": 1,
        "epoch": 0.5,
        "loss": 2.5,
        "norm": 0.1,
        "lr": 1e-3,
        "step_tokens": 1024,
        "duration_ms": 100,
    },
    {"log": "eval", "time": "2025-03-01T12:00:01.500000", "step": 1, "loss": 2.25},
    {"log": "gpu", "time": "2025-03-01T12:00:02.500000", "id": 0, "power": 300000},
    {"log": "moe", "time": "2025-03-01T12:00:03.500000", "step": 2, "aux_loss": 0.01},
    {"log": "option", "time": "2025-03-01T12:00:03.600000", "name": "lr", "value": 1e-3},
]


@dataclass(frozen=True, slots=True)
class Sample:
    """One source: what is opened, the file in it that a test may damage, and its promises."""

    source: Path
    file: Path
    has_checksums: bool = False
    is_appended: bool = True


def tensorboard(folder: Path) -> Sample:
    target = folder / "logs"
    shutil.copytree(TENSORBOARD, target)
    return Sample(target, max((target / "first").glob("*.0")), has_checksums=True)


def wandb(folder: Path) -> Sample:
    target = folder / "wandb"
    shutil.copytree(WANDB, target)
    return Sample(target, next(target.rglob("*.wandb")), has_checksums=True)


def mlflow(folder: Path) -> Sample:
    target = Path(shutil.copy(MLFLOW, folder / "mlflow.db"))
    return Sample(target, target, is_appended=False)


def trackio(folder: Path) -> Sample:
    target = folder / "trackio"
    shutil.copytree(TRACKIO, target)
    return Sample(target, target / "digits.db", is_appended=False)


def training_json(folder: Path) -> Sample:
    target = folder / "gpt2" / "training.json"
    target.parent.mkdir()
    target.write_text("[\n" + ",\n".join(map(json.dumps, TRAINING)) + "\n]\n")
    return Sample(target, target)


def json_lines(folder: Path) -> Sample:
    target = folder / "history.jsonl"
    rows = [{"step": i, "ts": 1.7e9 + i, "loss": 1 / (i + 1)} for i in range(20)]
    target.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return Sample(target, target)


def csv_table(folder: Path) -> Sample:
    target = folder / "metrics.csv"
    rows = [f"{i},{1 / (i + 1)!r},{i * 0.5!r}\n" for i in range(20)]
    target.write_text("step,loss,acc\n" + "".join(rows))
    return Sample(target, target)


SAMPLES: Mapping[str, Callable[[Path], Sample]] = {
    "tensorboard": tensorboard,
    "wandb": wandb,
    "mlflow": mlflow,
    "trackio": trackio,
    "training_json": training_json,
    "json_lines": json_lines,
    "csv": csv_table,
}


def opened(path: Path) -> Source:
    source = open_foreign(path)
    assert source is not None
    return source


def records_in(path: Path, key: str | None = None) -> list[Record]:
    """Every record of a source's only run, or of the one with this key."""
    runs = {run.key: run for run in opened(path).runs()}
    run = next(iter(runs.values())) if key is None else runs[key]
    return new_records(run)


def new_records(run: SourceRun) -> list[Record]:
    """What a run has to read now, attempt by attempt."""
    batches = sorted(run.read_new(), key=lambda batch: batch.attempt)
    return [record for batch in batches for record in batch.records]


def values_of(records: list[Record], name: str) -> list[tuple[int, float]]:
    """The (step, value) pairs of a free metric."""
    return [(r["step"], r["m"][name]) for r in records if name in r.get("m", {})]
