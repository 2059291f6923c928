"""What one run recorded since a position: new points by series, and entries, ready to be sent."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from epochal.journal.layout import rank_of_writer
from epochal.record import Axis, Position, Record, axis_of, scalars_of
from epochal.server.cursor import is_within, position_text
from epochal.server.wire import AxisName, EntryRow, Nonfinite, Points
from epochal.store.answers import Cursor, Entry
from epochal.store.part import DENSE_KINDS
from epochal.store.store import RunView

# Further behind than this, history is asked for anew.
MAX_RECORDS = 20_000
MAX_ENTRY_BYTES = 256 * 1024
# Kinds that are all numbers, and the header of each file: never entries.
_NO_ENTRIES = DENSE_KINDS | {"run"}
_CHILD = "child-"


class _Key(NamedTuple):
    name: str
    axis: AxisName
    rank: int


@dataclass(slots=True)
class _Column:
    """New points of one series, in the order they were written."""

    x: list[float] = field(default_factory=list)
    t: list[float] = field(default_factory=list)
    value: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Interest:
    """Which of a run's news are wanted: empty means all; a name may end in ``*``.

    ``ranks`` None means every rank.
    """

    names: tuple[str, ...] = ()
    ranks: tuple[int, ...] | None = (0,)
    kinds: tuple[str, ...] = ()

    def has_name(self, name: str) -> bool:
        """Whether points of this series are wanted."""
        return not self.names or any(
            name.startswith(wanted[:-1]) if wanted.endswith("*") else name == wanted
            for wanted in self.names
        )

    def has_rank(self, rank: int) -> bool:
        """Whether news of this rank are wanted."""
        return self.ranks is None or rank in self.ranks


@dataclass(slots=True)
class News:
    """All that a run recorded between two positions, before anybody's interest is applied.

    ``reset`` is why history has to be asked for anew instead; there is nothing else then.
    """

    end: Cursor
    columns: dict[_Key, _Column] = field(default_factory=dict)
    entries: list[EntryRow] = field(default_factory=list)
    reset: str | None = None

    def for_interest(self, interest: Interest) -> tuple[list[Points], list[EntryRow]]:
        """What of it is wanted."""
        points = [
            _points(key, column)
            for key, column in self.columns.items()
            if interest.has_name(key.name) and interest.has_rank(key.rank)
        ]
        entries = [
            entry
            for entry in self.entries
            if interest.has_rank(entry.rank)
            and (not interest.kinds or entry.kind in interest.kinds)
        ]
        return points, entries


class Ranks:
    """Which rank wrote what; remembered, since only the first record of a file says it."""

    def __init__(self) -> None:
        self._of: dict[tuple[str, str, int], int] = {}

    def rank(self, run: RunView, run_id: str, position: Position) -> int:
        """The rank of a record's writer."""
        writer = position.writer
        said = 0 if writer.startswith(_CHILD) else rank_of_writer(writer)
        if said is not None:
            return said
        key = (run_id, writer, position.attempt)
        if key not in self._of:
            self._of[key] = _rank_in_header(run, position)
        return self._of[key]


def news_of(run: RunView, run_id: str, since: Cursor, ranks: Ranks) -> News:
    """What a run recorded after ``since``, up to where it has been read."""
    end = run.end()
    if not is_within(since, end):
        return News(end, reset="unknown")
    if _resumed(since, end):
        return News(end, reset="resumed")
    found = list(islice(run.records(since), MAX_RECORDS + 1))
    if len(found) > MAX_RECORDS:
        return News(end, reset="behind")
    news = News(end)
    for position, record in found:
        rank = ranks.rank(run, run_id, position)
        _add_points(news.columns, record, rank)
        if record["log"] not in _NO_ENTRIES:
            news.entries.append(entry_row(Entry(position, rank, record), most=MAX_ENTRY_BYTES))
    return news


def entry_row(entry: Entry, *, most: int | None = None) -> EntryRow:
    """An entry as it travels; without its record where that has more than ``most`` bytes."""
    record: Record | None = entry.record
    if most is not None and len(msgspec.json.encode(record)) > most:
        record = None
    t = entry.t
    return EntryRow(
        position=position_text(entry.position),
        kind=entry.kind,
        rank=entry.rank,
        t=t if t is not None and math.isfinite(t) else None,
        step=entry.step,
        name=entry.name,
        record=record,
    )


def nonfinite_word(value: float) -> Nonfinite | None:
    """What a number that JSON cannot hold is called; None for one that it can."""
    if math.isfinite(value):
        return None
    if math.isnan(value):
        return "nan"
    return "inf" if value > 0 else "-inf"


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
        scalars = [(name, float(value)) for name, value in _scalars(record)]
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


def _scalars(record: Record) -> Iterator[tuple[str, float]]:
    yield from scalars_of(record)
    if record["log"] == "epoch":
        # As the store names them.
        extras = {"epoch/duration_s": record.get("duration_s")}
        for name, value in (record.get("resources") or {}).items():
            extras[f"resources/{name}"] = value
        for name, value in extras.items():
            if isinstance(value, (int, float)):
                yield name, float(value)


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
