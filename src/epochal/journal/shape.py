"""Decodes journal lines, many at a time where they have the same shape.

A *shape* is the kind of a record, its keys and the type of each value. Lines of a frequent kind are
grouped by their text without the numbers. A group is decoded at once as structs, which are made at
run time, and its values become columns. Every other line goes to the reference decoder,
``epochal.journal.line.decode``. Both give the same values of the same types.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import astuple

from epochal.journal.line import decode, decode_whole
from epochal.records import DENSE_KINDS, Record

FieldPath = tuple[str, ...]
# The fields of a record without ``log``: a name, and the names inside where it is an object.
Keys = tuple[tuple[str, tuple[str, ...] | None], ...]
# Packed numbers ("d" for floats, "q" for integers, "?" for booleans), or strings. Nulls: None.
Column = bytes | list[str] | None

_SCALAR: Any = int | float | bool | str | None
_SCALARS = frozenset({int, float, bool, str, type(None)})
_CODES = {float: "d", int: "q", bool: "?"}
# What numbers are made of. Lines that differ in nothing else usually have the same keys.
_NUMBER_BYTES = b"0123456789.eE+-"
_START = b'{"log":'
# Fields that are not read as floats.
_POSITIONS = (("step",), ("id",))
_HEADER, _FINISH = b'{"log":"run",', b'{"log":"finish",'
_KEY = re.compile(rb'"([^"\\]*)":')
# So little text that its structs are still in the processor's cache when their values are read.
_SLICE_BYTES = 64 * 1024
# Making a struct takes about as long as decoding this many lines without it.
WORTH_A_STRUCT = 64
_MAX_STRUCTS = 256
_MAX_SIGNATURES = 4096
_MAX_FIELDS = 2000


class Shape(NamedTuple):
    """The kind, the keys, and the type of each value in the order of ``paths``."""

    kind: str
    keys: Keys
    types: tuple[type, ...]

    def paths(self) -> list[FieldPath]:
        """The path of each value."""
        return paths_of(self.keys)


class Rows(NamedTuple):
    """Records of one shape: their ordinals, ascending, and a column for each path."""

    shape: Shape
    ordinals: Sequence[int]
    columns: list[Column]

    def select(self, places: Sequence[int]) -> Rows:
        """Some of the records, by their places among these."""
        columns: list[Column] = []
        for kind, column in zip(self.shape.types, self.columns, strict=True):
            values = unpack(kind, column, len(self.ordinals))
            columns.append(pack(kind, [values[place] for place in places]))
        return Rows(self.shape, [self.ordinals[place] for place in places], columns)

    def records(self) -> Iterator[Record]:
        """The records themselves."""
        size = len(self.ordinals)
        columns = [unpack(*pair, size) for pair in zip(self.shape.types, self.columns, strict=True)]
        return records_of(self.shape, columns, size)


class Line(NamedTuple):
    """A line of the reference decoder: its record, or None for a damaged one.

    ``start`` and ``end`` are its bytes in the text, the newline included. ``is_whole`` is False
    where the record follows the beginning of a torn one.
    """

    ordinal: int
    start: int
    end: int
    record: Record | None
    is_whole: bool


class Decoded(NamedTuple):
    """The content of a text: rows by shape, and the other lines in file order."""

    rows: list[Rows]
    lines: list[Line]
    num_records: int

    def header(self) -> Record | None:
        """The first record of a part, of whose first lines this is; None for a line of numbers."""
        lines = (line for line in self.lines if line.ordinal == 0)
        return next((line.record for line in lines if line.record is not None), None)


class LineStruct:
    """Decodes lines of one kind that have the same keys.

    ``as_floats`` is the shape of the lines if all of their numbers are read as floats.
    """

    def __init__(self, kind: str, keys: Keys) -> None:
        self.kind = kind
        self.keys = keys
        types = tuple(int if path in _POSITIONS else float for path in paths_of(keys))
        self.as_floats = Shape(kind, keys, types)
        self._decode_lines = self._decoder(_SCALAR, _SCALAR)
        self._decode_floats = self._decoder(float, int)

    def _decoder(self, value: Any, position: Any) -> Callable[[bytes], list[Any]]:
        fields = [
            (
                name,
                _object(inner, value)
                if inner is not None
                else position
                if (name,) in _POSITIONS
                else value,
            )
            for name, inner in self.keys
        ]
        made = _defined(fields, tag_field="log", tag=self.kind)
        return msgspec.json.Decoder(made).decode_lines

    def decode(self, text: bytes, num_lines: int, *, as_floats: bool = False) -> list[Any] | None:
        """The records of lines as structs; None unless each line is one record with these keys.

        A closing brace, a newline and an opening brace only follow each other between two records:
        strings hold no newlines. So no record begins or ends inside a line.
        """
        start = text[: text.find(b":", len(_START)) + 1]  # a long text is counted faster
        if not start.startswith(_START) or text[-2:] != b"}\n":
            return None
        if text.count(b"}\n" + start) != num_lines - 1:
            return None
        try:
            found = (self._decode_floats if as_floats else self._decode_lines)(text)
        except (ValueError, RecursionError):
            return None
        return found if len(found) == num_lines else None

    def columns(self, structs: list[Any]) -> list[Sequence[Any]]:
        """The values of structs, a column for each path."""
        columns: list[Sequence[Any]] = []
        outer = zip(*map(astuple, structs), strict=True)
        for (_, members), column in zip(self.keys, outer, strict=True):
            if members is None:
                columns.append(column)
            elif members:
                flat = list(itertools.chain.from_iterable(map(astuple, column)))
                columns += [flat[place :: len(members)] for place in range(len(members))]
        return columns


def _defined(fields: Sequence[tuple[str, Any]], **options: Any) -> Any:
    return msgspec.defstruct(
        "Fields",
        [(f"f{place}", kind) for place, (_, kind) in enumerate(fields)],
        rename={f"f{place}": name for place, (name, _) in enumerate(fields)},
        forbid_unknown_fields=True,
        gc=False,
        **options,
    )


def _object(names: tuple[str, ...], value: Any) -> Any:
    return _defined([(name, value) for name in names])


@lru_cache(_MAX_STRUCTS)
def _line_struct(kind: str, keys: Keys) -> LineStruct | None:
    """The struct for a kind and its keys; None where a struct cannot have such names."""
    try:
        return LineStruct(kind, keys)
    except ValueError:
        return None


def _struct_of(line: bytes) -> LineStruct | None:
    """The struct for lines like this one; None where only the reference decoder can read them."""
    record = decode_whole(line)
    if record is None or record["log"] not in DENSE_KINDS:
        return None
    keys: list[tuple[str, tuple[str, ...] | None]] = []
    for name, value in record.items():
        inner = tuple(value) if type(value) is dict else None
        if not _SCALARS.issuperset(map(type, (value,) if inner is None else value.values())):
            return None
        if name != "log":
            keys.append((name, inner))
    if not keys or sum(len(inner or " ") for _, inner in keys) > _MAX_FIELDS:
        return None
    return _line_struct(record["log"], tuple(keys))


class KnownShapes:
    """What decoders have learnt about lines; thousands of small parts share it."""

    def __init__(self) -> None:
        self.seen: Counter[bytes] = Counter()
        self.structs: dict[bytes, LineStruct | None] = {}
        # Signatures of lines with different keys, such as "layer1" and "layer2".
        self.ambiguous: set[bytes] = set()
        # The last line of which all lines of a slice were alike, without numbers, and its struct.
        self.latest: tuple[bytes, LineStruct] | None = None

    def struct(self, signature: bytes, line: bytes, count: int) -> LineStruct | None:
        """The struct for lines with a signature, once there were enough of them."""
        if signature in self.structs:
            return self.structs[signature]
        if len(self.seen) > _MAX_SIGNATURES:
            self.seen.clear()
        self.seen[signature] += count
        if self.seen[signature] < WORTH_A_STRUCT or len(self.structs) >= _MAX_STRUCTS:
            return None
        made = self.structs[signature] = _struct_of(line)
        return made


# Rows that have no ordinals yet: the shape, the places of the lines, and the columns.
_Group = tuple[Shape, Sequence[int], list[Column]]


class LineDecoder:
    """Decodes the lines of a part; it learns their shapes as it goes.

    With ``as_floats``, for readers of series, 1 may be read as 1.0 in rows.
    """

    def __init__(self, known: KnownShapes | None = None, *, as_floats: bool = False) -> None:
        self._known = KnownShapes() if known is None else known
        self._as_floats = as_floats

    def decode(self, text: bytes, *, first: int) -> Decoded:
        """Decode whole lines, each ended by a newline; ``first`` is the first record's ordinal."""
        decoded = Decoded([], [], 0)
        start, ordinal = 0, first
        # The first and the last record of a part are unlike the others.
        last = text.rfind(b"\n", 0, len(text) - 1) + 1
        stop = last if text.startswith(_FINISH, last) else len(text)
        while start < len(text):
            end = text.rfind(b"\n", start, min(start + _SLICE_BYTES, stop)) + 1
            is_alone = start == stop or (start == 0 and text.startswith(_HEADER))
            if not end or is_alone:
                end = text.index(b"\n", start) + 1
            if is_alone:
                ordinal = _number([text[start : end - 1]], start, ordinal, [], decoded)
            else:
                ordinal = self._decode_slice(text[start:end], start, ordinal, decoded)
            start = end
        return decoded._replace(rows=_by_shape(decoded.rows), num_records=ordinal - first)

    def _decode_slice(self, text: bytes, start: int, first: int, decoded: Decoded) -> int:
        """Decode some of the lines; returns the ordinal of the next record."""
        num_lines = text.count(b"\n")
        groups: list[_Group] | None = None
        signature = text[: text.index(b"\n")].translate(None, _NUMBER_BYTES)
        if self._known.latest is not None and self._known.latest[0] == signature:
            groups = self._packed(self._known.latest[1], text, range(num_lines))
        if groups is None:
            groups = self._decode_groups(text)
        if sum(len(places) for _, places, _ in groups) < num_lines:
            return _number(text.split(b"\n")[:-1], start, first, groups, decoded)
        for shape, places, columns in groups:
            is_all = len(places) == num_lines
            ordinals = range(first, first + num_lines) if is_all else [first + p for p in places]
            decoded.rows.append(Rows(shape, ordinals, columns))
        return first + num_lines

    def _decode_groups(self, text: bytes) -> list[_Group]:
        """The lines that have a struct, by shape."""
        by_struct: dict[LineStruct, list[list[int]]] = {}
        lines = text.split(b"\n")[:-1]
        alike = self._alike(lines, text.translate(None, _NUMBER_BYTES).split(b"\n"))
        for signature, places in alike.items():
            model = self._known.struct(signature, lines[places[0]], len(places))
            if model is not None:
                by_struct.setdefault(model, []).append(places)
        taken: list[_Group] = []
        for model, groups in by_struct.items():
            places = groups[0] if len(groups) == 1 else sorted(itertools.chain(*groups))
            decoded = self._packed(model, b"\n".join([*_take(lines, places), b""]), places)
            if decoded is None:
                if self._note_ambiguous(_take(lines, places)):
                    return self._decode_groups(text)
                continue
            taken += decoded
            if len(places) == len(lines):
                self._known.latest = lines[0].translate(None, _NUMBER_BYTES), model
        return taken

    def _note_ambiguous(self, lines: list[bytes]) -> bool:
        """Whether lines without a common struct can be told apart by their keys from now on."""
        known = self._known.ambiguous
        keys: dict[bytes, set[tuple[bytes, ...]]] = {}
        for line in lines:
            signature = line.translate(None, _NUMBER_BYTES)
            keys.setdefault(signature, set()).add(tuple(_KEY.findall(line)))
        found = {signature for signature in keys if len(keys[signature]) > 1} - known
        known |= found
        return bool(found)

    def _alike(self, lines: list[bytes], signatures: list[bytes]) -> dict[bytes, list[int]]:
        """The places of lines by signature; by their keys where keys differ only in numbers."""
        found: dict[bytes, list[int]] = {}
        ambiguous = self._known.ambiguous
        for place, (line, signature) in enumerate(zip(lines, signatures, strict=False)):
            if ambiguous and signature in ambiguous:
                signature = b'"'.join(_KEY.findall(line))
            found.setdefault(signature, []).append(place)
        return found

    def _packed(self, model: LineStruct, text: bytes, places: Sequence[int]) -> list[_Group] | None:
        """The columns of lines; None if the reference decoder has to read them.

        Rows with values of other types are a shape of their own. Rows with an integer beyond 64
        bits are left to the reference decoder.
        """
        if self._as_floats:
            floats = model.decode(text, len(places), as_floats=True)
            if floats is not None:
                with contextlib.suppress(struct.error):
                    columns = list(map(pack, model.as_floats.types, model.columns(floats)))
                    return [(model.as_floats, places, columns)]
        structs = model.decode(text, len(places))
        if structs is None:
            return None
        values = model.columns(structs)
        kinds_of = [set(map(type, column)) for column in values]
        by_types: dict[tuple[type, ...], list[int]] = {}
        if all(len(kinds) == 1 for kinds in kinds_of):
            by_types[tuple(kinds.pop() for kinds in kinds_of)] = []
        else:
            for row, cells in enumerate(zip(*values, strict=True)):
                by_types.setdefault(tuple(map(type, cells)), []).append(row)
        packed: list[_Group] = []
        for kinds, rows in by_types.items():
            shape = Shape(model.kind, model.keys, kinds)
            some = _take(places, rows) if rows else places
            taken = [_take(column, rows) for column in values] if rows else values
            with contextlib.suppress(struct.error):
                packed.append((shape, some, list(map(pack, kinds, taken))))
        return packed


def _number(
    lines: list[bytes], start: int, first: int, taken: list[_Group], decoded: Decoded
) -> int:
    """Give records their ordinals, and decode the lines that no group has taken."""
    is_taken = bytearray(len(lines))
    for _, places, _ in taken:
        for place in places:
            is_taken[place] = 1
    ordinal = first
    ordinals: list[int] = []
    for line, is_grouped in zip(lines, is_taken, strict=True):
        ordinals.append(ordinal)
        end = start + len(line) + 1
        if is_grouped:
            ordinal += 1
        elif line:  # an empty one is the newline that a writer puts after a torn record
            whole = decode_whole(line)
            record = decode(line) if whole is None else whole
            decoded.lines.append(Line(ordinal, start, end, record, whole is not None))
            ordinal += record is not None
        start = end
    for shape, places, columns in taken:
        decoded.rows.append(Rows(shape, _take(ordinals, places), columns))
    return ordinal


def _by_shape(rows: Iterable[Rows]) -> list[Rows]:
    """The rows of each shape together: who takes them in has work for each, whatever its size."""
    by_shape: dict[Shape, list[Rows]] = {}
    for some in rows:
        by_shape.setdefault(some.shape, []).append(some)
    return [joined(some) for some in by_shape.values()]


def joined(rows: list[Rows]) -> Rows:
    """Rows of one shape together."""
    if len(rows) == 1:
        return rows[0]
    ordinals: Sequence[int] = list(itertools.chain.from_iterable(some.ordinals for some in rows))
    if ordinals[-1] - ordinals[0] == len(ordinals) - 1:
        ordinals = range(ordinals[0], ordinals[-1] + 1)
    columns: list[Column] = []
    for pieces in zip(*(some.columns for some in rows), strict=True):
        if isinstance(pieces[0], bytes):
            columns.append(b"".join(pieces))
        else:
            columns.append(pieces[0] and list(itertools.chain.from_iterable(pieces)))
    return Rows(rows[0].shape, ordinals, columns)


def _take(values: Sequence[Any], places: Sequence[int]) -> list[Any]:
    return [values[place] for place in places]


def paths_of(keys: Keys) -> list[FieldPath]:
    """The path of each value: a field, or a field and a member of it."""
    paths: list[FieldPath] = []
    for name, members in keys:
        paths += [(name,)] if members is None else [(name, member) for member in members]
    return paths


def pack(kind: type, values: Sequence[Any]) -> Column:
    """Values of one type as a column; raises struct.error for an integer beyond 64 bits."""
    code = _CODES.get(kind)
    if code is not None:
        return _packer(code, len(values))(*values)
    return list(values) if kind is str else None


@lru_cache(1024)
def _packer(code: str, count: int) -> Callable[..., bytes]:
    return struct.Struct(f"={count}{code}").pack


def unpack(kind: type, column: Column, size: int) -> list[Any]:
    """The values of a column."""
    if isinstance(column, bytes):
        return list(struct.unpack(f"={size}{_CODES[kind]}", column))
    return [None] * size if column is None else column


def records_of(shape: Shape, columns: Sequence[Sequence[Any]], size: int) -> Iterator[Record]:
    """Records of a shape from a column of values for each path."""
    left = iter(columns)
    names: list[str] = ["log"]
    cells: list[Iterable[Any]] = [itertools.repeat(shape.kind, size)]
    for name, members in shape.keys:
        names.append(name)
        cells.append(next(left) if members is None else _objects(members, left, size))
    return (dict(zip(names, row, strict=True)) for row in zip(*cells, strict=True))


def _objects(names: tuple[str, ...], columns: Iterator[Any], size: int) -> Iterator[Record]:
    if not names:
        return ({} for _ in range(size))
    cells = [next(columns) for _ in names]
    return (dict(zip(names, row, strict=True)) for row in zip(*cells, strict=True))
