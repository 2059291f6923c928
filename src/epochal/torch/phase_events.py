"""Times the phases of a step on the GPU, with events in its stream and without waiting for it.

An event stands before and after each phase, in the order of the work. The time between the two is
how long the GPU was at that phase, idle or not. A wait for data costs nothing, and shows as
nothing, while the GPU works off its queue. Events are looked at when later steps end.

The same events show whether the host keeps ahead. If the GPU has not begun a phase that the host
has ended, it is the GPU that takes the time.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from time import perf_counter

import torch

from epochal.run.phases import DeviceTimes

# Eight events cost about 20 µs. Of steps shorter than this not every one is timed, so that the cost
# stays near a tenth of a percent.
TIMED_EVERY_S = 0.02
MAX_PENDING = 64


@dataclass(slots=True)
class _Mark:
    start: torch.cuda.Event
    outer: _Mark | None
    end: torch.cuda.Event | None = None
    name: str = ""
    host_ms: float = 0.0
    inner_ms: float = 0.0
    has_caught_up: bool = True


@dataclass(slots=True)
class _Gathered:
    steps: int = 0
    host_bound: int = 0
    device_ms: dict[str, float] = field(default_factory=dict)
    host_ms: dict[str, float] = field(default_factory=dict)


class CudaPhases:
    """The clock of one training loop on the current GPU; used by one thread."""

    def __init__(self) -> None:
        self._pool: list[torch.cuda.Event] = []
        self._current: list[_Mark] = []
        self._pending: deque[list[_Mark]] = deque()
        self._gathered = _Gathered()
        self._is_timing = False
        self._timed_at_s = 0.0
        self._has_failed = False

    def enter(self, outer: _Mark | None) -> _Mark | None:
        """Put an event before a phase, in a step that is timed."""
        if not self._is_timing or self._has_failed:
            return None
        try:
            if torch.cuda.is_current_stream_capturing():
                return None  # a graph would replay the event, not the phase
            mark = _Mark(self._event(), outer)
        except RuntimeError:
            self._fail()
            return None
        self._current.append(mark)
        return mark

    def leave(self, mark: _Mark, name: str, own_ns: int) -> None:
        """Put an event after it."""
        if self._has_failed:
            return
        try:
            if torch.cuda.is_current_stream_capturing():
                return
            mark.has_caught_up = bool(mark.start.query())  # type: ignore[no-untyped-call]
            mark.end = self._event()
        except RuntimeError:
            self._fail()
            return
        mark.name, mark.host_ms = name, own_ns / 1e6

    def end_step(self) -> None:
        """Hand the step over to be looked at, and decide whether the next one is timed."""
        if self._has_failed:
            return
        done, self._current = [mark for mark in self._current if mark.end is not None], []
        if done:
            self._pending.append(done)
        self._look()
        now_s = perf_counter()
        is_due = now_s - self._timed_at_s >= TIMED_EVERY_S
        self._is_timing = is_due and len(self._pending) < MAX_PENDING
        if self._is_timing:
            self._timed_at_s = now_s

    def take(self, *, wait: bool = False) -> DeviceTimes:
        """The sums since the last time; ``wait=True`` is for the end, when all is to be counted."""
        self._look(wait=wait)
        gathered, self._gathered = self._gathered, _Gathered()
        return DeviceTimes(
            gathered.steps, gathered.device_ms, gathered.host_ms, gathered.host_bound
        )

    def _event(self) -> torch.cuda.Event:
        event = self._pool.pop() if self._pool else torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def _look(self, *, wait: bool = False) -> None:
        try:
            if torch.cuda.is_current_stream_capturing():
                return  # asking after an event would spoil the capture
            while self._pending and self._has_arrived(self._pending[0], wait=wait):
                self._gather(self._pending.popleft())
        except RuntimeError:
            self._fail()

    def _has_arrived(self, marks: list[_Mark], *, wait: bool) -> bool:
        for mark in reversed(marks):
            assert mark.end is not None
            if wait:
                mark.end.synchronize()
            elif not mark.end.query():  # type: ignore[no-untyped-call]
                return False
        return True

    def _gather(self, marks: list[_Mark]) -> None:
        sums = self._gathered
        sums.steps += 1
        sums.host_bound += all(mark.has_caught_up for mark in marks)
        # An outer phase has its mark before those inside it.
        for mark in reversed(marks):
            assert mark.end is not None
            elapsed_ms = float(mark.start.elapsed_time(mark.end))
            if mark.outer is not None:
                mark.outer.inner_ms += elapsed_ms
            own_ms = max(0.0, elapsed_ms - mark.inner_ms)
            sums.device_ms[mark.name] = sums.device_ms.get(mark.name, 0.0) + own_ms
            sums.host_ms[mark.name] = sums.host_ms.get(mark.name, 0.0) + mark.host_ms
            self._pool += [mark.start, mark.end]

    def _fail(self) -> None:
        """The GPU failed, or phases went from one to another: the host's clock goes on alone."""
        self._has_failed = True
        self._current, self._pending, self._pool = [], deque(), []


def open_clock() -> CudaPhases | None:
    """A clock for the GPU this process uses; None while it has not begun to use one."""
    return CudaPhases() if torch.cuda.is_initialized() else None  # type: ignore[no-untyped-call]
