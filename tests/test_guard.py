from __future__ import annotations

import pytest

from epochal.guard import DISABLE_AFTER, BudgetExceeded, Fault, Guard, describe


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


def test_a_call_over_its_budget_is_a_fault() -> None:
    guard = Guard()
    assert guard.timed("slow", lambda: 5, budget_s=-1.0) == 5
    assert guard.timed("fast", lambda: 5, budget_s=60.0) == 5
    assert list(guard.faults) == ["slow"]
    assert guard.faults["slow"].error.startswith(BudgetExceeded.__name__)


def test_a_block_is_a_member() -> None:
    guard = Guard()
    with guard.member("block"):
        raise_(OSError("disk"))
    assert guard.faults["block"].error == "OSError: disk"


def test_an_error_without_words_has_a_description() -> None:
    class Silent(Exception):  # noqa: N818
        def __str__(self) -> str:
            raise RuntimeError

    assert describe(Silent()) == "Silent: (no text)"
