from __future__ import annotations

import ast
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import epochal
from epochal.base.alarm import Call, interrupting
from epochal.base.guard import DISABLE_AFTER, Fault, Guard, describe
from epochal.errors import InternalError, UsageError

# Ends by itself, should nothing else end it.
LONG_S = 60.0


def raise_(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize("error", [ValueError("x"), RecursionError("deep"), MemoryError()])
def test_a_fault_of_a_member_does_not_reach_its_caller(error: Exception) -> None:
    guard = Guard()
    assert guard.run("rule", raise_, error, default=7) == 7
    assert guard.count("rule") == 1


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)])
def test_what_ends_the_process_passes(error: BaseException) -> None:
    with pytest.raises(type(error)):
        Guard().run("rule", raise_, error)


def test_each_member_is_reported_once_with_its_traceback() -> None:
    reported: list[Fault] = []
    guard = Guard(reported.append)
    for _ in range(3):
        guard.run("a", raise_, ValueError("broken"))
    guard.run("b", raise_, KeyError("k"))
    assert [(fault.member, fault.error, fault.count) for fault in reported] == [
        ("a", "ValueError: broken", 3),
        ("b", "KeyError: 'k'", 1),
    ]
    assert "raise_" in reported[0].traceback
    assert set(reported[0].fields()) == {"member", "reason", "traceback", "version"}


def test_a_reporter_that_raises_is_ignored() -> None:
    guard = Guard(lambda _fault: 1 / 0)
    guard.run("a", raise_, ValueError())
    assert guard.count("a") == 1


def test_a_member_is_disabled_after_its_last_fault() -> None:
    guard = Guard()
    for _ in range(DISABLE_AFTER):
        assert not guard.is_disabled("a")
        guard.run("a", raise_, ValueError())
    assert guard.is_disabled("a")


def test_a_block_is_a_member() -> None:
    guard = Guard()
    with guard.member("block"):
        raise_(OSError("disk"))
    assert guard.faults["block"].error == "OSError: disk"


def test_one_of_many_that_raises_is_left_out_of_a_selection() -> None:
    guard = Guard()
    found = guard.select([1, 0, -1, 2], lambda number: 1 / number > 0, str)
    assert found == [1, 2]
    assert guard.count("0") == 1
    assert guard.total == 1


def test_an_error_without_words_has_a_description() -> None:
    class Silent(Exception):  # noqa: N818
        def __str__(self) -> str:
            raise RuntimeError

    assert describe(Silent()) == "Silent: (no text)"


def spin() -> None:
    until_s = time.monotonic() + LONG_S
    while time.monotonic() < until_s:
        pass


def sleep() -> None:
    time.sleep(LONG_S)


@pytest.fixture
def armed() -> Iterator[Guard]:
    guard = Guard(tick_s=0.01)
    with interrupting(), guard.alarm.armed():
        yield guard


@pytest.mark.parametrize("hang", [spin, sleep])
def test_a_call_that_hangs_is_interrupted_and_says_where(
    armed: Guard, hang: Callable[[], None]
) -> None:
    assert armed.run("hangs", hang, default=3, budget_s=0.05) == 3
    (fault,) = armed.faults.values()
    assert fault.error == "BudgetExceeded: did not return within its budget of 0.05 s"
    assert hang.__name__ in fault.traceback


def test_an_alarm_ends_the_innermost_call_that_is_over_its_budget(armed: Guard) -> None:
    def outer() -> str:
        armed.run("inner", sleep, budget_s=0.05)
        return "goes on"

    assert armed.run("outer", outer, budget_s=LONG_S) == "goes on"
    assert list(armed.faults) == ["inner"]


def test_an_alarm_for_an_outer_call_passes_the_guards_within(armed: Guard) -> None:
    def outer() -> None:
        while True:
            armed.run("inner", time.sleep, 0.001, budget_s=LONG_S)
            armed.run("inner", time.sleep, 0.001)
            with armed.member("inner"):
                time.sleep(0.001)

    armed.run("outer", outer, budget_s=0.05)
    assert list(armed.faults) == ["outer"]


def test_an_alarm_leaves_no_alarm_behind_and_gives_back_the_earlier_one() -> None:
    before, left_s = signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)[0]
    with interrupting(), Guard().alarm.armed():
        assert signal.getsignal(signal.SIGALRM) != before
    assert signal.getsignal(signal.SIGALRM) == before
    assert abs(signal.getitimer(signal.ITIMER_REAL)[0] - left_s) < LONG_S


def test_no_alarm_is_set_in_a_process_that_is_not_ours() -> None:
    before = signal.getsignal(signal.SIGALRM)
    with Guard().alarm.armed():
        assert signal.getsignal(signal.SIGALRM) == before


@pytest.mark.parametrize("fault", [lambda: raise_(RecursionError()), sleep])
def test_a_fault_of_one_of_many_leaves_the_others(armed: Guard, fault: Callable[[], None]) -> None:
    calls: list[str] = []

    def visit(members: Iterator[str], call: Call) -> None:
        for member in members:
            call.member = member
            if member == "b":
                fault()
            calls.append(member)

    armed.each(["a", "b", "c"], visit, budget_s=0.05, on_fault=armed.note)
    assert calls == ["a", "c"]
    assert list(armed.faults) == ["b"]


def test_a_bounded_call_is_left_behind_and_left_out_until_it_ends() -> None:
    guard, ended = Guard(), threading.Event()
    assert guard.bounded("source", ended.wait, default="none", budget_s=0.5) == "none"
    assert guard.bounded("source", lambda: "again", budget_s=LONG_S) is None
    assert guard.count("source") == 1
    assert "wait" in guard.faults["source"].traceback
    ended.set()
    while guard.has_stuck:
        time.sleep(0.001)
    assert guard.bounded("source", lambda: "again", budget_s=LONG_S) == "again"


def test_a_bounded_call_that_spins_is_ended() -> None:
    guard = Guard()
    guard.bounded("source", spin, budget_s=0.5)
    until_s = time.monotonic() + LONG_S / 2
    while guard.has_stuck and time.monotonic() < until_s:
        time.sleep(0.001)
    assert not guard.has_stuck


@pytest.mark.parametrize("error", [ValueError("x"), MemoryError(), SystemExit(3)])
def test_what_a_bounded_call_raises_is_a_fault(error: BaseException) -> None:
    guard = Guard()
    assert guard.bounded("source", raise_, error, default=1, budget_s=LONG_S) == 1
    assert guard.count("source") == 1


def test_what_is_expected_is_handed_back_and_not_counted() -> None:
    guard = Guard()
    outcome = guard.outcome("sink", raise_, OSError("disk"), expected=(OSError,))
    assert isinstance(outcome.error, OSError)
    assert guard.faults == {}


def test_what_nobody_foresaw_is_explained_in_a_sentence() -> None:
    guard = Guard()
    with pytest.raises(InternalError, match="the export csv failed: ValueError: x"):
        guard.explained("the export csv", raise_, ValueError("x"))
    with pytest.raises(UsageError, match="known"):
        guard.explained("the export csv", raise_, UsageError("known"))
    assert guard.total == 1


def test_broad_handlers_stand_in_guard_only_or_raise_again() -> None:
    package = Path(epochal.__file__).parent
    for path in sorted(package.rglob("*.py")):
        if path == package / "base" / "guard.py":
            continue
        text = path.read_text()
        assert "suppress(Exception" not in text, path
        assert "suppress(BaseException" not in text, path
        if _HANDLER.search(text) is None:
            continue  # nothing to parse it for
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ExceptHandler) and _is_broad(node):
                last = node.body[-1]
                assert isinstance(last, ast.Raise), f"{path}, line {node.lineno}"


def _is_broad(handler: ast.ExceptHandler) -> bool:
    kind = handler.type
    return kind is None or (isinstance(kind, ast.Name) and kind.id in _BROAD)


_BROAD = ("Exception", "BaseException")
_HANDLER = re.compile(r"\bexcept(\s*:|[^:]*\b(Base)?Exception\b)")
