"""A long series in blocks: a chart of it reads few points, or none.

A block is 1,024 neighbouring points, of which first, last, extremes and mean are known. The slices
of a chart that are wider than a block begin where a block begins, so they are a little wider or
narrower than a pixel, and exact. A narrower range is made of its points.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from epochal.records import Axis
from epochal.series.downsample import Buckets, Steps, Table, block_rows, join_blocks
from epochal.series.series import Series, concatenated
from epochal.series.summary import Summary

BLOCK_POINTS = 1024


@dataclass(frozen=True, eq=False)
class Blocks:
    """The blocks of one series, in order; no two have a step in common.

    ``rows`` and ``marks`` are as of ``block_rows``; ``points`` reads the points from one block up
    to another. ``hidden`` is as of ``Series``.
    """

    axis: Axis
    rows: Table
    marks: Table
    points: Callable[[int, int], Series]
    hidden: int = 0

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def begin(self) -> Steps:
        """The position of the first point of each block."""
        return np.asarray(self.rows["begin"])

    @property
    def end(self) -> Steps:
        """The position of the last point of each block."""
        return np.asarray(self.rows["end"])

    @property
    def num_points(self) -> int:
        """How many points the blocks have."""
        return int(self.rows["count"].sum())

    @property
    def is_ascending(self) -> bool:
        """Whether each block begins after the end of the one before."""
        return bool(np.all(self.end[:-1] < self.begin[1:]))

    def between(self, lo: float | None, hi: float | None) -> Blocks:
        """The points with lo <= position <= hi; the points of at most two blocks are read."""
        first, last = self._touched(lo, hi)
        pieces: list[Blocks] = []
        if lo is not None and first < last and self.begin[first] < lo:
            pieces.append(_blocks(self.points(first, first + 1).between(lo, hi)))
            first += 1
        is_cut = hi is not None and first < last and bool(self.end[last - 1] > hi)
        pieces.append(self._some(first, last - is_cut))
        if is_cut:
            pieces.append(_blocks(self.points(last - 1, last).between(lo, hi)))
        return join(pieces)

    def _touched(self, lo: float | None, hi: float | None) -> tuple[int, int]:
        """The first block with points at or after lo, and the one after the last up to hi."""
        first = 0 if lo is None else int(np.searchsorted(self.end, lo, side="left"))
        last = len(self) if hi is None else int(np.searchsorted(self.begin, hi, side="right"))
        return first, max(first, last)

    def _some(self, first: int, last: int) -> Blocks:
        rows = self.rows[first:last]
        steps, marks = self.marks["step"], self.marks[:0]
        if len(rows):
            start = np.searchsorted(steps, rows["begin"][0], side="left")
            stop = np.searchsorted(steps, rows["end"][-1], side="right")
            marks = self.marks[start:stop]
        return replace(
            self,
            rows=rows,
            marks=marks,
            points=lambda start, stop: self.points(first + start, first + stop),
        )

    def downsample(
        self, pixels: int, *, lo: float | None = None, hi: float | None = None
    ) -> Downsampled | None:
        """What a chart of so many pixels shows of the points between lo and hi.

        None where a block is wider than half a pixel of the whole series: charts of it have all of
        its points, which are better read once.
        """
        ends = (float(self.begin[0]), float(self.end[-1]))
        widths = (self.end - self.begin).astype(np.float64)
        if 2 * pixels * widths.max() > ends[1] - ends[0]:
            return None
        first, last = self._touched(lo, hi)
        width = (ends[1] if hi is None else hi) - (ends[0] if lo is None else lo)
        shown: Buckets | Series | None = None
        if 2 * pixels * widths[first:last].max(initial=0) <= width:
            chosen = self.between(lo, hi)
            if chosen.num_points > pixels:
                shown = chosen._slices(pixels, lo, hi)
        if shown is None:
            shown = replace(self.points(first, last).between(lo, hi), hidden=self.hidden)
        return Downsampled(shown, self.axis, *ends, self.hidden)

    @property
    def summary(self) -> Summary:
        """First, last, extremes and mean; a first or last block is read if it has a nan."""
        whole = join_blocks(self.rows, self.marks, starts=np.zeros(1, dtype=np.intp))
        size, is_strange = len(self), self.rows["nonfinite"] > 0
        first = (self.points(0, 1).floats if is_strange[0] else whole.first)[0]
        last = (self.points(size - 1, size).floats if is_strange[-1] else whole.last)[-1]
        known = (whole.min, whole.min_step, whole.max, whole.max_step, whole.mean)
        counts = (self.num_points, int(whole.nonfinite[0]))
        extremes = (column[0].item() for column in known) if whole.finite[0] else ()
        return Summary(*counts, first.item(), last.item(), self.end[-1].item(), *extremes)

    def _slices(self, pixels: int, lo: float | None, hi: float | None) -> Buckets:
        begin, end = self.begin, self.end
        left, right = begin[0] if lo is None else lo, end[-1] if hi is None else hi
        edges = np.linspace(float(left), float(right), pixels + 1)[:-1]
        starts = np.searchsorted(begin, edges, side="left")
        starts = starts[np.diff(starts, append=len(self)) > 0]
        return join_blocks(self.rows, self.marks, starts=starts)


class Downsampled(NamedTuple):
    """A range of a long series: its slices, or its points where they are few.

    ``lo`` and ``hi`` are the ends of the whole series.
    """

    shown: Buckets | Series
    axis: Axis
    lo: float
    hi: float
    hidden: int


def blocks_of(series: Series, *, size: int = BLOCK_POINTS) -> Blocks | None:
    """The blocks of a series in memory; None unless its points and its blocks ascend."""
    before, after = series.at[:-1], series.at[1:]
    if not np.all(before <= after if series.axis == "time" else before < after):
        return None
    found = _blocks(series, size)
    return found if found.is_ascending else None


def _blocks(series: Series, size: int = BLOCK_POINTS) -> Blocks:
    rows, marks = block_rows(series.at, series.floats, size=size)

    def points(start: int, stop: int) -> Series:
        return series.select(slice(start * size, stop * size))

    return Blocks(series.axis, rows, marks, points)


def join(pieces: Sequence[Blocks]) -> Blocks:
    """The blocks of several pieces of one series, one after the other."""
    if len(pieces) == 1:
        return pieces[0]
    offsets = np.cumsum([0, *map(len, pieces[:-1])]).tolist()

    def points(start: int, stop: int) -> Series:
        found: list[Series] = []
        for piece, offset in zip(pieces, offsets, strict=True):
            first, last = max(start - offset, 0), min(stop - offset, len(piece))
            if first < last:
                found.append(piece.points(first, last))
        return concatenated(found or [pieces[0].points(0, 0)])

    rows, marks = (np.concatenate([getattr(p, n) for p in pieces]) for n in ("rows", "marks"))
    return replace(pieces[0], rows=rows, marks=marks, points=points)
