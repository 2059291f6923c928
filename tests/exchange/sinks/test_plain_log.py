from __future__ import annotations

from pathlib import Path
from typing import Any

from epochal.exchange.sinks.members.plain_log import PlainLogOptions, PlainLogSink
from epochal.exchange.sinks.sink import Entry, SinkContext
from epochal.journal.layout import RunFolder
from epochal.records import Position
from tests.exchange.sinks.member import Member

SERIES = """
import json, sys
found = {}
for line in open(sys.argv[1]):
    step, kind, value = line.split()
    found.setdefault(kind, []).append([int(step), float(value)])
print(json.dumps(found))
"""
MEMBER = Member(
    reader=SERIES,
    options=lambda folder: {"plain_log_file": str(folder / "log.txt")},
    argument=lambda folder, _run: str(folder / "log.txt"),
    loss="train",
)


def context(tmp_path: Path, state: dict[str, Any] | None = None) -> SinkContext:
    return SinkContext(
        folder=RunFolder(tmp_path), identity={}, options=PlainLogOptions(), state=state or {}
    )


def entry(record: dict[str, Any], *, writer: str = "loop", step: int = 0) -> Entry:
    return Entry(Position(writer, 1, 0, 0), {"t": 1.5, **record}, record.get("step", step))


def losses(*steps: int) -> list[Entry]:
    return [entry({"log": "step", "step": step, "loss": 1.5}) for step in steps]


def write(sink: PlainLogSink, entries: list[Entry]) -> None:
    for one in entries:
        sink.write(one)
    sink.flush()


def lines(tmp_path: Path) -> list[str]:
    return (tmp_path / "training.txt").read_text().splitlines()


def test_numbers_go_by_the_names_of_old_logs(tmp_path: Path) -> None:
    sink = PlainLogSink()
    assert sink.open(context(tmp_path))
    write(
        sink,
        [
            entry({"log": "step", "step": 3, "loss": 2.5, "norm": 0.5}),
            entry({"log": "eval", "step": 3, "loss": 2.75}),
            entry({"log": "metrics", "step": 3, "m": {"hellaswag": 0.25, "a b": 1}}),
            entry({"log": "metrics", "step": 4, "m": {"x": None}, "nonfinite": {"x": "nan"}}),
        ],
    )
    assert lines(tmp_path) == [
        "3 train 2.5",
        "3 train/norm 0.5",
        "3 val 2.75",
        "3 hellaswag 0.25",
        "3 a_b 1.0",
        "4 x nan",
    ]
    sink.close("finished")


def test_two_scores_of_one_evaluation_are_told_apart(tmp_path: Path) -> None:
    sink = PlainLogSink()
    sink.open(context(tmp_path))
    scores = {"hellaswag_accuracy": 0.5, "hellaswag_acc": 0.25}
    write(sink, [entry({"log": "eval", "step": 3, "loss": 2.75, "m": scores})])
    assert sorted(lines(tmp_path)) == ["3 hellaswag 0.5", "3 hellaswag_acc 0.25", "3 val 2.75"]
    sink.close("finished")


def test_other_ranks_and_the_machine_are_left_out(tmp_path: Path) -> None:
    sink = PlainLogSink()
    sink.open(context(tmp_path))
    write(
        sink,
        [
            entry({"log": "step", "step": 1, "loss": 2.5}, writer="rank-0001"),
            entry({"log": "system", "cpu_pct": 5.0}),
            entry({"log": "message", "text": "hello"}),
        ],
    )
    sink.close(None)
    assert lines(tmp_path) == []


def test_what_was_not_confirmed_is_taken_off_again(tmp_path: Path) -> None:
    sink = PlainLogSink()
    sink.open(context(tmp_path))
    write(sink, losses(0, 1))
    state = sink.flush()
    write(sink, losses(2, 3))
    sink.close(None)
    again = PlainLogSink()
    assert again.open(context(tmp_path, state))
    write(again, losses(2))
    again.close("finished")
    assert lines(tmp_path) == ["0 train 1.5", "1 train 1.5", "2 train 1.5"]


def test_a_file_that_another_run_left_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "training.txt").write_text("0 train 9.0\n")
    sink = PlainLogSink()
    assert sink.open(context(tmp_path))
    write(sink, losses(0))
    sink.close(None)
    assert lines(tmp_path) == ["0 train 1.5"]


def test_a_deleted_file_asks_for_everything_again(tmp_path: Path) -> None:
    sink = PlainLogSink()
    sink.open(context(tmp_path))
    write(sink, losses(0))
    state = sink.close(None)
    (tmp_path / "training.txt").unlink()
    again = PlainLogSink()
    assert not again.open(context(tmp_path, state))
    again.close(None)


def test_steps_that_are_made_again_are_there_once(tmp_path: Path) -> None:
    sink = PlainLogSink()
    sink.open(context(tmp_path))
    write(sink, [*losses(0, 1, 2, 3), entry({"log": "eval", "step": 3, "loss": 2.5})])
    state = sink.flush()
    write(sink, [entry({"log": "resume", "step": 2, "attempt": 2}), *losses(2)])
    assert lines(tmp_path) == ["0 train 1.5", "1 train 1.5", "2 train 1.5"]
    sink.close(None)
    again = PlainLogSink()
    assert not again.open(context(tmp_path, state))  # less is left than was confirmed
    again.close(None)


def test_a_line_that_is_not_whole_is_cut(tmp_path: Path) -> None:
    sink = PlainLogSink()
    sink.open(context(tmp_path))
    write(sink, losses(0, 1))
    state = sink.close(None)
    again = PlainLogSink()
    assert again.open(context(tmp_path, {**state, "bytes": state["bytes"] - 3}))
    write(again, losses(1))
    again.close(None)
    assert lines(tmp_path) == ["0 train 1.5", "1 train 1.5"]


def test_in_a_folder_the_file_is_named_after_the_run(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    options = PlainLogOptions(plain_log_file=str(tmp_path / "logs"))
    sink = PlainLogSink()
    sink.open(SinkContext(folder=RunFolder(tmp_path / "run-7"), identity={}, options=options))
    write(sink, losses(0))
    sink.close(None)
    assert (tmp_path / "logs" / "run-7.txt").read_text() == "0 train 1.5\n"


def test_only_the_kinds_that_are_asked_for(tmp_path: Path) -> None:
    options = PlainLogOptions(plain_log_kinds="train, val")
    sink = PlainLogSink()
    sink.open(SinkContext(folder=RunFolder(tmp_path), identity={}, options=options))
    write(sink, [entry({"log": "step", "step": 3, "loss": 2.5, "norm": 0.5}), *losses(4)])
    write(sink, [entry({"log": "eval", "step": 4, "loss": 2.75})])
    sink.close(None)
    assert lines(tmp_path) == ["3 train 2.5", "4 train 1.5", "4 val 2.75"]
