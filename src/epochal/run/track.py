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

from epochal.base.guard import attempt
from epochal.records.format import format_duration
from epochal.run.console.live_line import INTERVAL_S, Progress, lay_out
from epochal.run.console.messages import Verbosity
from epochal.run.console.printer import Console
from epochal.run.current import OPEN_RUNS
from epochal.run.run import recorder_of
from epochal.series.eta import Eta
from epochal.settings import read_launch

T = TypeVar("T")

# How often a loop says something where there is no terminal.
_PIPED_INTERVAL_S = 10.0
_LINE_COLUMNS = 120


def track(
    iterable: Iterable[T], name: str = "", *, total: int | None = None, unit: str = "it"
) -> Track[T]:
    """Iterate and show progress, rate and time left; works with and without a run.

    Loops may be nested, be left with ``break``, and raise. In a run that has no ``total_steps``, a
    loop that logs one step per item sets it. Only rank 0 shows anything.

    Args:
        iterable: What the loop goes over.
        name: The text before the progress.
        total: The number of items, where ``len(iterable)`` is not known.
        unit: The unit of the rate.
    """
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
        self._begin = self._drawn = now
        self._eta = Eta(total)
        self._eta.observe(0, now)
        self._recorder = recorder
        self._is_outermost = not self._open
        self._is_of_run = False
        # The last step before the loop, until it is known whether items are steps of the run.
        self._before: int | None = None
        if recorder is not None and self._is_outermost and total and recorder.rank == 0:
            self._before = None if recorder.identity.get("totals") else recorder.step
        if recorder is None:
            level = None if read_launch().rank == 0 else Verbosity.QUIET
        else:
            is_shown = recorder.rank == 0 and recorder.console.enabled(Verbosity.NORMAL)
            level = Verbosity.NORMAL if is_shown else Verbosity.QUIET
        self._console = Console(verbosity=level)
        self._has_bar: bool | None = None
        self._has_printed = False
        self._line_due = now + _PIPED_INTERVAL_S
        # The first item decides whether items are steps; from then on time decides.
        self.due = now if self._before is not None else now + INTERVAL_S
        if self._is_outermost:
            self._show(now)
        self._open.append(self)

    def draw(self, now: float) -> None:
        """Redraw the bar, or print a line if one is due."""
        self._decide()
        self.due = now if self._before is not None else now + INTERVAL_S
        if now - self._drawn >= INTERVAL_S:
            self._drawn = now
            self._eta.observe(self.count, now)
            for shown in self._open:
                shown._show(now)  # loops around this one have less room, and are drawn again

    def close(self, now: float) -> None:
        """Remove the bar; say how it ended, unless a run does or it is one loop among many."""
        self._open.remove(self)
        self._decide()
        self._console.close()
        if self._has_printed or (self._is_outermost and self._recorder is None):
            self._print(now, f"in {format_duration(now - self._begin)}")

    def _show(self, now: float) -> None:
        if self._is_of_run:
            return
        if self._has_bar is None:  # a short loop inside another one never gets here
            self._has_bar = self._console.start_progress(
                name=self._name, total=self._total, unit=self._unit
            )
        eta_s = self._eta.remaining_s()
        if self._has_bar:
            self._console.progress(self.count, now=now, rate=self._rate(now), eta_s=eta_s)
        elif now >= self._line_due:
            self._line_due = now + _PIPED_INTERVAL_S
            self._print(now, f"ETA {format_duration(eta_s)}" if eta_s else "")

    def _decide(self) -> None:
        """Leave bar and lines to the run as soon as items turn out to be its steps."""
        recorder, before = self._recorder, self._before
        if recorder is None or before is None or recorder.step == before:
            return
        self._before = None
        if recorder.step - before == self.count:
            recorder.set_total_steps(before + 1 + (self._total or 0))
            self._is_of_run = True
            self._console.close()

    def _rate(self, now: float) -> float | None:
        return self.count / (now - self._begin) if now > self._begin else None

    def _print(self, now: float, ending: str) -> None:
        self._has_printed = True
        total, rate = self._total, self._rate(now)
        state = Progress(name=self._name, done=self.count, total=total, unit=self._unit, rate=rate)
        layout = lay_out(state, columns=_LINE_COLUMNS)
        self._console.line(f"{layout.left}{layout.right.strip()}  {ending}".rstrip())
