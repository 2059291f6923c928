"""Columns of journal lines that have one shape, and the way back to records."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from epochal.records import Record

FieldPath = tuple[str, ...]
# The fields of a record but for ``log``: a name, and the names inside where it is an object.
Keys = tuple[tuple[str, tuple[str, ...] | None], ...]
# array("d") of floats, array("q") of ints, bytearray of bools, list of anything else.
Column = Any


class LineShape(NamedTuple):
    """The kind, the keys, and the type of each value in the order they are written."""

    kind: str
    keys: Keys
    types: tuple[type, ...]

    def paths(self) -> list[FieldPath]:
        """Where each value stands: in a field, or in an object's."""
        paths: list[FieldPath] = []
        for name, members in self.keys:
            paths += [(name,)] if members is None else [(name, member) for member in members]
        return paths


class Lines(NamedTuple):
    """Records of one shape: their ordinals, and a column for each type of the shape."""

    shape: LineShape
    ordinals: array[int]
    columns: list[Column]

    def records(self) -> list[Record]:
        """The records themselves."""
        columns = iter(map(unpack, self.shape.types, self.columns))
        size = len(self.ordinals)
        names: list[str] = ["log"]
        cells: list[list[Any]] = [[self.shape.kind] * size]
        for name, members in self.shape.keys:
            names.append(name)
            if members is None:
                cells.append(next(columns))
            else:
                cells.append(_objects(members, [next(columns) for _ in members], size))
        return _objects(names, cells, size)

    def by_value(self, path: FieldPath) -> Iterator[Lines]:
        """The records by what they hold in a field; all of them where they have no such field."""
        paths = self.shape.paths()
        column = self.columns[paths.index(path)] if path in paths else ()
        if len(set(column)) < 2:
            yield self
            return
        rows: dict[Any, list[int]] = {}
        for row, value in enumerate(column):
            rows.setdefault(value, []).append(row)
        for some in rows.values():
            columns = [
                pack(kind, take(values, some))
                for kind, values in zip(self.shape.types, self.columns, strict=True)
            ]
            yield Lines(self.shape, array("q", take(self.ordinals, some)), columns)


class LineGroup(NamedTuple):
    """Lines of one shape, by their places among the lines of a slice."""

    shape: LineShape
    places: list[int]
    columns: list[Column]


def merged_groups(groups: list[LineGroup]) -> list[LineGroup]:
    """One group for each shape, in file order: lines of one shape need not look alike."""
    merged: dict[LineShape, LineGroup] = {}
    for group in groups:
        known = merged.get(group.shape)
        if known is not None:
            places = known.places + group.places
            order = sorted(range(len(places)), key=places.__getitem__)
            columns = [
                pack(kind, take(some + more, order))
                for kind, some, more in zip(
                    group.shape.types, known.columns, group.columns, strict=True
                )
            ]
            group = LineGroup(group.shape, take(places, order), columns)
        merged[group.shape] = group
    return list(merged.values())


def take(values: Sequence[Any], places: Sequence[int]) -> list[Any]:
    """The values at some places."""
    return [values[place] for place in places]


def pack(kind: type, values: Sequence[Any]) -> Column:
    """Values of one type as a column; raises struct.error for an int beyond 64 bits."""
    if kind is float:
        return array("d", _packer("d", len(values))(*values))
    if kind is int:
        return array("q", _packer("q", len(values))(*values))
    return bytearray(values) if kind is bool else list(values)


@lru_cache(1024)
def _packer(code: str, count: int) -> Callable[..., bytes]:
    # Four times as fast as an array made of a tuple.
    return struct.Struct(f"={count}{code}").pack


def unpack(kind: type, column: Column) -> list[Any]:
    """The values of a column."""
    return list(map(bool, column)) if kind is bool else list(column)


def _objects(names: Sequence[str], cells: Sequence[list[Any]], size: int) -> list[Record]:
    if not names:
        return [{} for _ in range(size)]
    return [dict(zip(names, row, strict=True)) for row in zip(*cells, strict=True)]
