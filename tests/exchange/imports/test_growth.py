"""Importing costs as much more as there are more metrics, not the square of it."""

from __future__ import annotations

import json
import shutil
import sqlite3
import struct
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pytest

from epochal.exchange.imports.copying import copy_run
from epochal.exchange.imports.registry import own_formats
from tests.doubles.lines_run import lines_run
from tests.exchange.imports.event_files import field, leveldb, scalar, write_events
from tests.exchange.imports.samples import MLFLOW, TRACKIO, opened

pytestmark = pytest.mark.slow

_STEPS = 4
_FEW, _MANY = 500, 2_000
# Four times the metrics may run five times the lines: the square would run sixteen times.
_MOST = 5


def _names(count: int) -> list[str]:
    return [f"layer.{number}/norm" for number in range(count)]


def _values(step: int, count: int) -> dict[str, float]:
    return {name: step + number / 7 for number, name in enumerate(_names(count))}


def _csv(folder: Path, count: int) -> Path:
    path = folder / "metrics.csv"
    rows = [",".join([str(s), *map(repr, _values(s, count).values())]) for s in range(_STEPS)]
    path.write_text("\n".join([",".join(["step", *_names(count)]), *rows, ""]))
    return path


def _json_lines(folder: Path, count: int) -> Path:
    path = folder / "history.jsonl"
    rows = [{"step": step, **_values(step, count)} for step in range(_STEPS)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def _training_json(folder: Path, count: int) -> Path:
    path = folder / "training.json"
    records = [
        {"log": "metrics", "time": "2025-03-01T12:00:00", "step": step, "m": _values(step, count)}
        for step in range(_STEPS)
    ]
    path.write_text("[\n" + ",\n".join(map(json.dumps, records)) + "\n]\n")
    return path


def _tensorboard(folder: Path, count: int) -> Path:
    events = (
        scalar(name, value, step=step, t=1.7e9 + step)
        for step in range(_STEPS)
        for name, value in _values(step, count).items()
    )
    return write_events(folder / "logs", events).parent


def _wandb(folder: Path, count: int) -> Path:
    histories = [
        b"".join(
            field(1, field(1, name) + b"\x31" + struct.pack("<d", value))
            for name, value in _values(step, count).items()
        )
        + field(2, b"\x08" + bytes([step]))
        for step in range(_STEPS)
    ]
    path = folder / "run-1.wandb"
    path.write_bytes(leveldb([field(2, history) for history in histories]))
    return path


def _mlflow(folder: Path, count: int) -> Path:
    path = Path(shutil.copy(MLFLOW, folder / "mlflow.db"))
    with sqlite3.connect(path) as database:
        ((run,),) = database.execute("SELECT run_uuid FROM runs WHERE name = 'first'")
        rows = [
            (name, value, 1_700_000_000_000 + step, run, step)
            for step in range(_STEPS)
            for name, value in _values(step, count).items()
        ]
        insert = "INSERT INTO metrics (key, value, timestamp, run_uuid, step) VALUES (?,?,?,?,?)"
        database.executemany(insert, rows)
    database.close()
    return path


def _trackio(folder: Path, count: int) -> Path:
    path = folder / "trackio"
    shutil.copytree(TRACKIO, path)
    with sqlite3.connect(path / "digits.db") as database:
        ((run,),) = database.execute("SELECT run_id FROM metrics WHERE run_name = 'first' LIMIT 1")
        rows = [
            (run, "2026-11-15T03:10:53+00:00", "first", 100 + s, json.dumps(_values(s, count)))
            for s in range(_STEPS)
        ]
        insert = (
            "INSERT INTO metrics (run_id, timestamp, run_name, step, metrics) VALUES (?,?,?,?,?)"
        )
        database.executemany(insert, rows)
    database.close()
    return path


WIDE: Mapping[str, Callable[[Path, int], Path]] = {
    "csv": _csv,
    "json_lines": _json_lines,
    "training_json": _training_json,
    "tensorboard": _tensorboard,
    "wandb": _wandb,
    "mlflow": _mlflow,
    "trackio": _trackio,
}


def test_every_format_is_tried() -> None:
    assert set(WIDE) == set(own_formats())


def _copied(path: Path) -> None:
    source = opened(path)
    runs = [copy_run(source, run, root=path.parent / "runs") for run in source.runs()]
    assert max(run.records for run in runs) >= _STEPS


@pytest.mark.parametrize("name", WIDE)
def test_the_cost_grows_with_the_number_of_metrics(tmp_path: Path, name: str) -> None:
    lines: list[int] = []
    for number, count in enumerate((_FEW, _FEW, _MANY)):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = WIDE[name](folder, count)
        lines.append(lines_run(partial(_copied, path)))
    _, few, many = lines  # the first one also loaded what is needed
    assert many <= _MOST * few
