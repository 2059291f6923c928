"""What a companion writes of a run: summaries that say the same as reading all of it again."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from epochal.companion.summary import SummaryWriter
from epochal.journal.fold import Fold, RunMetrics
from epochal.journal.layout import RunFolder, json_or_empty
from epochal.journal.row import RunRow
from epochal.journal.segments.seal import seal_part
from epochal.journal.summaries import (
    is_summarised,
    read_metrics,
    read_summary,
    summarise,
    write_summaries,
)
from tests.doubles.companions import companions, wait_for, wait_for_the_end
from tests.doubles.scripts import run_folder, run_script, start_script
from tests.store.journals import Journal

ON = {"EPOCHAL_COMPANION": "1"}
TRAINING = """
for step in range(50):
    run.log({"train/loss": 5.0 / (step + 1), "lr": 1e-3}, step=step)
"""


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path: Path) -> Iterator[None]:
    yield
    for pid in companions(run_folder(tmp_path)):
        os.kill(pid, signal.SIGKILL)


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def written(folder: Path | RunFolder) -> tuple[RunRow, RunMetrics]:
    """Both files of a run; they must be there."""
    path = str(folder.path if isinstance(folder, RunFolder) else folder)
    row, known = read_summary(path), read_metrics(path)
    assert row is not None
    assert known is not None
    return row, known


def comparable(value: Any) -> Any:
    """Plain values; means may differ in their last digit."""
    if isinstance(value, float):
        return pytest.approx(value)
    if isinstance(value, dict):
        return {name: comparable(one) for name, one in value.items()}
    return type(value)(map(comparable, value)) if isinstance(value, (list, tuple)) else value


def check_against_all(path: Path) -> RunRow:
    """Compare the files of a run with what reading all of it gives; returns its row."""
    row, known = written(path)
    assert write_summaries(RunFolder(path))
    whole_row, whole = written(path)
    assert msgspec.to_builtins(row) == comparable(msgspec.to_builtins(whole_row))
    by_key = {(one.name, one.axis, one.rank): one for one in known.metrics}
    assert [msgspec.to_builtins(by_key[one.name, one.axis, one.rank]) for one in whole.metrics] == [
        comparable(msgspec.to_builtins(one)) for one in whole.metrics
    ]
    return row


# -- real runs -------------------------------------------------------------------------------------


def test_a_run_that_finished_carries_all_of_it(tmp_path: Path) -> None:
    source = f"run = start(config={{'lr': 0.5, 'api_key': 'sk-ant-{'x' * 40}'}}){TRAINING}"
    source += "while not list(run.dir.glob('journal/findings*')): time.sleep(0.05)\nrun.finish()"
    assert run_script(tmp_path, source, **ON)[0] == 0
    folder = run_folder(tmp_path)
    wait_for_the_end(folder)
    assert is_summarised(RunFolder(folder))
    assert "sk-ant-x" not in (folder / "summary.json").read_text()
    row = check_against_all(folder)
    assert (row.step, row.config["lr"], row.is_ended, row.unwatched) == (49, 0.5, True, 0)
    assert row.headline[0].name == "train/loss"
    assert (row.headline[0].last, row.headline[0].count) == (0.1, 50)


def test_after_a_kill_of_run_and_companion_a_fold_goes_on_from_the_files(tmp_path: Path) -> None:
    folder = run_folder(tmp_path)
    source = f"run = start(){TRAINING}print(os.getpid(), flush=True)\nsys.stdin.readline()\n"
    source += "run.log({'train/loss': 0.01}, step=50)\nprint(os.getpid(), flush=True)\n"
    with start_script(tmp_path, source + "time.sleep(600)", **ON) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        process.stdout.readline()
        wait_for(lambda: (row := read_summary(str(folder))) is not None and row.step == 49)
        for pid in companions(folder):
            os.kill(pid, signal.SIGKILL)
        before = written(folder)[1]
        process.stdin.write("\n")
        process.stdin.flush()
        process.stdout.readline()
        process.kill()
    wait_for_the_end(folder)
    fold = Fold(before)
    run = RunFolder(folder)
    fold.read({name: run.part_path(name) for name in run.parts()}, run.sealed_parts())
    folded = summarise(fold.known(), json_or_empty(run.identity), place=str(folder))
    assert write_summaries(run)
    assert comparable(msgspec.to_builtins(written(folder)[0])) == msgspec.to_builtins(folded)
    assert folded.step == 50


def test_a_run_resumed_below_its_highest_step_is_read_again(tmp_path: Path) -> None:
    run_script(tmp_path, f"run = start(){TRAINING}run.finish()", **ON)
    folder = run_folder(tmp_path)
    wait_for_the_end(folder)
    source = "run = start(resume='must', resume_step=10)\nrun.log({'train/loss': 7.0}, step=10)\n"
    run_script(tmp_path, source + "run.finish()", **ON)
    wait_for_the_end(folder)
    assert is_summarised(RunFolder(folder))
    row = check_against_all(folder)
    assert (row.headline[0].count, row.headline[0].max, row.headline[0].max_at) == (11, 7.0, 10)


def test_an_alert_of_the_end_that_failed_counts_as_a_finding(tmp_path: Path) -> None:
    # Nobody listens on port 9, and only the companion learns of it, after the findings are closed.
    environment = {**ON, "EPOCHAL_ALERTS": "json://127.0.0.1:9"}
    run_script(tmp_path, f"run = start(){TRAINING}run.finish('failed')", **environment)
    folder = run_folder(tmp_path)
    wait_for_the_end(folder)
    assert is_summarised(RunFolder(folder))
    row = check_against_all(folder)
    assert row.counts == (0, 1, 0, 1)
    assert row.diagnosis is not None
    sentences = [cause.sentence for cause in row.diagnosis.causes]
    assert sentences == ["Alerts cannot be sent (json: the message was not accepted)."]


# -- what is written, and when ---------------------------------------------------------------------


def writer_of(journal: Journal, clock: Clock | None = None) -> SummaryWriter:
    """A writer that takes no time of its own."""
    clock = Clock() if clock is None else clock
    return SummaryWriter(journal.folder, clock=clock, cpu=lambda: 0.0)


def go_on_to_the_end(writer: SummaryWriter) -> None:
    wait_for(lambda: not writer.go_on())


def test_a_summary_follows_at_most_every_two_seconds_and_metrics_every_minute(
    tmp_path: Path,
) -> None:
    journal, clock = Journal(tmp_path).metrics(1, loss=1.0), Clock()
    writer = writer_of(journal, clock)
    writer.look()
    seen = []
    for clock.now_s in (1.0, 2.0, 3.0, 59.0, 60.0, 61.0, 119.0, 120.0):
        journal.metrics(int(clock.now_s) + 1, loss=1.0)
        writer.look()
        row, known = written(journal.folder)
        seen.append((row.step, known.facts.reached("step")))
    assert seen == [(1, 1), (3, 1), (3, 1), (60, 1), (60, 61), (62, 61), (120, 61), (120, 121)]


def test_large_metrics_are_written_less_often_and_a_sealed_part_is_no_reason_to_wait(
    tmp_path: Path,
) -> None:
    journal, clock = Journal(tmp_path).metrics(1, loss=1.0).finish(), Clock()
    writer = writer_of(journal, clock)
    writer.look()
    size = journal.folder.metrics.stat().st_size
    clock.now_s = 10.0
    seal_part(journal.folder, journal.folder.parts()[0])
    journal.metrics(2, loss=1.0, writer="rank-0001")
    writer.look()
    assert journal.folder.metrics.stat().st_size > size
    with journal.folder.metrics.open("ab") as file:
        file.write(b" " * 6_000_000)  # three minutes
    for clock.now_s, is_small in ((170.0, False), (191.0, True)):
        journal.metrics(int(clock.now_s), loss=1.0, writer="rank-0001")
        writer.look()
        assert (journal.folder.metrics.stat().st_size < 1_000_000) is is_small


def test_a_look_is_followed_by_a_rest_of_a_hundred_times_its_cpu_time(tmp_path: Path) -> None:
    journal, clock, cpu = Journal(tmp_path).metrics(1, loss=1.0), Clock(), Clock()

    def spent() -> float:
        cpu.now_s += 0.1
        return cpu.now_s

    writer = SummaryWriter(journal.folder, clock=clock, cpu=spent)
    writer.look()
    journal.metrics(2, loss=1.0)
    for clock.now_s, step in ((9.9, 1), (10.1, 2)):
        writer.look()
        assert written(journal.folder)[0].step == step


def test_nothing_is_written_where_nothing_was_read(tmp_path: Path) -> None:
    journal, clock = Journal(tmp_path).metrics(1, loss=1.0), Clock()
    go_on_to_the_end(writer_of(journal))
    files = (journal.folder.summary, journal.folder.metrics)
    before = [file.stat() for file in files]
    again = writer_of(journal, clock)
    for clock.now_s in (0.0, 100.0):
        again.look()
    go_on_to_the_end(again)
    again.finish()
    assert [file.stat() for file in files] == before


def test_a_file_that_a_reader_holds_open_is_replaced_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal, clock = Journal(tmp_path).metrics(1, loss=1.0), Clock()
    writer = writer_of(journal, clock)

    def refuse(*_paths: object) -> None:
        raise PermissionError(13, "it is used by another process")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", refuse)
        writer.look()
        assert not journal.folder.summary.exists()
        assert writer.go_on()
        assert writer.left() == "the run was not summarised"
    writer.look()
    assert written(journal.folder)[0].step == 1
    assert writer.left() is None
    assert {path.name for path in journal.folder.path.iterdir()} == {
        *("journal", "metrics.json", "run.json", "summary.json")
    }


def test_what_was_sealed_before_anybody_folded_it_is_read_by_another_process(
    tmp_path: Path,
) -> None:
    journal = Journal(tmp_path).metrics(1, loss=1.0).finish()
    seal_part(journal.folder, journal.folder.parts()[0])
    journal.metrics(2, attempt=2, loss=0.5).metrics(2, attempt=2, writer="rank-0001", loss=9.0)
    writer = writer_of(journal)

    def is_written() -> bool:
        writer.look()
        return journal.folder.summary.exists()

    wait_for(is_written)
    journal.metrics(3, attempt=2, loss=0.25)
    go_on_to_the_end(writer)
    assert is_summarised(journal.folder)
    row = check_against_all(journal.folder.path)
    assert (row.headline[0].count, row.headline[0].last) == (3, 0.25)


def test_a_run_whose_steps_come_again_is_read_again_once_a_minute_and_at_the_end(
    tmp_path: Path,
) -> None:
    journal, clock = Journal(tmp_path).metrics(5, loss=1.0), Clock()
    writer = writer_of(journal, clock)

    def lowest() -> float | None:
        writer.look()
        return written(journal.folder)[0].headline[0].min

    assert lowest() == 1.0
    journal.metrics(4, loss=0.5)
    wait_for(lambda: lowest() == 0.5 and writer.left() is None)  # the process has ended
    journal.metrics(3, loss=0.25)
    clock.now_s = 59.0
    assert lowest() == 0.5
    clock.now_s = 60.0
    wait_for(lambda: lowest() == 0.25)
    journal.metrics(2, loss=0.125)
    assert lowest() == 0.25
    go_on_to_the_end(writer)
    assert is_summarised(journal.folder)
    assert check_against_all(journal.folder.path).headline[0].min == 0.125


def test_one_that_cannot_be_read_at_all_is_left_to_the_command(tmp_path: Path) -> None:
    journal = Journal(tmp_path).metrics(1, loss=1.0)
    journal.folder.segments.mkdir()
    (journal.folder.segments / "loop.0002.0000.parquet").write_bytes(b"PAR1")
    writer = writer_of(journal)
    go_on_to_the_end(writer)
    assert writer.left() == "the run was not summarised"
    assert writer.command == f"epochal manage pack {journal.folder.path}"
    assert not journal.folder.summary.exists()
