from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from types import FrameType

import pytest

from epochal.errors import UsageError
from epochal.torch.checkpoint import checkpoints
from epochal.torch.checkpoint.checkpoints import SignalWatch

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="signals of Unix")


@pytest.fixture(autouse=True)
def own_handlers() -> Iterator[list[int]]:
    """Handlers that were there before, and what they have seen."""
    seen: list[int] = []

    def earlier(number: int, frame: FrameType | None) -> None:
        seen.append(number)

    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
    before = {number: signal.signal(number, earlier) for number in numbers}
    yield seen
    for number, handler in before.items():
        signal.signal(number, handler)


def send(number: int) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_a_signal_waits_and_is_then_passed_on(number: int, own_handlers: list[int]) -> None:
    watch = SignalWatch()
    send(number)
    assert watch.urgency % 1024 == number
    assert own_handlers == []
    watch.pass_on(watch.urgency)
    assert watch.urgency == 0
    assert own_handlers == [number]
    watch.release()


def test_release_puts_back_what_was_there(own_handlers: list[int]) -> None:
    watch = SignalWatch()
    watch.release()
    send(signal.SIGTERM)
    assert own_handlers == [signal.SIGTERM]


def test_release_leaves_a_handler_that_was_chained_later(own_handlers: list[int]) -> None:
    watch = SignalWatch()
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    watch.release()
    send(signal.SIGTERM)
    assert own_handlers == []


def test_an_ignored_signal_stays_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    watch = SignalWatch()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    watch.release()


def test_ctrl_c_twice_in_earnest_does_not_wait(
    own_handlers: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = SignalWatch()
    send(signal.SIGINT)
    send(signal.SIGINT)
    assert own_handlers == []
    monkeypatch.setattr(checkpoints, "_IMPATIENT_AFTER_S", 0.0)
    send(signal.SIGINT)
    assert own_handlers == [signal.SIGINT]
    watch.release()


def test_a_request_to_end_is_more_urgent_than_one_to_save() -> None:
    watch = SignalWatch()
    send(signal.SIGUSR1)
    saving = watch.urgency
    send(signal.SIGINT)
    assert watch.urgency % 1024 == signal.SIGINT
    send(signal.SIGTERM)
    assert watch.urgency % 1024 == signal.SIGINT
    assert watch.urgency > saving > 0
    watch.release()


def test_an_unknown_signal_is_an_error() -> None:
    with pytest.raises(UsageError, match="'SIGFOO' is no signal"):
        SignalWatch(["SIGFOO"])
