"""The end of a run: whatever callbacks do, the last record is written and everybody agrees."""

from __future__ import annotations

import contextlib
import contextvars
import os
import threading
from collections.abc import Callable
from typing import Any

import pytest

from epochal.errors import RunFinishedError, ValueTypeError
from epochal.exchange.media.types import Image
from epochal.journal.layout import LOOP, PartName
from epochal.journal.reader import read_part
from epochal.run import ending
from epochal.run.run import Run, recorder_of
from epochal.store.local.by_path import load_run
from tests.conftest import StartRun
from tests.doubles.journals import failing_sync, of_kind, records, steps


def interrupt() -> None:
    raise KeyboardInterrupt


def leave() -> None:
    raise SystemExit(3)


def divide() -> None:
    1 / 0  # noqa: B018


def recurse() -> None:
    recurse()


def exhaust() -> None:
    raise MemoryError


def loop_records(run: Run) -> list[dict[str, Any]]:
    """What the training wrote, without what came after its end."""
    part = PartName(LOOP, 1, 0)
    return [record for _, record in read_part(recorder_of(run).folder.part_path(part), part)]


def is_over(run: Run) -> bool:
    """Whether the run is over, which the run, its calls and readers say alike."""
    try:
        run.log({"late": 1})
        accepts = True
    except RunFinishedError:
        accepts = False
    state = load_run(run.dir).info.status.state
    is_finished = run.state == "finished"
    assert is_finished == (not accepts) == (state == "finished"), (run.state, accepts, state)
    return is_finished


@pytest.mark.parametrize("fault", [divide, recurse, exhaust])
@pytest.mark.parametrize("hook", ["on_finish", "after_finish"])
def test_a_callback_that_raises_does_not_keep_a_run_from_finishing(
    start_run: StartRun, hook: str, fault: Callable[[], None], capsys: pytest.CaptureFixture[str]
) -> None:
    run = start_run()
    called: list[str] = []
    add = getattr(recorder_of(run).ending, hook).add
    add(lambda *_: called.append("before"))
    add(lambda *_: fault())
    add(lambda *_: called.append("after"))
    run.finish()
    assert called == ["before", "after"]
    assert "finish" in [record["log"] for record in loop_records(run)]
    assert is_over(run)
    assert capsys.readouterr().err.count("internal error in") == 1


@pytest.mark.parametrize(("fault", "error"), [(interrupt, KeyboardInterrupt), (leave, SystemExit)])
@pytest.mark.parametrize("hook", ["on_finish", "after_finish", "on_close"])
def test_an_interruption_goes_on_when_the_run_has_finished(
    start_run: StartRun, hook: str, fault: Callable[[], None], error: type[BaseException]
) -> None:
    run = start_run()
    called: list[str] = []
    add = getattr(recorder_of(run).ending, hook).add
    add(lambda *_: fault())
    add(lambda *_: called.append("after"))
    recorder_of(run).ending.after_finish.add(called.append)
    with pytest.raises(error):
        run.finish()
    assert called == ["after", "finished"]
    assert [r["status"] for r in of_kind(run.dir, "finish")] == ["finished"]
    assert is_over(run)


def test_a_second_call_completes_what_an_interruption_left(start_run: StartRun) -> None:
    run = start_run()
    called: list[str] = []

    def add_another() -> None:
        run.on_finish(lambda: called.append("late"))
        interrupt()

    run.on_finish(add_another)
    with pytest.raises(KeyboardInterrupt):
        run.finish("failed", reason="first")
    run.finish()
    assert called == ["late"]
    assert [(r["status"], r["reason"]) for r in of_kind(run.dir, "finish")] == [("failed", "first")]


@pytest.mark.parametrize("hook", ["on_finish", "on_close", "after_finish"])
def test_a_fault_of_a_callback_is_recorded_once_with_its_traceback(
    start_run: StartRun, hook: str
) -> None:
    run = start_run()

    def fail(*_: Any) -> None:
        divide()

    for _ in range(3):
        getattr(recorder_of(run).ending, hook).add(fail)
    run.finish()
    (event,) = [r for r in of_kind(run.dir, "event") if r["name"] == "internal-error"]
    assert event["member"].startswith(f"{hook} callback ")
    assert event["reason"].startswith("ZeroDivisionError")
    assert "1 / 0" in event["traceback"]
    assert recorder_of(run).guard.count(event["member"]) == 3


def test_run_readers_and_log_agree_while_callbacks_run(start_run: StartRun) -> None:
    run = start_run()
    seen: dict[str, bool] = {}

    def look(*_: Any) -> None:
        with contextlib.suppress(RunFinishedError):
            run.log({"from": 1})
        seen["on_finish" if not seen else "after_finish"] = run.state == "finished"
        if run.state == "finished":
            assert is_over(run)

    run.on_finish(look)
    recorder_of(run).ending.after_finish.add(look)
    run.finish()
    assert seen == {"on_finish": False, "after_finish": True}
    assert [r["log"] for r in records(run.dir)][-2:] == ["metrics", "finish"]


def test_finish_returns_although_a_callback_hangs(
    start_run: StartRun, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ending, "FINISH_WAIT_S", 0.2)
    run = start_run(finish_wait_s=0)
    hangs, called = threading.Event(), threading.Event()

    def upload() -> None:
        hangs.wait()

    run.on_finish(upload)
    run.on_finish(called.set)
    run.finish()
    assert called.is_set()
    assert is_over(run)
    (event,) = [r for r in of_kind(run.dir, "event") if r["name"] == "callback-running"]
    assert event["callback"].endswith("upload")
    assert "hangs.wait()" in event["traceback"]
    assert "upload' of run" in capsys.readouterr().err
    hangs.set()


def test_a_callback_has_the_context_of_the_program(start_run: StartRun) -> None:
    run = start_run()
    user: contextvars.ContextVar[str] = contextvars.ContextVar("user", default="nobody")
    user.set("me")
    seen: list[str] = []
    run.on_finish(lambda: seen.append(user.get()))
    run.finish()
    assert seen == ["me"]


def test_a_callback_may_call_finish(start_run: StartRun) -> None:
    run = start_run()
    run.on_finish(run.finish)
    recorder_of(run).ending.after_finish.add(lambda _: run.finish("failed"))
    run.finish()
    assert [r["status"] for r in of_kind(run.dir, "finish")] == ["finished"]


def test_a_tick_that_raises_is_disabled_and_logging_goes_on(start_run: StartRun) -> None:
    run = start_run()
    calls: list[int] = []

    def fail() -> None:
        calls.append(1)
        divide()

    recorder_of(run).on_tick.add(fail)
    writer = recorder_of(run)._writer
    assert writer is not None
    for step in range(10):
        writer._is_due = True
        run.log({"a": 1}, step=step)
    assert len(calls) == 3
    run.finish()
    assert len(of_kind(run.dir, "metrics")) == 10


def test_an_observer_of_lines_that_raises_is_disabled_and_others_see_all(
    start_run: StartRun,
) -> None:
    run = start_run()
    seen: list[bytes] = []

    def fail(line: bytes) -> None:
        divide()

    recorder_of(run).observe(fail)
    recorder_of(run).observe(seen.append)
    for step in range(5):
        run.log({"a": 1}, step=step)
    run.finish()
    assert sum(b'"metrics"' in line for line in seen) == 5
    assert len([r for r in of_kind(run.dir, "event") if r["name"] == "internal-error"]) == 1


class BrokenStream:
    """A terminal that fails in ways that no file does."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return False

    def write(self, text: str) -> int:
        raise RuntimeError("this stream is broken")

    def flush(self) -> None:
        raise AttributeError("flush")


def test_a_broken_stream_does_not_reach_the_loop(
    start_run: StartRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr", BrokenStream())
    run = start_run(console=True, line_every_s=0)
    for step in range(3):
        run.log_step(step, 0.1, 10, 1.0, 1.0, 0.5, 0.1)
    run.message("words", level="warning")
    run.finish()
    assert len(of_kind(run.dir, "step")) == 3
    guard = recorder_of(run).console.guard
    assert guard.count("console line") + guard.count("console message") >= 5
    (event,) = [r for r in of_kind(run.dir, "event") if r["name"] == "internal-error"]
    assert event["reason"] == "RuntimeError: this stream is broken"


def test_a_line_whose_text_cannot_be_made_is_dropped_and_counted(
    start_run: StartRun, capsys: pytest.CaptureFixture[str]
) -> None:
    run = start_run(console=True)
    recorder_of(run).console.line(lambda: str(1 // 0))
    recorder_of(run).console.line("words")
    run.finish()
    err = capsys.readouterr().err
    assert recorder_of(run).console.guard.count("console line") == 1
    assert "words" in err
    assert err.count("internal error in console line") == 1


def test_a_status_that_is_no_text_is_refused(start_run: StartRun) -> None:
    run = start_run()
    with pytest.raises(ValueTypeError, match="status must be a text, not int"):
        run.finish(3)  # type: ignore[arg-type]
    run.log({"a": 1})


def test_finish_brings_records_and_pictures_to_the_disk(start_run: StartRun) -> None:
    run = start_run()
    run.log({"loss": 1.0, "picture": Image(b"GIF89a")}, step=0)
    with failing_sync(times=0) as synced:
        run.finish()
    (part,), (picture,) = (run.dir / "journal").iterdir(), (run.dir / "blobs").iterdir()
    assert synced[-1] == part  # with the last record
    folders = {run.dir, run.dir.parent, run.dir.parent.parent}
    assert set(synced) > {part, part.parent, picture, picture.parent, *folders}


def test_flush_raises_while_the_disk_fails_and_reports_it_once(
    start_run: StartRun, capsys: pytest.CaptureFixture[str]
) -> None:
    run = start_run()
    run.log({"loss": 1.0}, step=0)
    with failing_sync(times=1000):
        for step in (1, 2):
            with pytest.raises(OSError, match="Input/output error"):
                run.flush()
            run.log({"loss": 1.0}, step=step)
    run.flush()
    run.finish()
    assert steps(run.dir) == [0, 1, 2]
    assert [event["name"] for event in of_kind(run.dir, "event")] == ["sync-failed"]
    assert capsys.readouterr().err.count("failed to store") == 1


def test_a_picture_that_the_disk_failed_to_store_is_written_again(start_run: StartRun) -> None:
    run = start_run()
    run.log({"picture": Image(b"GIF89a")}, step=0)
    (picture,) = (run.dir / "blobs").iterdir()
    inode = picture.stat().st_ino
    with failing_sync(picture):
        run.flush()
    assert picture.read_bytes() == b"GIF89a"
    assert picture.stat().st_ino != inode
    with failing_sync(times=0) as synced:
        run.flush()
    assert picture not in synced
    run.finish()


def test_finish_reports_a_disk_that_fails_and_raises_nothing(
    start_run: StartRun, capsys: pytest.CaptureFixture[str]
) -> None:
    run = start_run()
    run.log({"loss": 1.0}, step=0)
    with failing_sync(times=1000):
        run.finish()
    assert [event["name"] for event in of_kind(run.dir, "event")] == ["sync-failed"]
    assert of_kind(run.dir, "finish")[0]["status"] == "finished"
    assert capsys.readouterr().err.count("failed to store") == 1


def test_finish_does_not_wait_for_ever_for_a_disk_that_hangs(
    start_run: StartRun, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = start_run(finish_wait_s=0.1)
    works = threading.Event()
    monkeypatch.setattr(os, "fsync", lambda _descriptor: works.wait())
    run.finish()
    works.set()
    assert of_kind(run.dir, "finish")[0]["status"] == "finished"
    assert capsys.readouterr().err.count("no longer waits") == 1
