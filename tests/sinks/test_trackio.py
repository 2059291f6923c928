"""What Trackio's own storage answers after a run was sent to it."""

from pathlib import Path

import pytest

from tests.conftest import StartRun
from tests.sinks.every_kind import CONFIG, log_every_kind
from tests.sinks.member import Member
from tests.sinks.trackers import ask, python_with, send

SERIES = """
import json, sys
from trackio.sqlite_storage import SQLiteStorage
found = {}
for row in SQLiteStorage.get_logs("tests", sys.argv[1]):
    for name, value in row.items():
        if name not in ("step", "timestamp"):
            found.setdefault(name, []).append([row["step"], value])
print(json.dumps(found))
"""
MEMBER = Member(
    reader=SERIES,
    package="trackio",
    environment=lambda folder: {"TRACKIO_DIR": str(folder)},
    argument=lambda _folder, run: run.name,
)

STORAGE = """
import json, sys
from trackio.sqlite_storage import SQLiteStorage
rows = SQLiteStorage.get_logs("mine", "by hand")
telemetry = SQLiteStorage.get_system_logs("mine", "by hand")
config = SQLiteStorage.get_run_config("mine", "by hand")
print(json.dumps({"rows": rows, "telemetry": telemetry, "config": config}, default=str))
"""


def test_rows_telemetry_and_config(
    start_run: StartRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = python_with("trackio")
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    run = start_run(config=CONFIG)
    log_every_kind(run)
    options = {"trackio_project": "mine", "trackio_name": "by hand"}
    send(python, run.dir, "trackio", options=options)
    # Sent once more by a process that has lost its memory: no row comes twice.
    (run.dir / "sinks.json").unlink()
    send(python, run.dir, "trackio", options=options)
    found = ask(python, STORAGE)
    losses = [row for row in found["rows"] if "train/loss" in row]
    assert [(row["step"], row["train/loss"]) for row in losses] == [(0, 3), (1, 2), (2, 1)]
    assert [row["gpu/1/power"] for row in found["telemetry"] if "gpu/1/power" in row] == [
        300_001
    ] * 3
    assert {name: found["config"][name] for name in CONFIG} == CONFIG
    media = {
        name: value["_type"]
        for row in found["rows"]
        for name, value in row.items()
        if isinstance(value, dict)
    }
    assert media == {"sample": "trackio.markdown", "weights/wte": "trackio.histogram"}
    assert next(row for row in found["rows"] if "allocator/weights_mib" in row)
