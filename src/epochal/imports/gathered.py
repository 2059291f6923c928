"""The records of another tracker's run read so far, by name.

This is what a store needs to answer about a run in place, without copying it: one ``Gathered`` per
run, polled like a journal. A point counts as one record, so a position in it is an ordinal.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from epochal.imports.foreign import Batch, Extent, ForeignRun, Points
from epochal.records import Record


class Column(NamedTuple):
    """The points of one free metric in the order written; ``ordinals`` count records."""

    ordinals: NDArray[np.int64]
    steps: NDArray[np.int64]
    times: NDArray[np.float64]
    values: NDArray[np.float64]

    def after(self, start: int) -> Column:
        """The points from a place on."""
        ordinals, steps, times, values = self
        return Column(ordinals[start:], steps[start:], times[start:], values[start:])


@dataclass(slots=True, eq=False)
class GatheredAttempt:
    """The batches of one attempt; ``others`` are its records that are not points, by ordinal.

    ``latest`` and ``furthest`` are the newest time and the highest step of its points.
    """

    num_records: int = 0
    num_points: int = 0
    others: list[tuple[int, Record]] = field(default_factory=list)
    latest: float | None = None
    furthest: int | None = None
    _pieces: dict[str, list[Column]] = field(default_factory=dict)

    def add(self, batch: Batch) -> None:
        """Take in a batch."""
        for name, piece in _by_name(batch.points, self.num_records):
            self._pieces.setdefault(name, []).append(piece)
        if len(batch.points):
            self._note(batch.points)
        self.num_points += len(batch.points)
        first = self.num_records + len(batch.points)
        self.others.extend(enumerate(batch.records, first))
        self.num_records = first + len(batch.records)

    def _note(self, points: Points) -> None:
        latest, furthest = float(np.fmax.reduce(points.times)), int(points.steps.max())
        if math.isfinite(latest):
            self.latest = latest if self.latest is None else max(latest, self.latest)
        self.furthest = furthest if self.furthest is None else max(furthest, self.furthest)

    @property
    def names(self) -> list[str]:
        """Every free metric that came as points, in order of first appearance."""
        return list(self._pieces)

    def column(self, name: str) -> Column | None:
        """The points of one free metric, None when there are none."""
        pieces = self._pieces.get(name)
        if pieces is None:
            return None
        if len(pieces) > 1:
            pieces[:] = [Column(*(np.concatenate(parts) for parts in zip(*pieces, strict=True)))]
        return pieces[0]

    def columns(self) -> dict[str, Column]:
        """Every free metric that came as points, in order of first appearance."""
        return {name: column for name in self._pieces if (column := self.column(name)) is not None}

    def records(self, *, first: int = 0) -> Iterator[tuple[int, Record]]:
        """Every record from an ordinal on, a point at a time."""
        others = iter(self.others[bisect_left(self.others, first, key=itemgetter(0)) :])
        other = next(others, None)
        for ordinal, record in self._points_from(first):
            while other is not None and other[0] < ordinal:
                yield other
                other = next(others, None)
            yield ordinal, record
        if other is not None:
            yield other
            yield from others

    def _points_from(self, first: int) -> Iterator[tuple[int, Record]]:
        """Points as records, by ordinal."""
        names, columns = [], []
        for name, column in self.columns().items():
            start = int(np.searchsorted(column.ordinals, first))
            if start < len(column.ordinals):
                names.append(name)
                columns.append(column.after(start))
        if not columns:
            return
        which = np.repeat(np.arange(len(names)), [len(column.ordinals) for column in columns])
        whole = Column(*(np.concatenate(parts) for parts in zip(*columns, strict=True)))
        order = np.argsort(whole.ordinals, kind="stable")
        rows = zip(*(part[order].tolist() for part in (which, *whole)), strict=True)
        for number, ordinal, step, t, value in rows:
            yield ordinal, {"log": "metrics", "t": t, "step": step, "m": {names[number]: value}}


class Gathered:
    """A foreign run as it stood at the last poll."""

    def __init__(self, run: ForeignRun) -> None:
        self.run = run
        self.attempts: dict[int, GatheredAttempt] = {}
        self._seen: object = None
        self._extent = Extent(0, 0.0)

    def poll(self) -> bool:
        """Read what was written since; True when there was anything. Costs a stat when not.

        Files that were replaced by shorter ones are read anew.
        """
        signature = self.run.signature()
        if signature == self._seen:
            return False
        before, self._extent = self._extent, self.run.extent()
        is_replaced = self._extent.size_bytes < before.size_bytes
        if is_replaced:
            self.run.rewind()
            self.attempts = {}
        changed = is_replaced
        for batch in self.run.read_new():
            self.attempts.setdefault(batch.attempt, GatheredAttempt()).add(batch)
            changed = True
        self._seen = signature
        return changed

    def release(self) -> None:
        """Let go of everything; the next poll reads it again."""
        self.run.rewind()
        self.attempts = {}
        self._seen, self._extent = None, Extent(0, 0.0)


def _by_name(points: Points, start: int) -> Iterator[tuple[str, Column]]:
    """The points of each name, the names in order of first appearance."""
    if not len(points):
        return
    order = np.argsort(points.which, kind="stable")
    borders = np.flatnonzero(np.diff(points.which[order])) + 1
    for group in sorted(np.split(order, borders), key=lambda group: int(group[0])):
        yield (
            points.names[int(points.which[group[0]])],
            Column(group + start, points.steps[group], points.times[group], points.values[group]),
        )
