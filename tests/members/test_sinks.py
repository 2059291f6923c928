"""Each sink fails or hangs, and the others are sent everything."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from epochal.base.guard import Fault, Guard
from epochal.exchange.sinks import worker
from epochal.exchange.sinks.reporting import options_from
from epochal.exchange.sinks.sink import Sink
from epochal.exchange.sinks.worker import Forwarding
from epochal.journal.layout import RunFolder
from tests.exchange.sinks.doubles import Hanging, Memory, MemorySink
from tests.exchange.sinks.journal_files import metrics, run_folder, write
from tests.members.faults import broken

WAIT_S = 120.0
METHODS = ("open", "write", "flush", "close")


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    folder = run_folder(tmp_path / "run")
    write(folder, metrics(0), metrics(1))
    return folder


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_FIRST_PAUSE_S", 0.001)


def two_sinks(
    folder: RunFolder, faulty: Callable[[], Sink], memory: Memory, guard: Guard
) -> Forwarding:
    return Forwarding(
        folder,
        options_from({"report_to": ["json_log", "plain_log"]}),
        look_every_s=0.01,
        tries=2,
        make=lambda made: faulty() if made == "json_log" else MemorySink(memory),
        guard=guard,
        budget_s=0.05,
    )


def test_a_sink_that_raises_is_counted_and_the_others_go_on(folder: RunFolder) -> None:
    for method in METHODS:
        reported: list[Fault] = []
        memory, guard = Memory(), Guard(reported.append)

        def faulty(method: str = method) -> Sink:
            sink = MemorySink(Memory())
            setattr(sink, method, broken)
            return sink

        (folder.path / "sinks.json").unlink(missing_ok=True)
        sending = two_sinks(folder, faulty, memory, guard)
        sending.finish()
        sending.start()
        assert sending.wait(WAIT_S)
        assert memory.steps == [0, 1]
        assert [one.member for one in reported] == ["sink json_log"]
        assert "Traceback" in reported[0].traceback
        assert list(sending.unsent()) == ["json_log"]


def test_a_sink_that_hangs_is_counted_once_and_the_others_go_on(folder: RunFolder) -> None:
    memory, guard, hanging = Memory(), Guard(), Hanging()
    sending = two_sinks(folder, lambda: MemorySink(Memory(), hanging), memory, guard)
    sending.finish()
    sending.start()
    assert hanging.began.wait(WAIT_S)
    until_s = time.monotonic() + WAIT_S
    while (not guard.faults or memory.steps != [0, 1]) and time.monotonic() < until_s:
        sending.note_hangs()
        time.sleep(0.001)
    sending.note_hangs()
    assert memory.steps == [0, 1]
    assert guard.count("sink json_log") == 1
    assert guard.faults["sink json_log"].error.startswith("BudgetExceeded")
    assert "before_write" in guard.faults["sink json_log"].traceback
    hanging.may_go.set()
    assert sending.wait(WAIT_S)
