"""What a notebook cell shows of a run.

While a cell trains, its display has a progress bar and a chart of the loss. Both are drawn from the
run's own journal, where the console would print a line, at most twice a second. When the run or the
cell ends, the display becomes a summary. It is plain HTML: a saved notebook shows it as it was.
"""

from __future__ import annotations

import math
import shlex
import threading
import time
from collections import deque
from collections.abc import Mapping
from fnmatch import fnmatchcase

import msgspec

from epochal.base.invocation import invocation
from epochal.journal.line import now as unix_now
from epochal.records import GUESSED_ROLE, Record, numbers_of
from epochal.records.format import format_clock, format_count, format_duration, format_number
from epochal.run.console.cell import INTERVAL_S, CellOutput
from epochal.run.own_records import OwnRecords
from epochal.run.recorder import Recorder
from epochal.series.eta import Eta
from epochal.series.goals import guess_goal
from epochal.series.html import MOST_POINTS, Point, card, chart, progress_bar, thinned
from epochal.series.importance import Importance, importance

_KINDS = frozenset({"metrics", "step", "eval", "epoch"})
_MOST_LINES = 5
_MOST_NOTES = 10
_MOST_METRICS = 6


class _Curve(msgspec.Struct):
    """The points of one metric; the exact extremes are always among them."""

    name: str
    axis: str
    points: list[Point] = []

    def add(self, x: float, y: float) -> None:
        self.points.append((x, y))
        if len(self.points) >= 4 * MOST_POINTS:
            self.points = list(thinned(self.points))

    def best(self) -> Point:
        pick = max if guess_goal(self.name) == "max" else min
        finite = [point for point in self.points if math.isfinite(point[1])]
        return pick(finite, key=lambda point: point[1], default=(math.nan, math.nan))


class RunCard:
    """A run in a cell; a console draws it in place of a progress bar and of step lines.

    It shows this attempt of the run. Everything but lines and notes comes from the journal.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._records = OwnRecords()
        self._is_reading = threading.Lock()
        # By role: the losses, and the first other metric for a run that has no loss.
        self._curves: dict[str, _Curve] = {}
        self._last: dict[str, float] = {}
        self._goals: set[str] = set()  # names and patterns
        self._done: dict[str, float] = {}  # by the unit of a total
        self._started: float | None = None
        self._ended: Record | None = None
        self._eta = Eta(None)
        self._lines: deque[str] = deque(maxlen=_MOST_LINES)
        self._notes: deque[str] = deque(maxlen=_MOST_NOTES)
        self._output: CellOutput | None = None
        self._cell_ending = ""
        self._has_news = False
        self._due = -math.inf

    def update(self, now: float) -> None:
        """Draw the state of this moment, unless the last drawing is younger than half a second."""
        if now >= self._due:
            self._read()
            self._draw(is_here=True)

    def write(self, text: str, is_note: bool) -> bool:
        """Show a line in the card, a note until the end; False where the cell has no card."""
        self._read()
        is_here = self._is_shown or self._has_news
        if is_note:
            self._notes.append(text.removeprefix("epochal: "))
        elif is_here:
            self._lines.append(text)
        if is_note or self._recorder.finished or time.monotonic() >= self._due:
            self._draw(is_here=is_here)
        return is_here

    def close(self) -> None:
        """Draw the end of the run in the cell that showed it last."""
        self._read()
        self._draw(is_here=self._output is None and bool(self._curves))

    def end_cell(self, error: BaseException | None) -> None:
        """Draw what is still true now that the cell has ended."""
        if not self._recorder.finished:
            how = "ended" if error is None else f"was stopped by {type(error).__name__}"
            self._cell_ending = f"not finished: the cell {how} at {_clock()}"
            self.close()
            self._due, self._recorder.show_at = -math.inf, 0.0  # at once in the next cell

    def html(self) -> str:
        """The run as HTML, without anything that needs a server or a kernel."""
        self._read()
        curves = self._shown_curves
        names = sorted(self._last, key=self._importance)[:_MOST_METRICS]
        facts = {name: format_number(self._last[name]) for name in names}
        for curve in curves:
            x, best = curve.best()
            if math.isfinite(best):
                facts[f"best {curve.name}"] = f"{format_number(best)} at {curve.axis} {x:,.0f}"
        recorder = self._recorder
        folder = shlex.quote(str(recorder.folder.path.parent.parent))
        attempt = f" (attempt {recorder.attempt})" if recorder.attempt > 1 else ""
        return card(
            f"{recorder.identity['project']}/{recorder.name}{attempt}",
            self._status(),
            bar=self._progress(),
            facts=facts,
            picture=chart({curve.name: curve.points for curve in curves}),
            lines=self._lines,
            notes=self._notes,
            command=f"{invocation()} serve {folder}" if recorder.is_recorded else "",
            link=None if recorder.finished else recorder.page_url,
        )

    @property
    def _is_shown(self) -> bool:
        return self._output is not None and self._output.is_current

    def _draw(self, *, is_here: bool) -> None:
        """Draw the card in its last cell; ``is_here``: in the cell that runs now."""
        if is_here and not self._is_shown:
            self._output, self._cell_ending = CellOutput.current(), ""
        if self._output is not None:
            text = f"{self._recorder.name}: {self._status()}"
            self._output.show(self, self.html(), text, place=self)
            self._has_news = False
            self._due = time.monotonic() + INTERVAL_S

    @property
    def _shown_curves(self) -> list[_Curve]:
        losses = [self._curves[role] for role in ("loss", "eval_loss") if role in self._curves]
        curves = losses or list(self._curves.values())
        return [curve for curve in curves if curve.axis == curves[0].axis]

    def _importance(self, name: str) -> Importance:
        is_declared = any(fnmatchcase(name, pattern) for pattern in self._goals)
        return importance(name, role=GUESSED_ROLE.get(name), is_declared=is_declared)

    def _status(self) -> str:
        end = unix_now() if self._ended is None else self._ended["t"]
        duration = "" if self._started is None else format_duration(end - self._started)
        if self._ended is not None:
            reason = f": {self._ended['reason']}" if self._ended.get("reason") else ""
            return f"{self._ended['status']} after {duration}{reason}"
        if self._recorder.finished:
            return "finished"
        return self._cell_ending or f"running for {duration}, updated at {_clock()}"

    def _progress(self) -> str:
        """The bar, of the first total that is known; the last step without one."""
        totals = self._recorder.identity.get("totals") or {}
        for unit, total in totals.items():
            done = min(self._done.get(unit, 0.0), total)
            if total and done:
                self._eta.total = total
                self._eta.observe(done, time.monotonic())
                left_s = self._eta.remaining_s()
                is_over = self._recorder.finished or self._cell_ending
                left = f" · {format_clock(left_s)} left" if left_s and not is_over else ""
                text = f"{done / total:.0%} · {_amount(done)} of {_amount(total)} {unit}{left}"
                return progress_bar(done / total, text)
        step = self._recorder.step
        return progress_bar(None, f"step {step:,}" if step >= 0 else "")

    # -- reading ----------------------------------------------------------------------------------

    def _read(self) -> None:
        if self._is_reading.acquire(blocking=False):  # else by another thread, or further up
            try:
                self._read_on()
            finally:
                self._is_reading.release()

    def _read_on(self) -> None:
        for _, records in self._records.read(self._recorder, attempt=self._recorder.attempt):
            if self._started is None and records:
                self._started = records[0].get("t")
            for record in records:
                if record["log"] in _KINDS:
                    self._take(record)
                elif record["log"] == "finish":
                    self._ended = record
                elif record["log"] == "define" and record.get("goal") is not None:
                    self._goals.add(str(record["name"]))

    def _take(self, record: Record) -> None:
        kind, own = record["log"], record.get("m") or {}
        axis = "epoch" if kind == "epoch" else "step"
        x = record.get(axis, 0)
        is_plain = kind == "metrics" and "nonfinite" not in record
        values: Mapping[str, float] = own if is_plain else dict(numbers_of(record))
        self._has_news = True
        if kind != "eval":
            self._done[f"{axis}s"] = x + 1 if axis == "step" else x
        if kind == "step":
            self._done["epochs"] = record.get("epoch") or 0.0
            self._done["tokens"] = self._done.get("tokens", 0.0) + (record.get("step_tokens") or 0)
        for name, value in values.items():
            role = GUESSED_ROLE.get(name)
            if name in own or role is not None:
                self._last[name] = value
            role = role if role in ("loss", "eval_loss") else "other"
            if (curve := self._curves.get(role)) is None:
                curve = self._curves[role] = _Curve(name, axis)
            if curve.name == name and curve.axis == axis:
                curve.add(x, value)


def _amount(value: float) -> str:
    return format_count(value) if value >= 1e6 else f"{value:,.0f}"


def _clock() -> str:
    return time.strftime("%H:%M:%S")
