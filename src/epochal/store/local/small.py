"""Makes the whole row of a small run from one read of its journal.

Most runs of a list of thousands are small, have ended and hold one journal part: a header, records
that are all numbers, and ``finish``. Their columns are summarised as they are decoded, and nothing
of them is kept in memory. Of every other run the row is made from its ``RunState``, which gives
the same row.
"""

from __future__ import annotations

import math
import os
import struct
from functools import lru_cache
from itertools import chain
from operator import le, lt
from typing import Any, NamedTuple

import numpy as np

from epochal.journal.columnar import KnownShapes
from epochal.journal.layout import LOOP
from epochal.journal.line import decode_json
from epochal.journal.line_columns import FieldPath, LineShape
from epochal.journal.reader import is_newer
from epochal.journal.regular_file import open_regular
from epochal.records import Axis, Position, Record
from epochal.series.reduce import Summary, summarise_rows
from epochal.store.answers import Metric
from epochal.store.local.columns import Names, SeriesKey, seconds
from epochal.store.local.listing import Listing
from epochal.store.local.part import PartFacts
from epochal.store.local.tail import plan_of
from epochal.store.metrics import metrics_of

_MAX_BYTES = 512 * 1024
_LIMIT = 2**63
# A sum of as many numbers as fit in such a file is finite.
_NEARLY_INFINITE = 1e300


class SmallJournal(NamedTuple):
    """What one journal part says of its run that has ended; ``summaries`` are in metrics' order."""

    facts: PartFacts
    metrics: tuple[Metric, ...]
    summaries: list[Summary]

    @property
    def end(self) -> dict[str, Position]:
        """The position of the last record."""
        return {LOOP: Position(*self.facts.name, self.facts.num_records - 1)}


class _Table(NamedTuple):
    """Series that were logged together, and what each amounts to."""

    names: Names
    axis: Axis
    updated: float
    reached: int | None
    summaries: list[Summary]


def read_small(listing: Listing, shapes: KnownShapes) -> SmallJournal | None:
    """What the only part of a small run says; None where the run has to be read in full."""
    part = None if listing.problem is not None else listing.only_part()
    if part is None or part[0].writer != LOOP or part[2] > _MAX_BYTES:
        return None
    name, path, size = part
    text = _text(path, size)
    if text is None:
        return None
    first, last = text.find(b"\n") + 1, text.rfind(b"\n", 0, -1) + 1
    header, finish = _record(text[: first - 1], "run"), _record(text[last:-1], "finish")
    if header is None or finish is None or not first < last or is_newer(header):
        return None
    groups = shapes.columns(text[first:last])
    if groups is None:
        return None
    tables: list[_Table] = []
    for shape, columns in groups:
        table = _table(shape, columns)
        if table is None:
            return None
        tables.append(table)
    keys = tuple(SeriesKey(name, table.axis) for table in tables for name in table.names)
    if len(tables) > 1 and len(set(keys)) < len(keys):
        return None
    facts = PartFacts(name, num_records=2 + sum(len(columns[0]) for _, columns in groups))
    facts.note(0, header)
    facts.note(facts.num_records - 1, finish)
    if facts.num_damaged:
        return None
    for table in tables:
        if table.reached is not None:
            facts.reach("step", table.reached)
    times = [t for record in (header, finish) if math.isfinite(t := seconds(record))]
    facts.updated = max([*times, *(table.updated for table in tables)])
    summaries = [summary for table in tables for summary in table.summaries]
    return SmallJournal(facts, _metrics(keys), summaries)


def _record(line: bytes, kind: str) -> Record | None:
    """The record of a line that is whole and of this kind; None for any other."""
    try:
        record = decode_json(line)
    except (ValueError, RecursionError):
        return None
    return record if type(record) is dict and record.get("log") == kind else None


def _text(path: str, size: int) -> bytes | None:
    """The part as it was listed; None where it is another by now, or its end is not whole."""
    try:
        file, _ = open_regular(path)
        try:
            text = os.read(file, size + 1)
        finally:
            os.close(file)
    except OSError:
        return None
    is_whole = len(text) == size and text.endswith(b"\n") and b"\0" not in text
    return text if is_whole else None


def _table(shape: LineShape, columns: list[tuple[Any, ...]]) -> _Table | None:
    """The series of records of one shape; None where a point may replace or follow another."""
    plan = None if shape.kind == "gpu" else plan_of(shape, None)  # several GPUs share a shape
    if plan is None:
        return None
    places = _places(shape)
    times = columns[places["t",]]
    is_time = plan.axis == "time"
    if not is_time and ("step",) not in places:
        return None
    along = times if is_time else columns[places["step",]]
    if not all(map(le if is_time else lt, along, along[1:])):
        return None
    rows: list[tuple[Any, ...]] = []
    for path in plan.paths:
        place = places[path]
        column = columns[place]
        if shape.types[place] is not float:
            if min(column) < -_LIMIT or max(column) >= _LIMIT:
                return None
            column = tuple(map(float, column))
        rows.append(column)
    if not -_LIMIT <= along[0] <= along[-1] < _LIMIT:
        return None
    summaries = _summarised(along, rows)
    reached = along[-1] if plan.axis == "step" else None
    return _Table(plan.names, plan.axis, max(times), reached, summaries)


@lru_cache(256)
def _places(shape: LineShape) -> dict[FieldPath, int]:
    return {path: place for place, path in enumerate(shape.paths())}


def _summarised(along: tuple[Any, ...], rows: list[tuple[float, ...]]) -> list[Summary]:
    """As ``summarise_rows``, for few numbers, all of them finite."""
    count, last_step = len(along), along[-1]
    numbers = struct.pack(f"={count * len(rows)}d", *chain.from_iterable(rows))
    values = np.frombuffer(numbers).reshape(len(rows), count)
    lows, highs = values.argmin(axis=1).tolist(), values.argmax(axis=1).tolist()
    ends = [
        bound
        for row, low, high in zip(rows, lows, highs, strict=True)
        for bound in (row[low], row[high])
    ]
    if max(ends) > _NEARLY_INFINITE or min(ends) < -_NEARLY_INFINITE:
        return summarise_rows(along, values)
    sums = np.add.reduce(values, axis=1).tolist()
    return [
        Summary(
            count,
            0,
            row[0],
            row[-1],
            last_step,
            row[low],
            along[low],
            row[high],
            along[high],
            total / count,
        )
        for row, low, high, total in zip(rows, lows, highs, sums, strict=True)
    ]


@lru_cache(64)
def _metrics(keys: tuple[SeriesKey, ...]) -> tuple[Metric, ...]:
    """The metrics of series that were not defined; thousands of runs have the same ones."""
    return tuple(metrics_of({key: {0} for key in keys}, {}))
