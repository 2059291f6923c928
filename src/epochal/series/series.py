"""One series: the points of one metric of one rank, from the file to the chart.

Each part of a run returns a ``Series``. The store merges them into one, which server, exports,
terminal and Python use. There is no other type in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from epochal.errors import EpochalError, MetricNotFoundError
from epochal.records import Axis
from epochal.records.format import format_number, plural
from epochal.series.downsample import Buckets, buckets, summarise
from epochal.series.html import MOST_POINTS, card, chart
from epochal.series.smooth import Smoothing
from epochal.series.summary import Summary
from epochal.series.trend import Goal

# An axis: one of ``X_KINDS``, or the name of a metric.
X = str
X_KINDS = ("step", "epoch", "tokens", "wall", "relative", "progress")
Floats = NDArray[np.float64]

# The series that say which epoch a step belongs to and how many tokens it has.
EPOCH_OF_STEP = "train/epoch"
TOKENS_OF_STEP = "train/step_tokens"
_OF_STEP = {"epoch": EPOCH_OF_STEP, "tokens": TOKENS_OF_STEP}
X_OF_AXIS: dict[str, X] = {"step": "step", "epoch": "epoch", "time": "wall"}


class SeriesRun(Protocol):
    """The run of a series; ``reindex`` reads steps in other units from it."""

    @property
    def created(self) -> float | None:
        """When the run was created, in Unix seconds."""

    def length(self, axis: Axis) -> int | None:
        """How many steps or epochs the run has: as planned, or as recorded."""

    def series(self, name: str, *, rank: int = 0, axis: Axis | None = None) -> Series:
        """Another series of the run; raises ``MetricNotFoundError``."""


@dataclass(frozen=True, eq=False, repr=False)
class Series:
    """The points of one metric of one rank.

    ``axis`` is the one that the points were logged on. ``steps`` holds steps or epochs; on the time
    axis the step that a record named, -1 where it named none. ``times`` are Unix seconds.
    ``values`` are floats, nan and infinities included.

    A store returns the points in the order of ``at``, one for each step. ``duplicates`` counts the
    points that a later one of the same step replaced, ``hidden`` those that a newer attempt
    replaced. A part returns them in the order written. ``reindexed`` is set by ``reindex`` only.
    """

    name: str
    axis: Axis
    rank: int
    steps: NDArray[np.int64]
    times: Floats
    values: NDArray[Any]
    duplicates: int = 0
    hidden: int = 0
    goal: Goal | None = None
    unit: str | None = None
    reindexed: tuple[X, NDArray[Any]] | None = None

    def __len__(self) -> int:
        return self.values.size

    def __repr__(self) -> str:
        facts = "".join(f", {name} {value}" for name, value in self._facts().items())
        return f"<series {self.name}: {plural(len(self), 'point')}{facts}>"

    def _repr_html_(self) -> str:
        """In a notebook: a small chart with the last value and the extremes."""
        cut = self.buckets(MOST_POINTS // 2) if len(self) else None
        points = [] if cut is None else [(cut.min_step, cut.min), (cut.max_step, cut.max)]
        pairs = [pair for x, y in points for pair in zip(x.tolist(), y.tolist(), strict=True)]
        picture = chart({self.name: pairs}, labels=False)
        facts = {"points": f"{len(self):,}", **self._facts()}
        return card(self.name, "", facts=facts, picture=picture)

    def _facts(self) -> dict[str, str]:
        summary = self.summary
        known = {"last": summary.last, "min": summary.min, "max": summary.max}
        return {name: format_number(v) for name, v in known.items() if v is not None}

    @property
    def x(self) -> X:
        """What ``at`` counts, as one of ``X_KINDS``.

        Anything else is the name of the metric whose values it holds.
        """
        return X_OF_AXIS[self.axis] if self.reindexed is None else self.reindexed[0]

    @property
    def at(self) -> NDArray[Any]:
        """The position of each point on ``x``."""
        if self.reindexed is not None:
            return self.reindexed[1]
        return self.times if self.axis == "time" else self.steps

    @property
    def floats(self) -> Floats:
        """The values as floats, for drawing and arithmetic."""
        return self.values.astype(np.float64, copy=False)

    @property
    def nbytes(self) -> int:
        """How much memory the points take."""
        return self.steps.nbytes + self.times.nbytes + self.values.nbytes

    @cached_property
    def summary(self) -> Summary:
        """First, last, extremes and mean, with their positions."""
        return summarise(self.at, self.values)

    @property
    def best(self) -> tuple[float | None, float] | None:
        """Position and value of the best finite point; None without a goal or without a point."""
        return None if self.goal is None else self.summary.best(self.goal)

    # -- fewer points -----------------------------------------------------------------------------

    def select(self, which: NDArray[Any] | slice) -> Series:
        """Some of the points, by a mask, by their indices or by a slice.

        Args:
            which: A mask, indices, or a slice.
        """
        moved = None if self.reindexed is None else (self.x, self.at[which])
        return replace(
            self,
            steps=self.steps[which],
            times=self.times[which],
            values=self.values[which],
            reindexed=moved,
        )

    def between(self, lo: float | None, hi: float | None) -> Series:
        """The points with lo <= ``at`` <= hi; None is no bound.

        Args:
            lo: The lowest position; None for no bound.
            hi: The highest position; None for no bound.
        """
        start = 0 if lo is None else int(np.searchsorted(self.at, lo, side="left"))
        stop = self.at.size if hi is None else int(np.searchsorted(self.at, hi, side="right"))
        return self if stop - start == self.at.size else self.select(slice(start, max(start, stop)))

    def buckets(
        self, pixels: int, *, lo: float | None = None, hi: float | None = None, is_log: bool = False
    ) -> Buckets:
        """The points between lo and hi downsampled to a chart's width; all of them if they fit.

        Args:
            pixels: The width of the chart.
            lo: The lowest position; None for no bound.
            hi: The highest position; None for no bound.
            is_log: Make the slices equally wide on a logarithmic axis.
        """
        return buckets(self.at, self.values, pixels=pixels, lo=lo, hi=hi, is_log=is_log)

    def smoothed(self, smoothing: Smoothing) -> Series:
        """The same points with smoothed values.

        Args:
            smoothing: How to smooth.
        """
        return replace(self, values=smoothing.apply(self.floats, self.at))

    # -- another axis -----------------------------------------------------------------------------

    def reindex(self, x: X, run: SeriesRun) -> Series:
        """The points along another axis, in its order; points without a position are left out.

        ``x`` is one of ``X_KINDS``: ``wall`` is in Unix seconds, ``relative`` in seconds since the
        start, ``progress`` in percent of the run's steps or epochs. Or it is the name of a metric:
        a point is then where that metric was last, at the point's step or before. A run that does
        not count epochs or tokens itself may have a metric of that name. A series that cannot be
        converted keeps its own axis: ``x`` of the result says which it is.

        Args:
            x: The axis, or the name of a metric.
            run: The run that the series belongs to.
        """
        moved = self.along(x, run)
        at = moved.at
        if at.dtype.kind != "f":
            return moved
        known = np.isfinite(at)
        if not known.all():
            moved = moved.select(known)
        if bool(np.any(moved.at[1:] < moved.at[:-1])):
            moved = moved.select(np.argsort(moved.at, kind="stable"))
        return moved

    def along(self, x: X, run: SeriesRun) -> Series:
        """Like ``reindex``, with every point in its own order; nan where it has no position.

        Args:
            x: The axis, or the name of a metric.
            run: The run that the series belongs to.
        """
        if x == "wall":
            return replace(self, reindexed=("wall", self.times))
        if x == "relative":
            return replace(self, reindexed=("relative", self.times - self._start(run)))
        if x == "progress" and (total := run.length(self.axis)) is not None:
            # Steps count from 0, and epochs when they are complete.
            done = self.steps + (self.axis == "step")
            total = max(total, int(done.max(initial=1)))
            return replace(self, reindexed=("progress", 100 * done / total))
        if self.axis == "step" and x in ("epoch", "tokens"):
            other = _other(run, _OF_STEP[x], self.rank, "step")
            known = np.isfinite(other.floats) if other is not None else np.zeros(0, dtype=bool)
            if other is not None and known.any():
                values = other.floats[known]
                along = values if x == "epoch" else values.cumsum()
                at = np.interp(self.steps, other.steps[known], along)
                return replace(self, reindexed=(x, at))
        if x in ("step", self.x):
            return self
        places = self._along_metric(x, run)
        return self if places is None else replace(self, reindexed=(x, places))

    def _along_metric(self, name: str, run: SeriesRun) -> Floats | None:
        """The last value of a metric at each point; nan before its first, None without it.

        Series of one axis are matched by their steps, others by their times.
        """
        if (other := _other(run, name, self.rank)) is None:
            return None
        by_step = other.axis == self.axis and self.axis != "time"
        own, places = (self.steps, other.steps) if by_step else (self.times, other.times)
        order = np.argsort(places, kind="stable")
        index = np.searchsorted(places[order], own, side="right")
        found: Floats = np.append(np.nan, other.floats[order])[index]
        return found if bool(np.isfinite(found).any()) else None

    def _start(self, run: SeriesRun) -> float:
        if run.created is not None:
            return run.created
        finite = self.times[np.isfinite(self.times)]
        return float(finite.min()) if finite.size else 0.0

    # -- other libraries --------------------------------------------------------------------------

    def frame(self) -> Any:
        """A data frame of pandas, or of polars where only that is installed."""
        columns = {"step": self.steps, "time": self.times, self.name: self.values}
        if self.x not in ("step", "wall"):
            columns = {self.x: self.at, **columns}
        return data_frame(columns)


def concatenated(pieces: Sequence[Series]) -> Series:
    """The points of several series, one after the other, under the name of the first."""
    if len(pieces) == 1:
        return pieces[0]
    columns = zip(*((one.steps, one.times, one.values) for one in pieces), strict=True)
    steps, times, values = map(np.concatenate, columns)
    return replace(pieces[0], steps=steps, times=times, values=values)


def merge(pieces: Iterable[tuple[int | None, Series]]) -> Series:
    """The points of several parts of a series, ascending; the time axis keeps every point.

    Each piece comes with the step from which a newer attempt replaced it, None where none did. Of
    points at one step the last piece's counts.
    """
    total, visible = 0, list[Series]()
    for cut, piece in pieces:
        total += len(piece)
        visible.append(_visible(piece, cut))
    series = concatenated(visible)
    hidden = total - len(series)
    if series.axis == "time":
        return replace(_sorted(series), hidden=hidden)
    if not bool(np.all(series.steps[:-1] < series.steps[1:])):
        series = _sorted(series)
        is_last_of_step = np.append(series.steps[1:] != series.steps[:-1], True)[: len(series)]
        series = series.select(is_last_of_step)
    return replace(series, duplicates=total - hidden - len(series), hidden=hidden)


def _visible(piece: Series, cut: int | None) -> Series:
    """The points that no newer attempt replaced; the time axis keeps all."""
    if cut is None or piece.axis == "time" or not len(piece) or int(piece.steps.max()) < cut:
        return piece
    return piece.select(piece.steps < cut)


def _sorted(series: Series) -> Series:
    if bool(np.all(series.at[:-1] <= series.at[1:])):
        return series
    return series.select(np.argsort(series.at, kind="stable"))


def data_frame(columns: Mapping[str, NDArray[Any]]) -> Any:
    """A data frame of pandas, else of polars; ``EpochalError`` where neither is installed."""
    for package in ("pandas", "polars"):
        try:
            module = import_module(package)
        except ModuleNotFoundError:
            continue
        return module.DataFrame(dict(columns))
    raise EpochalError(
        "frame() needs pandas or polars: 'pip install pandas', or use .steps and .values."
    )


def _other(run: SeriesRun, name: str, rank: int, axis: Axis | None = None) -> Series | None:
    """Another series of the run, of rank 0 if a rank has none; None without it."""
    for candidate in dict.fromkeys((rank, 0)):
        try:
            return run.series(name, rank=candidate, axis=axis)
        except MetricNotFoundError:
            continue
    return None
