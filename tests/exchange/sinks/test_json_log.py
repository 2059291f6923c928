import json
from pathlib import Path
from typing import Any

import pytest

from epochal.errors import FormatError
from epochal.exchange.sinks.members.json_log import JsonLogOptions, JsonLogSink
from epochal.exchange.sinks.sink import Entry, SinkContext
from epochal.journal.layout import RunFolder
from epochal.records import Position
from tests.exchange.sinks.member import Member

SERIES = """
import json, sys
records = json.load(open(sys.argv[1]))
print(json.dumps({"train/loss": [[r["step"], r["loss"]] for r in records if r["log"] == "step"]}))
"""
MEMBER = Member(
    reader=SERIES,
    options=lambda folder: {"log_file": str(folder / "log.json")},
    argument=lambda folder, _run: str(folder / "log.json"),
)


def context(tmp_path: Path, state: dict[str, Any] | None = None) -> SinkContext:
    return SinkContext(
        folder=RunFolder(tmp_path),
        identity={},
        options=JsonLogOptions(log_file=str(tmp_path / "out" / "log.json")),
        state=state or {},
    )


def batch(*steps: int) -> list[Entry]:
    return [
        Entry(Position("loop", 1, 0, s), {"log": "step", "t": 1.5, "step": s}, s) for s in steps
    ]


def steps(tmp_path: Path) -> list[int]:
    return [record["step"] for record in json.loads((tmp_path / "out/log.json").read_text())]


def test_records_have_a_time_in_iso_form(tmp_path: Path) -> None:
    sink = JsonLogSink()
    assert sink.open(context(tmp_path))
    for entry in batch(0):
        sink.write(entry)
    (record,) = json.loads((tmp_path / "out/log.json").read_text())
    assert record.keys() == {"log", "time", "step"}
    sink.close(None)


def test_what_was_not_confirmed_is_taken_off_again(tmp_path: Path) -> None:
    sink = JsonLogSink()
    sink.open(context(tmp_path))
    for entry in batch(0, 1):
        sink.write(entry)
    state = sink.flush()
    for entry in batch(2, 3):
        sink.write(entry)
    sink.close(None)
    again = JsonLogSink()
    assert again.open(context(tmp_path, state))
    for entry in batch(2):
        again.write(entry)
    again.close("finished")
    assert steps(tmp_path) == [0, 1, 2]


def test_deleted_file_asks_for_everything_again(tmp_path: Path) -> None:
    sink = JsonLogSink()
    sink.open(context(tmp_path))
    for entry in batch(0):
        sink.write(entry)
    state = sink.close(None)
    (tmp_path / "out/log.json").unlink()
    again = JsonLogSink()
    assert not again.open(context(tmp_path, state))
    again.close(None)


def test_array_of_another_run_is_gone_on_with(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/log.json").write_text('[\n{"log":"step","step":7}\n]')
    sink = JsonLogSink()
    assert sink.open(context(tmp_path))
    for entry in batch(0):
        sink.write(entry)
    sink.close(None)
    assert steps(tmp_path) == [7, 0]


def test_file_that_is_no_array_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/log.json").write_text("precious")
    with pytest.raises(FormatError, match="not a JSON array"):
        JsonLogSink().open(context(tmp_path))
    assert (tmp_path / "out/log.json").read_text() == "precious"
