"""Journal lines that have one shape: what decodes them into columns, and the way back."""

from __future__ import annotations

import itertools
import struct
from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import astuple

from epochal.journal.line import encode_lines
from epochal.records import Record

MAX_DECODERS = 256
_SCALAR = int | float | bool | str | None
_NEXT_RECORD = b'\n{"log":"'

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

    def attribute(self, path: FieldPath) -> str | None:
        """The attribute of a decoded line that has a field's value; None without such a field."""
        for place, (name, members) in enumerate(self.keys):
            if name == path[0] and (members is None) == (len(path) == 1):
                if members is None:
                    return f"value_{place}"
                if path[1] in members:
                    return f"value_{place}.value_{members.index(path[1])}"
        return None


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

    def column(self, *path: str) -> Column | None:
        """The values of a field; None where the records have no such field."""
        paths = self.shape.paths()
        return self.columns[paths.index(path)] if path in paths else None

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


class LineModel:
    """A struct for lines of the same keys; without types, for any scalars."""

    def __init__(self, kind: str, keys: Keys, types: tuple[type, ...] | None) -> None:
        self._kind = kind
        self._keys = keys
        self.shape = LineShape(kind, keys, types or ())
        self.struct = _line_struct(
            kind, keys, itertools.chain(types or (), itertools.repeat(_SCALAR))
        )
        self.decode_lines = msgspec.json.Decoder(self.struct).decode_lines

    @cached_property
    def decode_numbers(self) -> Callable[[bytes], list[Any]]:
        """The same for lines of numbers only, whether whole or not."""
        struct_ = _line_struct(self._kind, self._keys, itertools.repeat(int | float))
        return msgspec.json.Decoder(struct_).decode_lines

    @cached_property
    def _decode_scalars(self) -> Callable[[bytes], list[Any]]:
        """The same for lines of any scalars, with 1 as 1.0 in a column of floats."""
        kinds = (int | float if kind is int else kind for kind in self.shape.types)
        struct_ = _line_struct(self._kind, self._keys, kinds)
        return msgspec.json.Decoder(struct_).decode_lines

    def scalar_columns(self, text: bytes) -> list[tuple[Any, ...]] | None:
        """The columns of whole lines; None unless each line is of exactly this shape.

        In a column of floats 1 is 1.0, as it is in their series. Types are compared, not texts.
        """
        try:
            records = self._decode_scalars(text)
        except (ValueError, RecursionError):
            return None
        # Each record begins a line, and none ends in a later one. A text has no newline in it.
        if text.count(_NEXT_RECORD) + 1 != len(records) or text.count(b"\n") != len(records):
            return None
        # The order of keys in the first is the order of metrics.
        if not text.startswith(encode_lines(records[:1])):
            return None
        columns = list(self.columns(records))
        for column, kind in zip(columns, self.shape.types, strict=True):
            if kind is int and set(map(type, column)) != {int}:
                return None
        return columns

    def columns(self, records: list[Any]) -> Iterator[tuple[Any, ...]]:
        """The values of records, column by column."""
        fields = zip(*map(astuple, records), strict=True)
        for (_, members), column in zip(self._keys, fields, strict=True):
            if members is None:
                yield column
            elif members:
                yield from zip(*map(astuple, column), strict=True)

    def packed(self, records: list[Any]) -> list[Column]:
        """The values as columns; raises struct.error for an int beyond 64 bits."""
        return list(map(pack, self.shape.types, self.columns(records)))

    def by_types(self, places: list[int], records: list[Any]) -> Iterator[LineGroup]:
        """Records by the types of their values; without those that have an int beyond 64 bits."""
        columns: list[Sequence[Any]] = list(self.columns(records))
        found = [set(map(type, column)) for column in columns]
        rows: dict[tuple[type, ...], Sequence[int]] = {}
        if all(len(types) == 1 for types in found):
            rows[tuple(types.pop() for types in found)] = range(len(places))
        else:
            kinds = zip(*(map(type, column) for column in columns), strict=True)
            for row, types_of_row in enumerate(kinds):
                rows.setdefault(types_of_row, []).append(row)  # type: ignore[attr-defined]
        for types, some in rows.items():
            chosen = columns if len(rows) == 1 else [take(column, some) for column in columns]
            try:
                packed = list(map(pack, types, chosen))
            except struct.error:
                continue
            yield LineGroup(LineShape(self._kind, self._keys, types), take(places, some), packed)


line_model = lru_cache(MAX_DECODERS)(LineModel)


def _line_struct(kind: str, keys: Keys, types: Iterator[Any]) -> type[msgspec.Struct]:
    """A struct for lines with these keys, with a type for each value."""
    fields: list[tuple[str, Any]] = [
        (
            name,
            next(types)
            if members is None
            else _struct([(member, next(types)) for member in members]),
        )
        for name, members in keys
    ]
    return _struct(fields, kind=kind)


def _struct(fields: Sequence[tuple[str, Any]], *, kind: str | None = None) -> type[msgspec.Struct]:
    # Any text can be a key, but not the name of an attribute.
    return msgspec.defstruct(
        "Line",
        [(f"value_{place}", given) for place, (_, given) in enumerate(fields)],
        rename={f"value_{place}": name for place, (name, _) in enumerate(fields)} or None,
        tag_field=None if kind is None else "log",
        tag=kind,
        forbid_unknown_fields=True,
        gc=False,
    )


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
