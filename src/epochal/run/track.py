"""Progress of any loop: ``for batch in epochal.track(loader)``.

On a terminal the loop has a bar on the live line, beside those of loops around it and of runs. In a
pipe there is a line now and then. Inside a run a loop that logs one step per item also gives the
run its length, so that page, ``ls`` and lines show percent and time left.
"""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Iterable, Iterator
from typing import ClassVar, Generic, TypeVar

from epochal.console.messages import Verbosity
from epochal.console.printer import Console
from epochal.console.progress import INTERVAL_S, Progress, lay_out
from epochal.errors import UsageError, ValueTypeError
from epochal.format import format_duration
from epochal.guard import attempt
from epochal.run.current import OPEN_RUNS
from epochal.run.recorder import Recorder
from epochal.run.run import recorder_of
from epochal.series.eta import Eta
from epochal.settings import read_launch

T = TypeVar("T")

# How often a loop says something where there is no terminal.
_PIPED_INTERVAL_S = 10.0
_LINE_COLUMNS = 120
# How much of the rate is that of the items since the last drawing.
_NEWEST_SHARE = 0.3


def track(
    iterable: Iterable[T], name: str = "", *, total: int | None = None, unit: str = "it"
) -> Track[T]:
    """Iterate and show progress, rate and time left; works with and without a run.

    ``total`` is the number of items where ``len(iterable)`` is not known. Loops may be nested, be
    left with ``break``, and raise. In a run that has no ``total_steps``, a loop that logs one step
    per item sets it. Only rank 0 shows anything.
    """
    if not any(hasattr(iterable, method) for method in ("__iter__", "__getitem__")):
        raise ValueTypeError(f"track takes an iterable, not a {type(iterable).__name__}.")
    count: object = total
    if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 0):
        raise UsageError(f"total={total!r} must be a number of items, 0 or more.")
    return Track(iterable, name=str(name), total=total, unit=str(unit))


class Track(Generic[T]):
    """What ``track`` returns: iterated, it shows the progress of the iteration."""

    def __init__(
        self,
        iterable: Iterable[T],
        *,
        name: str,
        total: int | None,
        unit: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._iterable = iterable
        self._name = name
        self._unit = unit
        self._clock = clock
        hinted = attempt(operator.length_hint, iterable, 0)[0]
        self.total = hinted or None if total is None else total

    def __len__(self) -> int:
        if self.total is None:
            raise TypeError(f"the length of this {type(self._iterable).__name__} is not known.")
        return self.total

    def __iter__(self) -> Iterator[T]:
        shown = _Shown(self._name, self.total, self._unit, self._clock())
        clock = self._clock
        try:
            for item in self._iterable:
                yield item
                shown.count += 1
                now = clock()
                if now >= shown.due:
                    shown.draw(now)
        finally:  # also after `break` and exceptions
            shown.close(clock())


class _Shown:
    """The bar or the lines of one iteration; nothing here raises."""

    # The iterations that have not ended, from the outermost on.
    _open: ClassVar[list[_Shown]] = []

    def __init__(self, name: str, total: int | None, unit: str, now: float) -> None:
        run = OPEN_RUNS.current
        recorder = None if run is None or run.state == "finished" else recorder_of(run)
        self.count = 0
        self._name, self._total, self._unit = name, total, unit
        self._begin = self._last = now
        self._last_count = 0
        self._rate: float | None = None
        self._eta = Eta(total)
        self._eta.observe(0, now)
        self._is_outermost = not self._open
        self._is_in_run = recorder is not None
        self._is_of_run = False
        self._length = _RunLength.of(recorder, total) if self._is_outermost else None
        self._console = _console(recorder)
        self._has_bar: bool | None = None
        self._has_printed = False
        self._line_due = now + _PIPED_INTERVAL_S
        # The first item decides whether items are steps; from then on time decides.
        self.due = now if self._length is not None else now + INTERVAL_S
        if self._is_outermost:
            self._show(now)
        self._open.append(self)

    def draw(self, now: float) -> None:
        """Redraw the bar, or print a line if one is due."""
        self._decide()
        self.due = now if self._length is not None else now + INTERVAL_S
        if now - self._last < INTERVAL_S:
            return
        self._measure(now)
        for shown in self._open:
            shown._show(now)  # loops around this one have less room, and are drawn again

    def close(self, now: float) -> None:
        """Remove the bar; say how it ended, unless a run does or it is one loop among many."""
        self._open.remove(self)
        self._decide()
        self._console.close()
        if self._has_printed or (self._is_outermost and not self._is_in_run):
            seconds = now - self._begin
            self._rate = self.count / seconds if seconds > 0 else None
            self._print(f"in {format_duration(seconds)}")

    def _show(self, now: float) -> None:
        if self._is_of_run:
            return
        if self._has_bar is None:  # a short loop inside another one never gets here
            self._has_bar = self._console.start_progress(
                name=self._name, total=self._total, unit=self._unit
            )
        eta_s = self._eta.remaining_s()
        if self._has_bar:
            self._console.progress(self.count, now=now, rate=self._rate, eta_s=eta_s)
        elif now >= self._line_due:
            self._line_due = now + _PIPED_INTERVAL_S
            self._print(f"ETA {format_duration(eta_s)}" if eta_s else "")

    def _decide(self) -> None:
        """Leave bar and lines to the run as soon as items turn out to be its steps."""
        if self._length is not None and self._length.is_decided(self.count):
            self._is_of_run = self._length.is_of_run
            self._length = None
            if self._is_of_run:
                self._console.close()

    def _measure(self, now: float) -> None:
        newest = (self.count - self._last_count) / (now - self._last)
        share = 1.0 if self._rate is None else _NEWEST_SHARE
        self._rate = newest * share + (self._rate or 0.0) * (1 - share)
        self._last, self._last_count = now, self.count
        self._eta.observe(self.count, now)

    def _print(self, ending: str) -> None:
        self._has_printed = True
        progress = Progress(
            name=self._name, done=self.count, total=self._total, unit=self._unit, rate=self._rate
        )
        layout = lay_out(progress, columns=_LINE_COLUMNS)
        self._console.line(f"{layout.left}{layout.right.strip()}  {ending}".rstrip())


class _RunLength:
    """Whether the items of a loop are the steps of its run, and then how many steps it has."""

    def __init__(self, recorder: Recorder, total: int) -> None:
        self._recorder = recorder
        self._before = recorder.step
        self._total = total
        self.is_of_run = False

    @classmethod
    def of(cls, recorder: Recorder | None, total: int | None) -> _RunLength | None:
        """None where there is no run or its length is known, or that of the loop is not."""
        if not total or recorder is None or recorder.rank != 0:
            return None
        if recorder.identity.get("totals"):
            return None
        return cls(recorder, total)

    def is_decided(self, count: int) -> bool:
        """Decide when the first step has been logged; False until then."""
        num_steps = self._recorder.step - self._before
        if num_steps == 0:
            return False
        if num_steps == count:
            self.is_of_run = True
            self._recorder.set_total_steps(self._before + 1 + self._total)
        return True


def _console(recorder: Recorder | None) -> Console:
    if recorder is None:
        return Console(verbosity=None if read_launch().rank == 0 else Verbosity.QUIET)
    is_shown = recorder.rank == 0 and recorder.console.enabled(Verbosity.NORMAL)
    return Console(verbosity=Verbosity.NORMAL if is_shown else Verbosity.QUIET)
