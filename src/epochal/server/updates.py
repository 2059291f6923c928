"""Positions in runs, and what was recorded since one: points by series, entries, readings.

A position as text is the id of a server-sent event and stands in URLs:
``<run>:<writer>.<attempt>.<part>.<ordinal>,…;<run>:…`` with the run's id percent-encoded. It names
the last record read of each writer, so it stays valid on another server and after a restart.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

import msgspec

from epochal.errors import UsageError
from epochal.journal.entries import Cursor, Entry
from epochal.journal.layout import rank_of_writer
from epochal.records import (
    DENSE_KINDS,
    GUESSED_ROLE,
    Axis,
    Position,
    Record,
    axis_of,
    stored_numbers_of,
)
from epochal.records.values import nonfinite_word
from epochal.server.wire import AxisName, EntryRow, Nonfinite, Points, ResetReason
from epochal.store.run import RunView

Cursors = Mapping[str, Cursor]

MAX_CHARACTERS = 32_768
_POSITION = re.compile(r"([a-z0-9][a-z0-9_-]*)\.(-?\d{1,9})\.(\d{1,9})\.(\d{1,18})")
# A client further behind than this fetches the history again.
MAX_RECORDS = 20_000
MAX_NUMBERS = 2_000_000
MAX_ENTRY_BYTES = 256 * 1024
# Of more series at once only those are sent that a stream names, and those of a role.
MAX_SERIES = 2000
# Kinds of numbers only, and the header of each file: never entries.
_NO_ENTRIES = DENSE_KINDS | {"run"}
_CHILD = "child-"


def format_cursors(cursors: Cursors) -> str:
    """Format the position of each run."""
    return ";".join(
        f"{quote(run, safe='')}:{','.join(format_position(p) for p in cursor.values())}"
        for run, cursor in cursors.items()
    )


def format_position(position: Position) -> str:
    """Format one position."""
    return f"{position.writer}.{position.attempt}.{position.part}.{position.ordinal}"


def parse_cursors(texts: Iterable[str]) -> dict[str, Cursor]:
    """Parse cursors; later texts replace earlier ones. Raises ``UsageError``."""
    cursors: dict[str, Cursor] = {}
    for text in texts:
        if len(text) > MAX_CHARACTERS:
            raise UsageError(f"since= has more than {MAX_CHARACTERS} characters.")
        for one in filter(None, text.split(";")):
            run, colon, positions = one.partition(":")
            if not run or not colon:
                raise UsageError(f"since={one!r} is not a position: it has no run.")
            cursors[unquote(run)] = _parse_positions(positions)
    return cursors


def _parse_positions(text: str) -> dict[str, Position]:
    cursor: dict[str, Position] = {}
    for one in filter(None, text.split(",")):
        match = _POSITION.fullmatch(one)
        if match is None:
            raise UsageError(f"since={one!r} is not a position: use writer.attempt.part.ordinal.")
        writer, attempt, part, ordinal = match.groups()
        cursor[writer] = Position(writer, int(attempt), int(part), int(ordinal))
    return cursor


def is_within(cursor: Cursor, end: Cursor) -> bool:
    """Whether every position of a cursor is at or before the end."""
    return all(
        writer in end and position[1:] <= end[writer][1:] for writer, position in cursor.items()
    )


class _Key(NamedTuple):
    name: str
    axis: AxisName
    rank: int


class _Column(msgspec.Struct):
    """New points of one series, in the order they were written."""

    x: list[float] = []
    t: list[float] = []
    value: list[float] = []


class UpdateFilter(msgspec.Struct, frozen=True):
    """What a client subscribes to: empty means all; a name may end in ``*``.

    ``ranks`` None means every rank.
    """

    names: tuple[str, ...] = ()
    ranks: tuple[int, ...] | None = (0,)
    kinds: tuple[str, ...] = ()

    def accepts_name(self, name: str) -> bool:
        """Whether points of this series are sent."""
        return not self.names or any(
            name.startswith(wanted[:-1]) if wanted.endswith("*") else name == wanted
            for wanted in self.names
        )

    def accepts_rank(self, rank: int) -> bool:
        """Whether updates of this rank are sent."""
        return self.ranks is None or rank in self.ranks


class RunUpdates(msgspec.Struct):
    """All that a run recorded between two positions, before a filter is applied.

    ``reset`` is the reason why the client must fetch the history again; then nothing else is set.
    ``wide`` are the records with their ranks where they are of too many series for all streams.
    """

    end: Cursor
    columns: dict[_Key, _Column] = {}
    entries: list[EntryRow] = []
    reset: ResetReason | None = None
    wide: list[tuple[int, Record]] = []

    def filtered(self, update_filter: UpdateFilter) -> tuple[list[Points], list[EntryRow], bool]:
        """The points and entries that a filter accepts; True beside them if points are missing."""
        columns, is_partial = self.columns, False
        if self.wide:
            columns, is_partial = _chosen_columns(self.wide, update_filter)
        points = [
            _points(key, column)
            for key, column in columns.items()
            if update_filter.accepts_name(key.name) and update_filter.accepts_rank(key.rank)
        ]
        entries = [
            entry
            for entry in self.entries
            if update_filter.accepts_rank(entry.rank)
            and (not update_filter.kinds or entry.kind in update_filter.kinds)
        ]
        return points, entries, is_partial


class WriterRanks:
    """The rank of each writer; cached, because only the first record of a file names it."""

    def __init__(self) -> None:
        self._ranks: dict[tuple[str, str, int], int] = {}

    def rank(self, run: RunView, run_id: str, position: Position) -> int:
        """The rank of a record's writer."""
        writer = position.writer
        named_rank = 0 if writer.startswith(_CHILD) else rank_of_writer(writer)
        if named_rank is not None:
            return named_rank
        key = (run_id, writer, position.attempt)
        if key not in self._ranks:
            self._ranks[key] = _rank_in_header(run, position)
        return self._ranks[key]


def read_updates(run: RunView, run_id: str, since: Cursor, ranks: WriterRanks) -> RunUpdates:
    """What a run recorded after ``since``, up to where it has been read."""
    end = run.end()
    if not is_within(since, end):
        return RunUpdates(end, reset="unknown")
    if _resumed(since, end):
        return RunUpdates(end, reset="resumed")
    found: list[tuple[Position, Record]] = []
    num_numbers = 0
    for position, record in run.records(since):
        found.append((position, record))
        num_numbers += _num_metrics(record)
        if len(found) > MAX_RECORDS or num_numbers > MAX_NUMBERS:
            return RunUpdates(end, reset="behind")
    updates = RunUpdates(end)
    with_ranks = [(ranks.rank(run, run_id, position), record) for position, record in found]
    for (position, _), (rank, record) in zip(found, with_ranks, strict=True):
        if record["log"] not in _NO_ENTRIES:
            updates.entries.append(entry_row(Entry(position, rank, record), most=MAX_ENTRY_BYTES))
    columns = _columns(with_ranks)
    if columns is None:
        updates.wide = with_ranks
    else:
        updates.columns = columns
    return updates


def _num_metrics(record: Record) -> int:
    metrics = record.get("m")
    return len(metrics) if isinstance(metrics, Mapping) else 0


def _columns(records: Iterable[tuple[int, Record]]) -> dict[_Key, _Column] | None:
    """The points of records by series; None where there are too many series."""
    columns: dict[_Key, _Column] = {}
    names: set[str] = set()
    for rank, record in records:
        if _num_metrics(record) > MAX_SERIES:
            return None
        before = len(columns)
        _add_points(columns, record, rank)
        if len(columns) > before:
            names.update(key.name for key in islice(columns, before, None))
            if len(names) > MAX_SERIES:
                return None
    return columns


def _chosen_columns(
    records: Iterable[tuple[int, Record]], update_filter: UpdateFilter
) -> tuple[dict[_Key, _Column], bool]:
    """The points of wide records that a filter names; without names, those of a role.

    True beside them if these are not all that the filter accepts.
    """
    exact = tuple(name for name in update_filter.names if not name.endswith("*"))
    is_by_name = bool(update_filter.names)
    if len(exact) < len(update_filter.names):
        columns = _columns(
            (rank, _with_metrics(record, update_filter.accepts_name)) for rank, record in records
        )
        if columns is not None:
            return columns, False
        is_by_name = False
    wanted = exact if is_by_name else (*exact, *GUESSED_ROLE)
    columns = {}
    for rank, record in records:
        metrics = record.get("m")
        if isinstance(metrics, Mapping):
            chosen = {name: metrics[name] for name in wanted if name in metrics}
            record = {**record, "m": chosen}
        _add_points(columns, record, rank)
    return columns, not is_by_name


def _with_metrics(record: Record, accepts: Callable[[str], bool]) -> Record:
    metrics = record.get("m")
    if not isinstance(metrics, Mapping):
        return record
    return {**record, "m": {name: value for name, value in metrics.items() if accepts(name)}}


def entry_row(entry: Entry, *, most: int | None = None) -> EntryRow:
    """An entry as it travels; without its record where that has more than ``most`` bytes."""
    record: Record | None = entry.record
    if most is not None and len(msgspec.json.encode(record)) > most:
        record = None
    t = entry.t
    return EntryRow(
        position=format_position(entry.position),
        kind=entry.kind,
        rank=entry.rank,
        t=t if t is not None and math.isfinite(t) else None,
        step=entry.step,
        name=entry.name,
        record=record,
    )


def _resumed(since: Cursor, end: Cursor) -> bool:
    """Whether a newer attempt has begun: it may hide what older ones logged."""
    newest = max((position.attempt for position in since.values()), default=1)
    return any(position.attempt > newest for position in end.values())


def _add_points(columns: dict[_Key, _Column], record: Record, rank: int) -> None:
    axis = axis_of(record)
    t = seconds if isinstance(seconds := record.get("t"), (int, float)) else math.nan
    x = _place(record, axis, t)
    if axis == "none" or x is None:
        return
    try:
        scalars = list(stored_numbers_of(record))
    except (AttributeError, TypeError, ValueError, OverflowError):
        return  # not what its kind holds; the store counts it among the damaged
    for name, value in scalars:
        column = columns.setdefault(_Key(name, axis, rank), _Column())
        column.x.append(x)
        column.t.append(t)
        column.value.append(value)


def _place(record: Record, axis: Axis, t: float) -> float | None:
    at = t if axis == "time" else record.get("epoch" if axis == "epoch" else "step")
    if isinstance(at, bool) or not isinstance(at, (int, float)) or not math.isfinite(at):
        return None
    return at if axis == "time" or isinstance(at, int) else None


def _points(key: _Key, column: _Column) -> Points:
    words: dict[str, Nonfinite] = {}
    for index, value in enumerate(column.value):
        word = nonfinite_word(value)
        if word is not None:
            words[str(index)] = word
    return Points(
        name=key.name,
        axis=key.axis,
        rank=key.rank,
        x=column.x,
        t=[t if math.isfinite(t) else None for t in column.t],
        value=[v if math.isfinite(v) else None for v in column.value],
        nonfinite=words,
    )


def _rank_in_header(run: RunView, position: Position) -> int:
    """The rank that the first record of a writer's attempt names; 0 where it names none."""
    others: Mapping[str, Any] = {w: p for w, p in run.end().items() if w != position.writer}
    for found, record in run.records(others):
        if found.attempt == position.attempt:
            rank = record.get("rank")
            return rank if isinstance(rank, int) and rank > 0 else 0
    return 0
