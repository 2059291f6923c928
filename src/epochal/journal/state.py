"""The state of a run: the numbers of its parts as columns, and the parts merged into series.

A part is a growing journal, a sealed segment or an import. Those that are read line by line keep
their numbers in ``PartColumns``; ``RunState`` merges what all parts have, attempt by attempt.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from epochal.errors import FormatError, UsageError
from epochal.journal.entries import Cursor, Entry
from epochal.journal.facts import Extent, PartFacts, RunFacts, SeriesKey, seconds, weight_of
from epochal.journal.fold import RunMetrics, areas_of, series_summary, without_details
from epochal.journal.layout import PartName
from epochal.journal.metrics import Metric, metrics_of, set_metrics
from epochal.journal.row import Mark
from epochal.journal.rows import Rows
from epochal.records import (
    DENSE_KINDS,
    KINDS,
    Axis,
    Position,
    Record,
    axis_of,
    stored_numbers_of,
    whole_number,
)  # fmt: skip
from epochal.series.blocks import Blocks, blocks_of, join
from epochal.series.downsample import summarise_rows
from epochal.series.series import Series, concatenated, merge
from epochal.series.summary import Summary

# Where a name is on several axes, the first of these is meant.
AXES: tuple[Axis, ...] = ("step", "epoch", "time")
NO_STEP = -1
# Logs that hardly ever repeat a set of names would make a block for each record: beyond this many
# sets, each value goes to a block of its own name.
_MAX_BLOCKS = 256
_VALUES_AT_ONCE = 1 << 20
# Chunks of so many records are not joined with others.
_WHOLE_CHUNK = 1024

Names = tuple[str, ...]


# The series with their ranks, the definitions, and the metrics that were made of them.
_KnownMetrics = tuple[Mapping[SeriesKey, set[int]], Mapping[str, Mapping[str, Any]], list[Metric]]


# -- one part -------------------------------------------------------------------------------------


class PartSummary(NamedTuple):
    """The summary of a series in one part.

    ``first_at`` is the position of its first point on its axis, ``last_t`` the time of its last
    point in Unix seconds.
    """

    summary: Summary
    first_at: float
    last_t: float


# Arrays that are never written to: ordinals, steps, times, and the values of each name of a block.
_Chunk = Sequence[NDArray[Any]]
_ORDINALS, _STEPS, _TIMES, _FIRST = range(4)


class _Block:
    """The records of one part that hold the same series: 24 bytes for each, and 8 for each value.

    A journal that is read at once makes few large chunks. Small ones are joined as they come, so
    that a part which grows by a record at a time has few chunks as well.
    """

    __slots__ = ("_chunks", "_rows", "names", "nbytes")

    def __init__(self, names: Names) -> None:
        self.names = names
        self.nbytes = 0
        self._chunks: list[_Chunk] = []
        self._rows: list[tuple[Any, ...]] = []  # records that came one by one, after the chunks

    def add(self, chunk: _Chunk) -> None:
        """Add records."""
        self._join_rows()
        self.nbytes += 8 * chunk[0].size * len(chunk)
        self._put(chunk)

    def add_row(self, *row: Any) -> None:
        """Add one record."""
        self.nbytes += 8 * len(row)
        self._rows.append(row)

    def _join_rows(self) -> None:
        if self._rows:
            columns = enumerate(zip(*self._rows, strict=True))
            self._put([np.array(c, np.int64 if n < _TIMES else np.float64) for n, c in columns])
            self._rows = []

    def _put(self, chunk: _Chunk) -> None:
        chunks, size = self._chunks, chunk[0].size
        first = len(chunks)
        while first and size < _WHOLE_CHUNK and chunks[first - 1][0].size < 2 * size:
            first -= 1
            size += chunks[first][0].size
        if first < len(chunks):
            chunk = list(map(np.concatenate, zip(*chunks[first:], chunk, strict=True)))
        chunks[first:] = [chunk]

    def column(self, number: int) -> NDArray[Any]:
        """One of the arrays of a chunk, for all records."""
        self._join_rows()
        return np.concatenate([chunk[number] for chunk in self._chunks])

    def along(self, axis: Axis) -> NDArray[Any]:
        """Where the records are on an axis."""
        return self.column(_TIMES if axis == "time" else _STEPS)


class PartColumns:
    """Every series of one part as growing columns, in order of first appearance.

    Records that hold the same series share a block. Each block keeps the ordinals of its records,
    so that a series of several blocks comes back in the order written.
    """

    def __init__(self) -> None:
        self._blocks: dict[tuple[Axis, Names], _Block] = {}
        self._places: dict[SeriesKey, list[tuple[_Block, int]]] = {}
        self.num_malformed = 0

    def __iter__(self) -> Iterator[SeriesKey]:
        return iter(self._places)

    def __contains__(self, key: object) -> bool:
        return key in self._places

    @property
    def nbytes(self) -> int:
        """How much memory the columns take."""
        return sum(block.nbytes for block in self._blocks.values())

    def _blocks_of(self, axis: Axis, names: Names) -> list[_Block]:
        """The block of these names; a block for each if there are too many sets of names."""
        block = self._blocks.get((axis, names))
        if block is None:
            if len(names) > 1 and len(self._blocks) >= _MAX_BLOCKS:
                return [block for name in names for block in self._blocks_of(axis, (name,))]
            block = self._blocks[axis, names] = _Block(names)
            for place, name in enumerate(names, _FIRST):
                self._places.setdefault(SeriesKey(name, axis), []).append((block, place))
        return [block]

    def add_rows(self, rows: Rows) -> Extent:
        """Add records with the same keys; returns how far they reach."""
        times = rows.numbers.get(("t",))
        series = {key.name: rows.numbers[path] for key, path in rows.series().items()}
        if series:
            size = rows.ordinals.size
            steps = rows.steps if rows.steps.size else np.full(size, NO_STEP)
            known = np.full(size, math.nan) if times is None else times
            for block in self._blocks_of(KINDS[rows.kind].axis, tuple(series)):
                block.add((rows.ordinals, steps, known, *(series[name] for name in block.names)))
        step = rows.steps.max().item() if rows.steps.size else None
        return Extent(step, None if times is None else times.max().item())

    def add(self, record: Record, *, ordinal: int) -> tuple[Extent, Iterable[SeriesKey]]:
        """Add every number of a record; returns how far it reaches, and the series of its numbers.

        A record that is not what its kind should be is counted in ``num_malformed``.
        """
        axis, t = axis_of(record), seconds(record)
        at = whole_number(record.get("epoch" if axis == "epoch" else "step"))
        step = at if axis != "epoch" else whole_number(record.get("step"))
        extent = Extent(step, t if math.isfinite(t) else None)
        if axis == "none" or (at is None and axis != "time"):
            return extent, ()
        try:
            numbers = list(stored_numbers_of(record))
        except (AttributeError, TypeError, ValueError, OverflowError):
            numbers = None
        if record["log"] == "allocator" and not isinstance(record.get("stats", []), list):
            numbers = None
        self.num_malformed += numbers is None
        if not numbers:
            return extent, ()
        names, values = zip(*numbers, strict=True)
        left = iter(values)
        for block in self._blocks_of(axis, names):
            own = itertools.islice(left, len(block.names))
            block.add_row(ordinal, NO_STEP if at is None else at, t, *own)
        return extent, [SeriesKey(name, axis) for name in names]

    def points(self, key: SeriesKey, rank: int = 0) -> tuple[Series, NDArray[np.int64]]:
        """The points of one series in the order written, and the ordinals of their records."""
        pieces: list[tuple[Series, NDArray[np.int64]]] = []
        for block, number in self._places[key]:
            steps, times, values = map(block.column, (_STEPS, _TIMES, number))
            points = Series(*key, rank, steps, times, values)
            pieces.append((points, block.column(_ORDINALS)))
        return in_order(pieces)

    def summaries(self) -> dict[SeriesKey, PartSummary]:
        """The summary of every series; those over the same steps are made together."""
        found: dict[SeriesKey, PartSummary] = {}
        together: dict[tuple[Axis, bytes], list[_Block]] = {}
        for (axis, _), block in self._blocks.items():
            along = block.along(axis)
            if np.all(along[:-1] < along[1:]):
                together.setdefault((axis, along.tobytes()), []).append(block)
        for (axis, _), blocks in together.items():
            columns = [
                (SeriesKey(name, axis), block.column(number), times[-1].item())
                for block in blocks
                for times in (block.column(_TIMES),)
                for number, name in enumerate(block.names, _FIRST)
                if len(self._places[SeriesKey(name, axis)]) == 1
            ]
            at = blocks[0].along(axis)
            width = max(1, _VALUES_AT_ONCE // at.size)
            for start in range(0, len(columns), width):
                some = columns[start : start + width]
                made = summarise_rows(at, np.stack([values for _, values, _ in some]))
                for (key, _, last_t), summary in zip(some, made, strict=True):
                    found[key] = PartSummary(summary, at[0].item(), last_t)
        for key in self._places:
            if key not in found:
                whole = merge([(None, self.points(key)[0])])
                found[key] = PartSummary(whole.summary, whole.at[0].item(), whole.times[-1].item())
        return found


def in_order(
    pieces: Iterable[tuple[Series, NDArray[np.int64]]],
) -> tuple[Series, NDArray[np.int64]]:
    """The points of several places of a part in the order of their records, and the ordinals."""
    series, columns = zip(*pieces, strict=True)
    points, ordinals = concatenated(series), np.concatenate(columns)
    if bool(np.all(ordinals[:-1] <= ordinals[1:])):
        return points, ordinals
    order = np.argsort(ordinals, kind="stable")
    return points.select(order), ordinals[order]


class StalePartError(FormatError):
    """The file of a part no longer has the records that were read of it; read the run again."""


class Part(Protocol):
    """One part, as far as it has been read."""

    @property
    def name(self) -> PartName:
        """Writer, attempt and number of the part."""

    @property
    def facts(self) -> PartFacts:
        """What its records say about the run."""

    @property
    def held_bytes(self) -> int:
        """About how many bytes of it are in memory."""

    @property
    def num_bytes(self) -> int:
        """How many bytes of the journal were read, or sealed."""

    @property
    def is_sealed(self) -> bool:
        """Whether it is a segment."""

    def series_keys(self) -> Iterable[SeriesKey]:
        """Every series it holds, in order of first appearance."""

    def summaries(self) -> Mapping[SeriesKey, PartSummary]:
        """The summary of every series."""

    def series(self, key: SeriesKey) -> Series | None:
        """Its points of one series in the order written, None when there are none."""

    def blocks(self, key: SeriesKey) -> Blocks | None:
        """The same in blocks; None where it has no summaries of blocks."""

    def kinds(self) -> Iterable[str]:
        """The kinds of its records; those in ``DENSE_KINDS`` may be left out."""

    def entries(self, kind: str, *, label: str | None = None) -> Iterator[tuple[int, Record]]:
        """Its records of a kind with their ordinals, of one label or of all.

        Not for ``DENSE_KINDS``.
        """

    def records(self, *, first: int) -> Iterator[tuple[Position, Record]]:
        """Its records as written, from an ordinal on."""


# -- all parts ------------------------------------------------------------------------------------


def label_of(record: Record) -> str:
    """The name or id of a record among others of its kind."""
    name = record.get("name", record.get("id", ""))
    return name if isinstance(name, str) else str(name)


class RunState(RunFacts):
    """The parts of a run as one; a new one is made when any of them has grown."""

    def __init__(self, parts: Sequence[Part], *, before: RunState | None = None) -> None:
        self.parts = sorted(parts, key=lambda part: part.name)
        # A hundred thousand metrics are the same ones after a step.
        self._known_metrics: _KnownMetrics | None = getattr(before, "_known_metrics", None)
        super().__init__(part.facts for part in self.parts)

    # -- series -----------------------------------------------------------------------------------

    def find(self, name: str, axis: Axis | None, rank: int) -> SeriesKey | None:
        """The series of a name, the step axis first where none is asked for; None for none."""
        keys = (SeriesKey(name, one) for one in (AXES if axis is None else (axis,)))
        found = next((key for key in keys if key in self.ranks), None)
        return found if found is not None and rank in self.ranks[found] else None

    @cached_property
    def ranks(self) -> Mapping[SeriesKey, set[int]]:
        """Every series there is and the ranks that have it, in order of first appearance."""
        found: dict[SeriesKey, set[int]] = {}
        for part in self.parts:
            rank = part.facts.origin.rank
            for key in part.series_keys():
                found.setdefault(key, set()).add(rank)
        return found

    @cached_property
    def by_weight(self) -> Sequence[Part]:
        """The parts in the order in which their points replace those of others."""
        return sorted(self.parts, key=lambda part: weight_of(part.facts.origin))

    def parts_of(self, rank: int) -> Sequence[Part]:
        """The parts of one rank, in the order of ``by_weight``."""
        return self._parts_of.get(rank, ())

    @cached_property
    def _parts_of(self) -> Mapping[int, Sequence[Part]]:
        """The parts of each rank: a series of one of a thousand ranks concerns few of them."""
        found: dict[int, list[Part]] = {}
        for part in self.by_weight:
            found.setdefault(part.facts.origin.rank, []).append(part)
        return found

    def _pieces(self, key: SeriesKey, rank: int) -> Iterator[tuple[int | None, Series]]:
        """The pieces of a series as ``merge`` takes them."""
        cuts = self.cuts(key.axis)
        for part in self.parts_of(rank):
            piece = part.series(key)
            if piece is not None:
                yield cuts.get(part.facts.origin.attempt), piece

    def series(self, key: SeriesKey, rank: int) -> Series:
        """Every point of one rank's series."""
        merged = merge(self._pieces(key, rank))
        metric = self._metric_of.get(key)
        series = replace(
            merged,
            goal=None if metric is None else metric.goal,
            unit=None if metric is None else metric.unit,
        )
        for column in (series.steps, series.times, series.values):
            column.flags.writeable = False  # answers are shared between all who ask
        return series

    def blocks(self, key: SeriesKey, rank: int) -> Blocks | None:
        """A series as of ``series``, in blocks.

        None where no part has summaries of blocks, or where parts do not follow each other.
        """
        parts = self.parts_of(rank)
        known = {part.name: blocks for part in parts if (blocks := part.blocks(key)) is not None}
        cuts, pieces, total = self.cuts(key.axis), list[Blocks](), 0
        for part in parts if known else ():
            piece = known.get(part.name)
            if piece is None:
                series = part.series(key)
                if series is None:
                    continue
                piece = blocks_of(series)
            if piece is None:
                return None
            total += piece.num_points
            cut = cuts.get(part.facts.origin.attempt)
            pieces.append(piece if cut is None else piece.between(None, cut - 1))
        found = join(pieces) if pieces else None
        if found is None or not len(found) or not found.is_ascending:
            return None
        return replace(found, hidden=total - found.num_points)

    def all_series(self, axis: Axis, rank: int) -> list[Series]:
        keys = (key for key, ranks in self.ranks.items() if key.axis == axis and rank in ranks)
        return [self.series(key, rank) for key in keys]

    @cached_property
    def _metric_of(self) -> Mapping[SeriesKey, Metric]:
        return {SeriesKey(metric.name, metric.axis): metric for metric in self.metrics}

    @cached_property
    def metrics(self) -> list[Metric]:
        """Every series there is, with its meaning, in order of first appearance."""
        known, basis = self._known_metrics, (self.ranks, self.definitions)
        if known is None or known[:2] != basis or list(known[0]) != list(self.ranks):
            known = self._known_metrics = (*basis, metrics_of(*basis))
        return known[2]

    @property
    def set_metrics(self) -> list[Metric]:
        """The numbers that the program set with ``run.summary`` under names that no series has."""
        return set_metrics(self.summary, {key.name for key in self.ranks}, self.definitions)

    # -- records ----------------------------------------------------------------------------------

    def records(self, since: Cursor | None = None) -> Iterator[tuple[Position, Record]]:
        """Every record as written, writer by writer in file order; after ``since`` if given."""
        for part in self.parts:
            seen = (since or {}).get(part.name.writer)
            if seen is None or part.name[1:] > seen[1:3]:
                yield from part.records(first=0)
            elif part.name[1:] == seen[1:3]:
                yield from part.records(first=seen.ordinal + 1)

    def kinds(self) -> Set[str]:
        """The kinds of records that ``entries`` returns."""
        return {kind for part in self.parts for kind in part.kinds()} - DENSE_KINDS

    def entries(self, *kinds: str, name: str | None = None, rank: int | None = None) -> list[Entry]:
        """Records of these kinds that no later one replaced, by step, then by time.

        ``rank`` is None for the records of all ranks.
        """
        dense = DENSE_KINDS.intersection(kinds)
        if dense:
            raise UsageError(
                f"{', '.join(sorted(dense))} records are series: ask series() or records()."
            )
        found = [entry for kind in kinds for entry in self._entries_of(kind, name, rank)]
        found.sort(key=lambda item: (item[0], seconds(item[1].record)))
        return [entry for _, entry in found]

    def _entries_of(
        self, kind: str, label: str | None, rank: int | None
    ) -> Iterable[tuple[int, Entry]]:
        """The records of a kind that count, each with its step or epoch, -1 where it has none.

        Of several records of a name at one step the last counts, unless they are the items of a
        list, by their ``index``.
        """
        axis: Axis = KINDS[kind].axis if kind in KINDS else "step"
        cuts, found = self.cuts(axis), dict[object, tuple[int, Entry]]()
        for part in self.by_weight if rank is None else self.parts_of(rank):
            cut, own_rank = cuts.get(part.name.attempt), part.facts.origin.rank
            for ordinal, record in part.entries(kind, label=label):
                position = Position(*part.name, ordinal)
                step = whole_number(record.get("epoch" if axis == "epoch" else "step"))
                at = NO_STEP if step is None else step
                key: object = position
                if axis in ("step", "epoch"):
                    if cut is not None and at >= cut:
                        continue
                    if step is not None:
                        key = (own_rank, label_of(record), at, whole_number(record.get("index")))
                    found.pop(key, None)
                found[key] = (at, Entry(position, own_rank, record))
        return found.values()

    def end(self) -> dict[str, Position]:
        """The position of the last record of each writer."""
        return {
            part.name.writer: Position(*part.name, part.facts.num_records - 1)
            for part in self.parts
            if part.facts.num_records
        }


def all_summaries(state: RunState) -> dict[tuple[SeriesKey, int], Summary]:
    """The summaries of all series whose points ascend from part to part, by series and rank.

    Those of sealed parts are in their files: no column of them is read.
    """
    cuts = {axis: state.cuts(axis) for axis in ("step", "epoch")}
    pieces: dict[tuple[SeriesKey, int], list[PartSummary | None]] = {}
    for part in state.by_weight:
        origin = part.facts.origin
        for key, piece in part.summaries().items():
            cut, last = cuts.get(key.axis, {}).get(origin.attempt), piece.summary.last_step
            is_hidden = cut is not None and (last is None or last >= cut)
            pieces.setdefault((key, origin.rank), []).append(None if is_hidden else piece)
    found = ((key, _joined_summary(key[0].axis, some)) for key, some in pieces.items())
    return {key: summary for key, summary in found if summary is not None}


def run_metrics(state: RunState) -> RunMetrics:
    """The summary of a run from all that it recorded: what ``Fold`` finds record by record.

    Raises ``FormatError`` and ``OSError`` where points cannot be read.
    """
    known = all_summaries(state)
    meant = {SeriesKey(metric.name, metric.axis): metric for metric in state.metrics}
    writers: dict[tuple[str, int], PartFacts] = {}
    marks: dict[str, Mark] = {}
    for part in state.parts:
        before = writers.get(part.name[:2])
        writers[part.name[:2]] = part.facts if before is None else before.extended(part.facts)
    for part in {part.name[:2]: part for part in state.parts}.values():
        marks[part.name.stem] = Mark(
            part.name.part,
            part.facts.num_records,
            part.num_bytes,
            part.is_sealed or part.facts.is_finished,
        )
    metrics = [
        series_summary(meant[key], rank, known.get((key, rank)) or _read_summary(state, key, rank))
        for key, ranks in state.ranks.items()
        for rank in sorted(ranks)
    ]
    return RunMetrics(
        metrics=metrics,
        areas=areas_of(metrics),
        writers=[without_details(facts) for facts in writers.values()],
        marks=marks,
        kinds=sorted(state.kinds()),
    )


def _read_summary(state: RunState, key: SeriesKey, rank: int) -> Summary | None:
    """The summary of a series from its blocks or points; None where those cannot be read."""
    try:
        return (state.blocks(key, rank) or state.series(key, rank)).summary
    except (StalePartError, FileNotFoundError):
        raise
    except (OSError, FormatError):  # the run's problem says so
        return None


def _joined_summary(axis: Axis, pieces: Sequence[PartSummary | None]) -> Summary | None:
    """The summary of a series in several parts; None unless its points ascend through them."""
    known = [piece for piece in pieces if piece is not None]
    if len(known) < len(pieces):
        return None
    if len(known) == 1:
        return known[0].summary
    for before, after in itertools.pairwise(known):
        end = before.last_t if axis == "time" else before.summary.last_step
        if end is None or not (end <= after.first_at if axis == "time" else end < after.first_at):
            return None
    summaries = [piece.summary for piece in known]
    finite = [one for one in summaries if one.mean is not None]
    lowest = min(finite, key=lambda one: one.min or 0.0, default=None)
    highest = max(finite, key=lambda one: one.max or 0.0, default=None)
    counts = [one.count - one.nonfinite for one in finite]
    return Summary(
        count=sum(one.count for one in summaries),
        nonfinite=sum(one.nonfinite for one in summaries),
        first=summaries[0].first,
        last=summaries[-1].last,
        last_step=summaries[-1].last_step,
        min=None if lowest is None else lowest.min,
        min_step=None if lowest is None else lowest.min_step,
        max=None if highest is None else highest.max,
        max_step=None if highest is None else highest.max_step,
        mean=float(np.average([one.mean or 0.0 for one in finite], weights=counts))
        if finite
        else None,
    )
