"""Reads the parts of a small run that has ended in one go each.

Most runs of a list of thousands are small and have ended. They hold one part of rank 0 and perhaps
those of its companion: a header, records that are mostly numbers, and ``finish``. Columns are
summarised as they are decoded, and none is kept in memory. Of every other run the row is made from
parts that are read on as they grow, which gives the same row.
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from operator import le, lt
from typing import Any, NamedTuple

import numpy as np

from epochal.journal.layout import FINDINGS, LOOP, TELEMETRY, PartName
from epochal.journal.line import decode_whole
from epochal.journal.reader import is_newer
from epochal.journal.regular_file import open_regular
from epochal.journal.shape import FieldPath, KnownShapes, LineDecoder, Shape, unpack
from epochal.records import (
    DENSE_KINDS,
    Axis,
    Position,
    Record,
    axis_of,
    stored_numbers_of,
    whole_number,
)
from epochal.segments.columns import PartSummary, plan_of
from epochal.series.reduce import Summary, summarise_rows
from epochal.series.series import Series
from epochal.store.answers import Metric
from epochal.store.local.columns import Names, SeriesKey, SeriesTable, seconds
from epochal.store.local.listing import Listing
from epochal.store.local.part import FACT_KINDS, PartFacts, Place, StalePartError, label_of
from epochal.store.metrics import undefined_metrics

_MAX_BYTES = 512 * 1024
_LIMIT = 2**63
# A sum of as many numbers as fit in such a file is finite.
_NEARLY_INFINITE = 1e300


class SmallPart:
    """A part that has ended: what its series amount to, and its other records.

    It has no points: who asks for those reads the run in full.
    """

    held_bytes = 0

    def __init__(
        self, facts: PartFacts, tables: list[_Table], others: list[tuple[int, Record]]
    ) -> None:
        self.facts = facts
        self._tables = tables
        self._others = others
        self._kept: dict[SeriesKey, PartSummary] | None = None

    @property
    def name(self) -> PartName:
        """Writer, attempt and number of the part."""
        return self.facts.name

    @property
    def is_plain(self) -> bool:
        """Whether it holds series alone, each in one table."""
        return not self._others

    @property
    def summaries(self) -> list[Summary]:
        """What its series amount to, in their order."""
        return [summary for table in self._tables for summary in table.summaries]

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Its series, where no record defines what they mean."""
        return undefined_metrics(tuple(self.series_keys()))

    def series_keys(self) -> Iterable[SeriesKey]:
        """Every series it holds, in order of first appearance."""
        if len(self._tables) == 1:
            return _keys(self._tables[0].names, self._tables[0].axis)
        return [key for table in self._tables for key in _keys(table.names, table.axis)]

    def tables(self) -> Iterable[SeriesTable]:
        """None: their summaries are kept."""
        return ()

    def kept_summaries(self) -> Mapping[SeriesKey, PartSummary]:
        """What all its series amount to."""
        if self._kept is None:
            self._kept = {
                SeriesKey(name, table.axis): PartSummary(summary, table.first_at, table.last_t)
                for table in self._tables
                for name, summary in zip(table.names, table.summaries, strict=True)
            }
        return self._kept

    def places(self, kind: str, *, label: str | None = None) -> Iterator[Place]:
        """Where its records of a kind are."""
        for ordinal, record in self._others:
            if record["log"] == kind and label in (None, label_of(record)):
                yield Place.of(ordinal, record, self.facts.origin)

    def read(self, kind: str, places: list[Place]) -> list[Record]:
        """The records at these places."""
        found = dict(self._others)
        return [found[place.ordinal] for place in places]

    def series(self, key: SeriesKey) -> Series | None:
        """Raises ``StalePartError``: no points were kept."""
        raise StalePartError(f"the points of {key.name} were not kept.")

    def records(self, *, first: int) -> Iterator[tuple[Position, Record]]:
        """Raises ``StalePartError``, as ``series`` does."""
        raise StalePartError(f"the records of {self.name.stem} were not kept.")

    def close(self) -> None:
        """Does nothing: its file is closed."""


class _Table(NamedTuple):
    """Series that were logged together, and what each amounts to."""

    names: Names
    axis: Axis
    updated: float
    reached: int | None
    first_at: float
    last_t: float
    summaries: list[Summary]


def read_small(listing: Listing, shapes: KnownShapes) -> Sequence[SmallPart] | None:
    """The parts of a small run; None where the run has to be read in full."""
    found = None if listing.problem is not None else listing.plain_parts()
    if not found or sum(name.writer == LOOP for name, _, _ in found) != 1:
        return None
    if not all(size <= _MAX_BYTES and _is_expected(name) for name, _, size in found):
        return None
    parts: list[SmallPart] = []
    for name, path, size in found:
        part = _read_part(name, path, size, shapes)
        if part is None:
            return None
        parts.append(part)
    return parts


def _is_expected(name: PartName) -> bool:
    return name.writer in (LOOP, FINDINGS) or name.writer.startswith(TELEMETRY)


def _read_part(name: PartName, path: str, size: int, shapes: KnownShapes) -> SmallPart | None:
    text = _text(path, size)
    if text is None:
        return None
    first, last = text.find(b"\n") + 1, text.rfind(b"\n", 0, -1) + 1
    header, finish = decode_whole(text[: first - 1]), decode_whole(text[last:-1])
    if header is None or finish is None or first > last or is_newer(header):
        return None
    if header["log"] != "run" or finish["log"] != "finish":
        return None
    groups, others = _content(text[first:last], shapes)
    if groups is None or others is None:
        return None
    num_records = 2 + len(others) + sum(len(columns[0]) for _, columns in groups)
    facts = PartFacts(name, num_records=num_records)
    tables = _tables(groups)
    facts.note(0, header)
    if tables is None or not _note(facts, others):
        return None
    facts.note(num_records - 1, finish)
    if facts.num_damaged:
        return None
    for table in tables:
        if table.reached is not None:
            facts.reach("step", table.reached)
    said = [seconds(header), seconds(finish), *(seconds(record) for _, record in others)]
    times = [*filter(math.isfinite, said), *(table.updated for table in tables)]
    facts.updated = max(times, default=None)
    return SmallPart(facts, tables, others)


_Groups = list[tuple[Shape, list[tuple[Any, ...]]]]


def _content(
    text: bytes, shapes: KnownShapes
) -> tuple[_Groups | None, list[tuple[int, Record]] | None]:
    """The columns of lines, and the other records with their ordinals; None for any damage."""
    if not text:
        return [], []
    decoded = LineDecoder(shapes).decode(text, first=1)
    others: list[tuple[int, Record]] = []
    for line in decoded.lines:
        if line.record is None or not line.is_whole or line.record["log"] in DENSE_KINDS:
            return None, None
        others.append((line.ordinal, line.record))
    return [
        (
            rows.shape,
            [
                tuple(unpack(kind, column, len(rows.ordinals)))
                for kind, column in zip(rows.shape.types, rows.columns, strict=True)
            ],
        )
        for rows in decoded.rows
    ], others


def _tables(groups: _Groups) -> list[_Table] | None:
    """The series of records by shape; None where one lies in two tables or not in order."""
    tables: list[_Table] = []
    for shape, columns in groups:
        for gpu, some in _by_gpu(shape, columns):
            table = _table(shape, gpu, some)
            if table is None:
                return None
            tables.append(table)
    if len(tables) > 1:
        names = [(name, table.axis) for table in tables for name in table.names]
        if len(set(names)) < len(names):
            return None
    return tables


def _by_gpu(
    shape: Shape, columns: list[tuple[Any, ...]]
) -> Iterator[tuple[Any, list[tuple[Any, ...]]]]:
    """The columns of each GPU, with its id: those of several GPUs have one shape."""
    place = _places(shape).get(("id",)) if shape.kind == "gpu" else None
    if place is None:
        yield None, columns
        return
    rows: dict[Any, list[int]] = {}
    for row, gpu in enumerate(columns[place]):
        rows.setdefault(gpu, []).append(row)
    for gpu, some in rows.items():
        yield (
            gpu,
            columns
            if len(rows) == 1
            else [tuple([column[row] for row in some]) for column in columns],
        )


def _note(facts: PartFacts, records: list[tuple[int, Record]]) -> bool:
    """Note what records say of the run; False where one is damaged or holds points of series."""
    for ordinal, record in records:
        axis = axis_of(record)
        if record["log"] in FACT_KINDS:
            facts.note(ordinal, record)
        at = whole_number(record.get("epoch" if axis == "epoch" else "step"))
        if at is not None and axis in ("step", "epoch"):
            facts.reach(axis, at)
        if axis == "time" or (at is not None and axis != "none"):
            try:
                if record["log"] == "allocator" or any(stored_numbers_of(record)):
                    return False
            except (AttributeError, TypeError, ValueError, OverflowError):
                return False
    return True


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


def _table(shape: Shape, gpu: Any, columns: list[tuple[Any, ...]]) -> _Table | None:
    """The series of records of one shape; None where a point may replace or follow another."""
    plan = plan_of(shape, gpu)
    places = _places(shape)
    is_float = ("t",) in places and shape.types[places["t",]] is float
    if plan is None or not plan.names or any(w is not None for w in plan.words) or not is_float:
        return None
    times = columns[places["t",]]
    is_time = plan.axis == "time"
    if not is_time and ("step",) not in places:
        return None
    along = times if is_time else columns[places["step",]]
    if not all(map(le if is_time else lt, along, along[1:])):
        return None
    rows: list[tuple[Any, ...]] = []
    for place in plan.places:
        column = columns[place]
        if shape.types[place] is not float:
            if min(column) < -_LIMIT or max(column) >= _LIMIT:
                return None
            column = tuple(map(float, column))
        rows.append(column)
    if not -_LIMIT <= along[0] <= along[-1] < _LIMIT:
        return None
    updated = max(times)
    if updated >= _LIMIT or abs(times[-1]) >= _LIMIT:
        return None
    summaries = _summarised(along, rows)
    reached = along[-1] if plan.axis == "step" else None
    return _Table(plan.names, plan.axis, updated, reached, along[0], times[-1], summaries)


@lru_cache(256)
def _places(shape: Shape) -> dict[FieldPath, int]:
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


@lru_cache(256)
def _keys(names: Names, axis: Axis) -> tuple[SeriesKey, ...]:
    return tuple(SeriesKey(name, axis) for name in names)
