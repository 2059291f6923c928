"""Decodes many journal lines at once, and puts records with the same keys together."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from epochal.journal.line import decode, decode_json, decode_whole
from epochal.records import DENSE_KINDS, KINDS, Record

# A field, or a field and a member of it.
FieldPath = tuple[str, ...]
# The fields of a record without ``log``: a name, and the names inside where it is an object.
Keys = tuple[tuple[str, tuple[str, ...] | None], ...]

_LOG = itemgetter("log")
# The dense kinds, and whether records of each belong to a device with an id.
_BY_ID = {name: KINDS[name].by_id for name in DENSE_KINDS}


class Rows(NamedTuple):
    """Records of a dense kind with the same keys, in order; ``gpu`` is the id that all have."""

    kind: str
    keys: Keys
    gpu: str
    ordinals: Sequence[int]
    records: Sequence[Record]

    def columns(self) -> dict[FieldPath, Sequence[Any]]:
        """The values of each field, or of each member of a field that is an object."""
        found: dict[FieldPath, Sequence[Any]] = {}
        members = dict(self.keys)
        outer = zip(*map(dict.values, self.records), strict=True)
        for name, column in zip(self.records[0], outer, strict=True):
            inside = members.get(name)
            if inside is None:
                found[name,] = column
            elif inside:
                columns = zip(*map(dict.values, column), strict=True)
                found |= zip(((name, member) for member in inside), columns, strict=True)
        return found


class Line(NamedTuple):
    """A line with a record of another kind, or None for a damaged one.

    ``start`` and ``end`` are its bytes in the text, the newline included. ``is_whole`` is False
    where the record follows the beginning of a torn one.
    """

    ordinal: int
    start: int
    end: int
    record: Record | None
    is_whole: bool


class Decoded(NamedTuple):
    """The content of a text, in the order of first ordinals."""

    items: list[Rows | Line]
    num_records: int

    @property
    def lines(self) -> list[Line]:
        """The lines that are in no rows."""
        return [item for item in self.items if isinstance(item, Line)]

    def header(self) -> Record | None:
        """The first record of a part, of whose first lines this is; None for a line of numbers."""
        lines = (line for line in self.lines if line.ordinal == 0)
        return next((line.record for line in lines if line.record is not None), None)


def decode_lines(text: bytes, *, first: int) -> Decoded:
    """Decode whole lines, each ended by a newline; ``first`` is the first record's ordinal.

    Where any line is damaged, none of them are in rows.
    """
    lines = text.split(b"\n")[:-1]
    try:
        records: list[Any] = list(map(decode_json, lines))
        if set(map(type, records)) <= {dict} and set(map(type, map(_LOG, records))) <= {str}:
            return Decoded(_items(lines, records, first), len(records))
    except (ValueError, KeyError, RecursionError):
        pass
    return _one_by_one(lines, first)


def _one_by_one(lines: Sequence[bytes], first: int) -> Decoded:
    items: list[Rows | Line] = []
    ordinal, end = first, 0
    for line in lines:
        start, end = end, end + len(line) + 1
        if line:  # an empty one is the newline that a writer puts after a torn record
            whole = decode_whole(line)
            record = decode(line) if whole is None else whole
            items.append(Line(ordinal, start, end, record, whole is not None))
            ordinal += record is not None
    return Decoded(items, ordinal - first)


def _items(lines: Sequence[bytes], records: Sequence[Record], first: int) -> list[Rows | Line]:
    by_keys: dict[Any, list[int]] = defaultdict(list)
    for place, names in enumerate(map(tuple, records)):
        by_keys[names].append(place)
    items: list[Rows | Line] = []
    others: list[int] = []
    for alike in by_keys.values():
        for places in _same(alike, records):
            is_all = len(places) == len(records)
            rows = records if is_all else [records[place] for place in places]
            if (kind := rows[0]["log"]) in _BY_ID:
                gpu = str(rows[0].get("id", 0)) if _BY_ID[kind] else ""
                ordinals = [first + place for place in places]
                items.append(Rows(kind, _keys_of(rows[0]), gpu, ordinals, rows))
            else:
                others += places
    ends = list(itertools.accumulate(len(line) + 1 for line in lines)) if others else []
    for place in others:
        start = ends[place] - len(lines[place]) - 1
        items.append(Line(first + place, start, ends[place], records[place], True))
    items.sort(key=lambda item: item.ordinals[0] if isinstance(item, Rows) else item.ordinal)
    return items


def _same(places: list[int], records: Sequence[Record]) -> Iterable[list[int]]:
    """The places of records with the same fields, by kind, id and the names inside of objects."""
    some = records if len(places) == len(records) else [records[place] for place in places]
    marks: list[list[Any]] = [list(map(_LOG, some))]
    for name, value in some[0].items():
        if type(value) is dict:
            column = list(map(itemgetter(name), some))
            is_alike = set(map(type, column)) == {dict}
            marks.append(list(map(tuple if is_alike else _marks, column)))
        elif name == "id":
            marks.append([str(record[name]) for record in some])
    if all(len(set(column)) == 1 for column in marks):
        return [places]
    found: dict[Any, list[int]] = defaultdict(list)
    for place, mark in zip(places, zip(*marks, strict=True), strict=True):
        found[mark].append(place)
    return found.values()


def _marks(value: Any) -> Any:
    return tuple(value) if type(value) is dict else None


def _keys_of(record: Record) -> Keys:
    fields = ((name, value) for name, value in record.items() if name != "log")
    return tuple((name, tuple(value) if type(value) is dict else None) for name, value in fields)


def paths_of(keys: Keys) -> list[FieldPath]:
    """The path of each value."""
    paths: list[FieldPath] = []
    for name, members in keys:
        paths += [(name,)] if members is None else [(name, member) for member in members]
    return paths
