"""What has been read of a foreign run so far, kept so that it can be asked for by name.

This is what a store needs to answer about a run in place, without copying it: one ``Gathered`` per
run, polled like a journal. A point counts as one record, so a position in it is an ordinal.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from epochal.imports.foreign import Batch, ForeignRun, Points
from epochal.record import Record


class Column(NamedTuple):
    """The points of one free metric in the order written; ``ordinals`` count records."""

    ordinals: NDArray[np.int64]
    steps: NDArray[np.int64]
    times: NDArray[np.float64]
    values: NDArray[np.float64]


@dataclass(slots=True, eq=False)
class GatheredAttempt:
    """The batches of one attempt; ``others`` are its records that are not points, by ordinal."""

    num_records: int = 0
    others: list[tuple[int, Record]] = field(default_factory=list)
    _starts: list[int] = field(default_factory=list)
    _batches: list[Batch] = field(default_factory=list)
    _columns: dict[str, Column] | None = None

    def add(self, batch: Batch) -> None:
        """Take in a batch."""
        self._starts.append(self.num_records)
        self._batches.append(batch)
        first = self.num_records + len(batch.points)
        self.others.extend(enumerate(batch.records, first))
        self.num_records = first + len(batch.records)
        if len(batch.points):
            self._columns = None

    def columns(self) -> dict[str, Column]:
        """Every free metric that came as points, in order of first appearance."""
        if self._columns is None:
            self._columns = self._make_columns()
        return self._columns

    def records(self, *, first: int = 0) -> Iterator[tuple[int, Record]]:
        """Every record from an ordinal on, a point at a time."""
        for number in range(max(0, bisect_right(self._starts, first) - 1), len(self._batches)):
            start, batch = self._starts[number], self._batches[number]
            for ordinal, record in enumerate(_each(batch), start):
                if ordinal >= first:
                    yield ordinal, record

    def _make_columns(self) -> dict[str, Column]:
        pieces: dict[str, list[Column]] = {}
        for start, batch in zip(self._starts, self._batches, strict=True):
            for name, piece in _by_name(batch.points, start):
                pieces.setdefault(name, []).append(piece)
        return {
            name: Column(*(np.concatenate(parts) for parts in zip(*found, strict=True)))
            for name, found in pieces.items()
        }


class Gathered:
    """A foreign run as it stood at the last poll."""

    def __init__(self, run: ForeignRun) -> None:
        self.run = run
        self.attempts: dict[int, GatheredAttempt] = {}
        self._seen: object = None

    def poll(self) -> bool:
        """Read what was written since; True when there was anything. Costs a stat when not."""
        signature = self.run.signature()
        if signature == self._seen:
            return False
        changed = False
        for batch in self.run.read_new():
            self.attempts.setdefault(batch.attempt, GatheredAttempt()).add(batch)
            changed = True
        self._seen = signature
        return changed


def columns_of(run: ForeignRun) -> dict[str, Column]:
    """Every free metric of a run that comes as points; read anew where it was left."""
    gathered = GatheredAttempt()
    for batch in run.read_new():
        gathered.add(batch)
    return gathered.columns()


def _by_name(points: Points, start: int) -> Iterator[tuple[str, Column]]:
    if not len(points):
        return
    order = np.argsort(points.which, kind="stable")
    which = points.which[order]
    borders = np.flatnonzero(np.diff(which)) + 1
    for group in np.split(order, borders):
        yield (
            points.names[int(points.which[group[0]])],
            Column(group + start, points.steps[group], points.times[group], points.values[group]),
        )


def _each(batch: Batch) -> Iterator[Record]:
    points = batch.points
    columns = (points.which, points.steps, points.times, points.values)
    for which, step, t, value in zip(*(column.tolist() for column in columns), strict=True):
        yield {"log": "metrics", "t": t, "step": step, "m": {points.names[which]: value}}
    yield from batch.records
