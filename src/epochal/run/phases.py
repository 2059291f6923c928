"""Times the parts of a step: ``with run.phase("data"):``.

The own time of a phase excludes the phases inside it. Where a GPU is in use, its clock measures
how long the phase occupied the GPU, and nothing waits for it. The means per step become a
``phases`` record now and then. A phase that took long becomes a ``span`` record.

A step ends when the step number of the run has changed, which the next phase notices, so that
logging costs nothing more. The first step is left out: it compiles, allocates and waits for data.
Means are those of the main thread, or of the first thread with phases while the main thread has
none. Long phases of other threads become spans only.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import threading
from collections.abc import Callable, Iterator
from time import monotonic, perf_counter_ns, time
from typing import Any, ParamSpec, TypeVar

import msgspec

from epochal.base.guard import guarded
from epochal.base.torch_hooks import torch_hooks
from epochal.errors import ValueTypeError
from epochal.journal.line import now
from epochal.records import Record
from epochal.records.values import shown_text
from epochal.run.console.lines import section_line
from epochal.run.writing import RunWriter

RECORD_STEPS, RECORD_EVERY_S = 50, 10.0
# Fifty steps of a large model may be half an hour; the page is not to wait that long.
RECORD_AT_LATEST_S = 60.0
# Of a run of weeks nobody needs every minute, and 2,000 points are more than a screen shows.
RECORD_SHARE = 1 / 2000
# What is left at the end: one step or two, with the last evaluation and save in them, are no mean.
REST_STEPS = 5
LONG_MS = 100.0
# Of each name so many long phases are recorded at once, and then one in so many seconds.
SPAN_BURST, SPAN_REFILL_S = 5.0, 10.0
# Longer than this many times the usual is what somebody will look for.
ODD_FACTOR = 3.0
_USUAL_WEIGHT = 0.2

P = ParamSpec("P")
R = TypeVar("R")


class DeviceTimes(msgspec.Struct):
    """What a GPU's clock measured: milliseconds by phase over ``steps`` steps, the host's beside.

    ``host_bound`` counts the steps in which the GPU had always caught up with the host.
    """

    steps: int = 0
    device_ms: dict[str, float] = {}
    host_ms: dict[str, float] = {}
    host_bound: int = 0


class Phase:
    """One named part of a step: a context manager and a decorator, usable again and by threads."""

    __slots__ = ("_name", "_phases")

    def __init__(self, phases: Phases, name: str) -> None:
        self._phases = phases
        self._name = name

    def __enter__(self) -> None:
        phases = self._phases
        try:
            thread: _ThreadPhases = phases.local.phases
        except AttributeError:
            thread = phases.begin_thread()
        stack = thread.stack
        mark = None
        if thread is phases.loop:
            if phases.run.step != phases.seen_step:
                phases.next_step(thread)
            if phases.clock is not None:
                mark = phases.enter_device(stack[-1].mark if stack else None)
        stack.append(_Frame(self._name, mark, perf_counter_ns()))

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        ended = perf_counter_ns()
        phases, name = self._phases, self._name
        try:
            thread: _ThreadPhases = phases.local.phases
            stack = thread.stack
            frame = stack.pop()
        except (AttributeError, IndexError):
            return  # entered in another thread
        if frame.name != name:
            stack.append(frame)
            if not thread.unwind(name):
                return
            frame = stack.pop()
        elapsed = ended - frame.since
        own = elapsed - frame.inner
        if stack:
            stack[-1].inner += elapsed
        else:
            thread.last_ns = ended
        totals = thread.totals
        totals[name] = totals.get(name, 0) + own
        if frame.mark is not None:
            phases.leave_device(frame.mark, name, own)
        if ended - frame.begun >= phases.long_ns:
            phases.took_long(name, ended - frame.begun)

    def is_inside_another(self) -> bool:
        """Whether this thread is in a phase of the same run already."""
        thread: _ThreadPhases | None = getattr(self._phases.local, "phases", None)
        return thread is not None and bool(thread.stack)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Time every call of a function as this phase."""
        if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
            raise ValueTypeError(
                f"phase({self._name!r}) times plain functions; {function.__name__!r} gives control"
                " away in between: use it as a context manager inside."
            )

        @functools.wraps(function)
        def timed(*args: P.args, **kwargs: P.kwargs) -> R:
            with self:
                return function(*args, **kwargs)

        return timed


@contextlib.contextmanager
def timed_section(recorder: RunWriter, name: str) -> Iterator[None]:
    """Print and record how long a ``with`` block took, however it ends."""
    begun, name = monotonic(), shown_text(name)
    try:
        yield
    finally:
        seconds = monotonic() - begun
        record: Record = {"log": "message", "t": now(), "level": "info", "text": name}
        recorder.write({**record, "duration_ms": round(seconds * 1000.0, 3)})
        recorder.console.line(lambda: section_line(name, seconds=seconds))


class _Frame:
    """An open phase; the end of a step moves ``since`` and leaves ``begun``."""

    __slots__ = ("begun", "inner", "mark", "name", "since")

    def __init__(self, name: str, mark: Any, begun: int) -> None:
        self.name = name
        self.mark = mark
        self.inner = 0
        self.since = self.begun = begun


class _ThreadPhases:
    """The phases of one thread."""

    __slots__ = ("last_ns", "stack", "totals")

    def __init__(self) -> None:
        self.stack: list[_Frame] = []
        self.totals: dict[str, int] = {}
        self.last_ns = perf_counter_ns()

    def unwind(self, name: str) -> bool:
        """Close what a lost generator left open inside a phase; False if that is not open."""
        if all(frame.name != name for frame in self.stack):
            return False
        while self.stack[-1].name != name:
            self.stack.pop()
        return True

    def credit_open(self, at_ns: int) -> None:
        """Count the time of open phases so far, and restart them here."""
        inside = 0
        for frame in reversed(self.stack):
            elapsed = at_ns - frame.since
            own = elapsed - frame.inner - inside
            self.totals[frame.name] = self.totals.get(frame.name, 0) + own
            inside, frame.since, frame.inner = elapsed, at_ns, 0


class SpanLimit:
    """Keeps long phases that happen all the time from filling the journal."""

    def __init__(self) -> None:
        # By name: the usual length, how many are left, and when that was worked out.
        self._seen: dict[str, tuple[float, float, float]] = {}

    def allows(self, name: str, seconds: float, *, at_s: float | None = None) -> bool:
        """Whether a phase of this name and length is to be recorded."""
        now_s = monotonic() if at_s is None else at_s
        usual_s, left, looked_s = self._seen.get(name, (seconds, SPAN_BURST, now_s))
        left = min(SPAN_BURST, left + (now_s - looked_s) / SPAN_REFILL_S)
        is_allowed = left >= 1 or seconds >= ODD_FACTOR * usual_s
        usual_s += _USUAL_WEIGHT * (seconds - usual_s)
        self._seen[name] = (usual_s, max(0.0, left - is_allowed), now_s)
        return is_allowed


_guarded = guarded("phases", lambda phases: phases.run.guard)


class Phases:
    """The phases of one run. Public attributes are for :class:`Phase`, which is on the hot path."""

    def __init__(self, run: RunWriter) -> None:
        self.run = run
        self.local = threading.local()
        self.loop: _ThreadPhases | None = None
        # Times phases where a GPU works, waiting for nothing; ``torch.phase_events`` has it.
        self.clock: Any = None
        self.seen_step = run.step
        self.long_ns = int(LONG_MS * 1e6)
        self._by_name: dict[str, Phase] = {}
        self._is_main = False
        self._is_closed = False
        self._spans = SpanLimit()
        self._begun_ns: int | None = None
        self._made_ns = perf_counter_ns()
        self._steps = 0
        self._written_steps = 0

    def named(self, name: str) -> Phase:
        """The phase of a name; always the same one."""
        phase = self._by_name.get(name)
        if phase is None:
            phase = self._by_name[name] = Phase(self, name)
        return phase

    def begin_thread(self) -> _ThreadPhases:
        """Start the phases of a thread."""
        thread = self.local.phases = _ThreadPhases()
        is_main = threading.current_thread() is threading.main_thread()
        if not self._is_closed and (self.loop is None or (is_main and not self._is_main)):
            self.loop, self._is_main = thread, is_main
            self.seen_step, self._begun_ns = self.run.step, None
        return thread

    @_guarded
    def enter_device(self, outer: Any) -> Any:
        """Mark the beginning of a phase on the GPU."""
        return None if self.clock is None else self.clock.enter(outer)

    @_guarded
    def leave_device(self, mark: Any, name: str, own_ns: int) -> None:
        """Mark its end."""
        if self.clock is not None:
            self.clock.leave(mark, name, own_ns)

    @_guarded
    def next_step(self, thread: _ThreadPhases) -> None:
        """Assign the times so far to the steps before the new one."""
        at_ns = perf_counter_ns()
        thread.credit_open(at_ns)
        self._end_steps(thread)
        if self.clock is None:
            self.clock = _open_clock()
        else:
            self.clock.end_step()
        if self._begun_ns is None:
            self._begun_ns = at_ns
            return
        elapsed_s, age_s = (at_ns - self._begun_ns) / 1e9, (at_ns - self._made_ns) / 1e9
        is_full = elapsed_s >= RECORD_EVERY_S and self._steps >= RECORD_STEPS
        if elapsed_s >= RECORD_SHARE * age_s and (is_full or elapsed_s >= RECORD_AT_LATEST_S):
            self._write(thread, at_ns, self.clock.take() if self.clock else DeviceTimes())

    @_guarded
    def took_long(self, name: str, elapsed_ns: int) -> None:
        """Write a ``span`` record for a long phase, unless there have been many."""
        seconds = elapsed_ns / 1e9
        if self._is_closed or self.run.finished or not self._spans.allows(name, seconds):
            return
        record: Record = {"log": "span", "t": now(), "name": name}
        record |= {"start": round(time() - seconds, 3), "duration_ms": round(seconds * 1000, 3)}
        if self.run.step >= 0:
            record["step"] = self.run.step
        self.run.write(record)

    @_guarded
    def finish(self) -> None:
        """Write the means of the last steps, if there are enough; record nothing from here on."""
        thread, clock = self.loop, self.clock
        self.stop()
        if thread is None:
            return
        at_ns = perf_counter_ns()
        if self.run.step != self.seen_step:
            at_ns = at_ns if thread.stack else thread.last_ns
            thread.credit_open(at_ns)
            self._end_steps(thread)
            if clock is not None:
                clock.end_step()
        # A record of the last steps is the only one, or they make a mean.
        is_mean = self._steps >= min(REST_STEPS, self._written_steps or 1)
        if self._begun_ns is not None and is_mean:
            self._write(thread, at_ns, clock.take(wait=True) if clock else DeviceTimes())

    def stop(self) -> None:
        """Stop timing; in a forked child, which has neither the training's steps nor its GPU."""
        self._is_closed, self.loop, self.clock = True, None, None

    def _end_steps(self, thread: _ThreadPhases) -> None:
        before, self.seen_step = self.seen_step, self.run.step
        if self._begun_ns is None:
            thread.totals.clear()  # the first step is left out
        else:
            self._steps += max(1, self.seen_step - before)  # of those in between none was logged

    def _write(self, thread: _ThreadPhases, at_ns: int, times: DeviceTimes) -> None:
        assert self._begun_ns is not None
        steps = self._written_steps = self._steps
        wall_ms = (at_ns - self._begun_ns) / 1e6 / steps
        self._begun_ns, self._steps = at_ns, 0
        host = {name: own / 1e6 / steps for name, own in thread.totals.items()}
        thread.totals.clear()
        means = {name: mean * _ratio(name, times) for name, mean in host.items()}
        means["other"] = means.get("other", 0.0) + max(0.0, wall_ms - sum(means.values()))
        record: Record = {"log": "phases", "t": now(), "step": self.seen_step, "steps": steps}
        record["wall_ms"] = round(wall_ms, 4)
        record["m"] = {f"phase/{name}": round(mean, 4) for name, mean in means.items()}
        if times.steps:
            record["clock"] = "gpu"
            record["host_ms"] = {name: round(mean, 4) for name, mean in host.items()}
            record["host_bound"] = round(times.host_bound / times.steps, 4)
        self.run.write(record)


def _ratio(name: str, times: DeviceTimes) -> float:
    """Return GPU time over host time of a phase; not every step is timed on both."""
    host_ms = times.host_ms.get(name, 0.0)
    return times.device_ms[name] / host_ms if host_ms > 0 else 1.0


def _open_clock() -> Any:
    """The clock of the GPU this process uses; None while it uses none."""
    return torch_hooks().open_clock() if "torch" in sys.modules else None
