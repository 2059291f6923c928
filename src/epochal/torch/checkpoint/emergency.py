"""Signals that ask a training to stop, kept until its step is done and saved.

Handlers are chained: after the save a signal goes to whoever had it before, so that the process
ends as it would have. SIGUSR1, which cluster schedulers send ahead of the end, saves and goes on.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Sequence
from types import FrameType
from typing import Any

from epochal.errors import UsageError
from epochal.journal.process_action import SAVE_SIGNAL

SIGNALS = ("SIGTERM", "SIGINT", SAVE_SIGNAL)
# A launcher repeats Ctrl-C to its children at once; a person who means it does so later.
_IMPATIENT_AFTER_S = 1.0
# Above every signal's number.
_ENDS = 1 << 10


class SignalWatch:
    """Notes a signal; the training asks for it at the end of each step.

    A second Ctrl-C, a second or more after the first, is passed on at once.
    """

    def __init__(self, names: Sequence[str] = SIGNALS) -> None:
        self._pid = os.getpid()
        self._previous: dict[int, Any] = {}
        self._pending = 0
        self._since = 0.0
        for name in names:
            self._watch(name)

    @property
    def pending(self) -> int:
        """The number of the signal that waits, 0 when there is none."""
        return self._pending

    @property
    def handles_save(self) -> bool:
        """Whether the signal that asks for a save is handled here."""
        return getattr(signal, SAVE_SIGNAL, None) in self._previous

    @property
    def urgency(self) -> int:
        """A number for what waits, so that the highest of all ranks is what all should do."""
        ends = self._pending and self._pending != getattr(signal, SAVE_SIGNAL, None)
        return self._pending + (_ENDS if ends else 0)

    def pass_on(self, urgency: int) -> None:
        """Hand a signal to whoever had it before; may end the process, or raise."""
        number = urgency % _ENDS
        self._pending = 0
        previous = self._previous.get(number)
        if callable(previous):
            previous(number, None)
        elif previous == signal.SIG_DFL and number != getattr(signal, SAVE_SIGNAL, None):
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    def release(self) -> None:
        """Take the handlers out again, unless somebody has chained onto them since."""
        if threading.current_thread() is threading.main_thread():
            for number, previous in self._previous.items():
                if signal.getsignal(number) == self._on_signal:
                    signal.signal(number, previous)

    def _watch(self, name: str) -> None:
        number = getattr(signal, name, None)
        if number is None and name not in SIGNALS:
            raise UsageError(f"{name!r} is no signal: use some of {', '.join(SIGNALS)}.")
        if number is None or threading.current_thread() is not threading.main_thread():
            return  # not on this system; or Python allows handlers from the main thread only
        previous = signal.getsignal(number)
        # None: installed by C code, which cannot be chained. Who ignores a signal, means it.
        if previous not in (None, signal.SIG_IGN):
            self._previous[number] = previous
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        is_repeated = self._pending == number == signal.SIGINT
        if os.getpid() != self._pid or (is_repeated and now - self._since > _IMPATIENT_AFTER_S):
            self.pass_on(number)
        elif not self._pending or self._pending == getattr(signal, SAVE_SIGNAL, None):
            # A request to end takes the place of one that only asks for a save.
            self._pending, self._since = number, now
