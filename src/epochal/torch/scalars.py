"""Reads numbers and times of phases from a GPU without ever waiting for it.

A value that is logged is still being computed. Asking for it (``.item()``) would stop the program
until the GPU has caught up. Instead all tensors of one record are gathered on the device and copied
to pinned memory, behind the work that makes them. An event follows the copy. When the event has
passed, the numbers are there and the record is handed on. The values of a histogram are counted on
the device, and what was counted is copied. The copy stands in the same stream as the work, so
neither a later write in place nor a replayed graph can change what was logged.

Records are looked at on later calls, and by one thread that exists from the first such record on,
for the last ones. At most ``MAX_PENDING`` records wait; one more waits for the oldest.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from time import perf_counter
from typing import Any

import torch

from epochal.base.guard import attempt, describe
from epochal.errors import UsageError
from epochal.records.values import device_values
from epochal.run.phases import DeviceTimes
from epochal.torch.measure import HostCopy, copied_to_host, distribution, local

MAX_PENDING = 4096
_LOOK_EVERY_S = 0.1


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in a record values belong: the mapping (None for the record), the name, how many.

    Without a number there is one, which is not a list.
    """

    inner: str | None
    name: str
    count: int | None


@dataclass(frozen=True, slots=True)
class _Pending:
    """A record, and for each device which places its values fill and their copy on its way."""

    record: dict[str, Any]
    arriving: tuple[tuple[tuple[_Place, ...], HostCopy], ...]

    def has_arrived(self) -> bool:
        return all(copy.has_arrived() for _, copy in self.arriving)

    def wait(self) -> bool:
        return all(copy.ready() for _, copy in self.arriving)

    def filled(self) -> dict[str, Any]:
        """The record with plain numbers where tensors were."""
        record = dict(self.record)
        for key in ("m", "values"):
            if isinstance(record.get(key), dict):
                record[key] = dict(record[key])
        for places, copy in self.arriving:
            numbers = iter(copy.ready()["values"].tolist())
            for place in places:
                one = place.count is None
                value = next(numbers) if one else list(islice(numbers, place.count))
                (record if place.inner is None else record[place.inner])[place.name] = value
        return record


class CudaReader:
    """Hands records on when their CUDA values have arrived; safe to use from several threads.

    ``lost`` is told how many records never will be, and why: the GPU failed, or ``then`` raised for
    one. Neither raises into the program.
    """

    def __init__(
        self, then: Callable[[dict[str, Any]], None], lost: Callable[[int, str], None]
    ) -> None:
        self._then = then
        self._lost = lost
        self._lock = threading.RLock()
        self._pending: deque[_Pending] = deque()
        self._has_pending = threading.Event()
        self._thread: threading.Thread | None = None

    def defer(self, record: dict[str, Any]) -> None:
        """Start the copy of every CUDA value of a record; gives control back at once.

        Raises ``UsageError`` while a CUDA graph is being captured: a replay would not log again.
        """
        if torch.cuda.is_current_stream_capturing():
            raise UsageError(
                "log() was called while a CUDA graph is being captured, where it would run once and"
                " never again: log the graph's output tensors after each replay instead."
            )
        with self._lock:
            arriving, error = attempt(self._start_copies, record)
            if arriving is None:
                self._report_lost(1, error)
                return
            self._pending.append(_Pending(record, arriving))
            if len(self._pending) > MAX_PENDING:
                self._wait_for_oldest()
            self._hand_on_arrived()
            self._start_thread()
        self._has_pending.set()

    def flush(self) -> None:
        with self._lock:
            while self._pending:
                self._wait_for_oldest()

    # -- copying ----------------------------------------------------------------------------------

    def _start_copies(
        self, record: dict[str, Any]
    ) -> tuple[tuple[tuple[_Place, ...], HostCopy], ...]:
        by_device: dict[torch.device, dict[_Place, torch.Tensor]] = {}
        for inner, name, value in device_values(record):
            if record["log"] == "histogram" and name == "values":
                tensor = distribution(value, bins=record["bins"])
            else:
                tensor = local(value)
            place = _Place(inner, name, tensor.numel() if tensor.dim() else None)
            by_device.setdefault(tensor.device, {})[place] = tensor
        return tuple((tuple(items), _copy(items.values())) for items in by_device.values())

    # -- handing on -------------------------------------------------------------------------------

    def _hand_on_arrived(self) -> None:
        """Hand on from the oldest; called with the lock held."""
        while self._pending and self._ready(_Pending.has_arrived):
            self._hand_on(self._pending.popleft())

    def _wait_for_oldest(self) -> None:
        if self._ready(_Pending.wait):
            self._hand_on(self._pending.popleft())

    def _ready(self, ask: Callable[[_Pending], bool]) -> bool:
        """Ask the GPU about the oldest; where it failed, what it had not computed never comes."""
        try:
            return ask(self._pending[0])
        except RuntimeError as error:
            count = len(self._pending)
            self._pending.clear()
            self._report_lost(count, error)
            return False

    def _hand_on(self, pending: _Pending) -> None:
        _, error = attempt(self._then, pending.filled())
        if error is not None:
            self._report_lost(1, error)

    def _report_lost(self, count: int, error: Exception | None) -> None:
        reason = "unknown" if error is None else describe(error).partition("\n")[0]
        attempt(self._lost, count, reason)  # whoever cannot be told is not

    def _start_thread(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._look_again, name="epochal-cuda-values", daemon=True
            )
            self._thread.start()

    def _look_again(self) -> None:
        while True:
            self._has_pending.wait()
            with self._lock:
                self._hand_on_arrived()
                if not self._pending:
                    self._has_pending.clear()
                    continue
            threading.Event().wait(_LOOK_EVERY_S)


@torch.no_grad()
def _copy(tensors: Iterable[torch.Tensor]) -> HostCopy:
    """Start one copy of all values; of one type as they are, of several as float64."""
    flat = [tensor.reshape(-1) for tensor in tensors]
    with torch.cuda.device(flat[0].device):
        for tensor in flat:
            tensor.record_stream(torch.cuda.current_stream())  # used until the copy is made
        if len({tensor.dtype for tensor in flat}) > 1:
            flat = [tensor.to(torch.float64) for tensor in flat]
        return copied_to_host({"values": torch.cat(flat) if len(flat) > 1 else flat[0]})


# Eight events cost about 20 µs. Of steps shorter than this not every one is timed, so that the cost
# stays near a tenth of a percent.
TIMED_EVERY_S = 0.02
MAX_PENDING_EVENTS = 64


@dataclass(slots=True)
class _Mark:
    start: torch.cuda.Event
    outer: _Mark | None
    end: torch.cuda.Event | None = None
    name: str = ""
    host_ms: float = 0.0
    inner_ms: float = 0.0
    has_caught_up: bool = True


class CudaPhases:
    """The clock of one training loop on the current GPU; used by one thread."""

    def __init__(self) -> None:
        self._pool: list[torch.cuda.Event] = []
        self._current: list[_Mark] = []
        self._pending: deque[list[_Mark]] = deque()
        self._gathered = DeviceTimes()
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
        self._is_timing = is_due and len(self._pending) < MAX_PENDING_EVENTS
        if self._is_timing:
            self._timed_at_s = now_s

    def take(self, *, wait: bool = False) -> DeviceTimes:
        """The sums since the last time; ``wait=True`` is for the end, when all is to be counted."""
        self._look(wait=wait)
        gathered, self._gathered = self._gathered, DeviceTimes()
        return gathered

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
