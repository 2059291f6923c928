"""Makes the whole row of a small run from one read of its journal.

Most runs of a list of thousands are small, have ended and hold one journal part: a header, records
that are all numbers, and ``finish``. Their columns are summarised as they are decoded, and nothing
of them is kept in memory. Of every other run the row is made from its ``RunState``, which gives
the same row.
"""

from __future__ import annotations

import math
import os
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from epochal.errors import EpochalError
from epochal.journal.columnar import ColumnarDecoder, KnownShapes, Lines
from epochal.journal.layout import LOOP
from epochal.journal.reader import check_version
from epochal.journal.regular_file import regular_only
from epochal.records import Axis, Position, Record
from epochal.series.reduce import Summary, summarise_rows
from epochal.store.answers import Metric
from epochal.store.local.columns import Names, SeriesKey, seconds
from epochal.store.local.digest import NUMPY_TYPES, plan_of
from epochal.store.local.listing import FoundPart, Listing
from epochal.store.local.meanings import metrics_of
from epochal.store.local.part import PartFacts

_MAX_BYTES = 512 * 1024
_OPEN_FLAGS = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0)


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
    if len(listing.journal) != 1 or listing.sealed or listing.problem is not None:
        return None
    [(name, part)] = listing.journal.items()
    if name.writer != LOOP or part.stat.size > _MAX_BYTES or listing.refused:
        return None
    text = _text(part)
    if text is None:
        return None
    decoded = ColumnarDecoder(shapes).decode(text, first=0)
    if len(decoded.lines) != 2 or not decoded.groups:
        return None
    header, finish = (line.record for line in decoded.lines)
    last = decoded.num_records - 1
    if not _is(header, "run", decoded.lines[0].ordinal, 0):
        return None
    if not _is(finish, "finish", decoded.lines[1].ordinal, last):
        return None
    assert header is not None
    assert finish is not None
    try:
        check_version(header, part.path)
    except EpochalError:
        return None
    tables: list[_Table] = []
    for lines in decoded.groups:
        table = _table(lines)
        if table is None:
            return None
        tables.append(table)
    keys = tuple(SeriesKey(name, table.axis) for table in tables for name in table.names)
    if len(tables) > 1 and len(set(keys)) < len(keys):
        return None
    facts = PartFacts(name, num_records=decoded.num_records)
    facts.note(0, header)
    facts.note(last, finish)
    if facts.num_damaged:
        return None
    for table in tables:
        if table.reached is not None:
            facts.reach("step", table.reached)
    times = [t for record in (header, finish) if math.isfinite(t := seconds(record))]
    facts.updated = max([*times, *(table.updated for table in tables)])
    summaries = [summary for table in tables for summary in table.summaries]
    return SmallJournal(facts, _metrics(keys), summaries)


def _is(record: Record | None, kind: str, ordinal: int, expected: int) -> bool:
    return record is not None and record["log"] == kind and ordinal == expected


def _text(part: FoundPart) -> bytes | None:
    """The part as it was listed; None where it is another by now, or its end is not whole."""
    try:
        file = regular_only(str(part.path), _OPEN_FLAGS)
        try:
            text = os.read(file, part.stat.size + 1)
        finally:
            os.close(file)
    except OSError:
        return None
    is_whole = len(text) == part.stat.size and text.endswith(b"\n") and b"\0" not in text
    return text if is_whole else None


def _table(lines: Lines) -> _Table | None:
    """The series of records of one shape; None where a point may replace or follow another."""
    if lines.shape.kind == "gpu":  # several of them share a shape
        return None
    plan = plan_of(lines.shape, None)
    if plan is None:
        return None
    columns = {
        path: np.frombuffer(column, dtype=NUMPY_TYPES[kind])
        for path, kind, column in zip(
            lines.shape.paths(), lines.shape.types, lines.columns, strict=True
        )
        if kind in NUMPY_TYPES
    }
    times: Any = columns["t",]
    steps: Any = columns.get(("step",))
    is_time = plan.axis == "time"
    along = times if is_time else steps
    if along is None:
        return None
    before, after = along[:-1], along[1:]
    if not (before <= after if is_time else before < after).all():
        return None
    values = np.array([columns[path] for path in plan.paths], dtype=np.float64)
    return _Table(
        plan.names,
        plan.axis,
        float(times.max()),
        int(steps[-1]) if plan.axis == "step" else None,
        summarise_rows(along, values),
    )


@lru_cache(64)
def _metrics(keys: tuple[SeriesKey, ...]) -> tuple[Metric, ...]:
    """The metrics of series that were not defined; thousands of runs have the same ones."""
    return tuple(metrics_of({key: {0} for key in keys}, {}))
