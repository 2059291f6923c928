"""Decodes many journal lines at once, and puts records of numbers with the same names together.

A record of a dense kind is decoded into a struct that has every name its part has had so far, so
that no dict is made of it. Lines that such a struct refuses are decoded one by one, as
``journal/line.py`` does it; their names join the struct.
"""

from __future__ import annotations

import math
import re
import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import lru_cache
from itertools import chain, compress
from operator import attrgetter
from typing import Any, Literal, NamedTuple, Union

import msgspec
import numpy as np
from msgspec.structs import astuple
from numpy.typing import NDArray

from epochal.journal.facts import STEP_LIMIT, SeriesKey
from epochal.journal.line import decode, decode_whole
from epochal.records import DENSE_KINDS, KINDS, Axis, Record

# A field, or a field and a member of it.
FieldPath = tuple[str, ...]
# The fields of a record without ``log``: a name, and the names inside where it is an object.
Keys = tuple[tuple[str, tuple[str, ...] | None], ...]

# The kinds whose records are numbers, and texts that are no series.
ROW_KINDS = DENSE_KINDS | {
    kind.name
    for kind in KINDS.values()
    if kind.axis in ("step", "time") and any(field.series for field in kind.fields)
}
_NEWLINE = 10
# A log that hardly ever repeats a set of names would make a new struct again and again, and a log
# of very many names a wide one for a few numbers.
_MAX_STRUCTS = 64
_MAX_KINDS = 64
_SOME_NAMES = 64
_MAX_ABSENT = 4
# Names that no field of a struct can have.
_UNFIT = re.compile(r'[\\"\x00-\x1f]')
# A number that is not there is nan, which JSON does not have.
_NUMBER = (int | float | bool, math.nan)


class Plan(NamedTuple):
    """The series of records with the same keys: the axis, and the path of each by its name."""

    axis: Axis
    paths: Mapping[str, FieldPath]


@lru_cache(1024)
def plan_of(kind: str, keys: Keys, gpu: str) -> Plan | None:
    """The series of such records, in the order of ``numbers_of``.

    None where each record has to be looked at: one name occurs twice, or an object is none.
    """
    spec, members = KINDS[kind], dict(keys)
    objects = [name for name in ("m", *spec.objects) if name in members]
    if any(members[name] is None for name in objects):
        return None
    found: list[tuple[str, FieldPath]] = []
    for name in objects:
        prefix = "" if name == "m" else spec.prefix
        found += [(prefix + member, (name, member)) for member in members[name] or ()]
    if spec.scalars:
        names = spec.series_names({"log": kind, **members, "id": gpu}).items()
        found += [(name, (field,)) for field, name in names if members[field] is None]
    paths = dict(found)
    return Plan(spec.axis, paths) if len(paths) == len(found) else None


def series_in(kind: str, keys: Keys, gpu: str) -> dict[SeriesKey, FieldPath]:
    """The paths of such records by series, texts included."""
    plan = plan_of(kind, keys, gpu)
    if plan is None or plan.axis == "none":
        return {}
    return {SeriesKey(name, plan.axis): path for name, path in plan.paths.items()}


def paths_of(keys: Keys) -> list[FieldPath]:
    """The path of each value."""
    paths: list[FieldPath] = []
    for name, members in keys:
        paths += [(name,)] if members is None else [(name, member) for member in members]
    return paths


# The fields of records of a kind: float for a number, int for the step, str for a text, and for an
# object the names of the numbers inside.
_Fields = dict[str, Any]


def _fields_of(record: Record) -> _Fields | None:
    """The fields of one record; None if it has other values, or a name that no struct can have."""
    found: _Fields = {}
    for name, value in record.items():
        if name == "log":
            continue
        if name in ("name", "id") and record["log"] not in DENSE_KINDS:
            return None  # there are lists of them by name
        if name == "step":
            found[name] = int
        elif isinstance(value, (int, float)):
            found[name] = float
        elif isinstance(value, str):
            found[name] = str
        elif type(value) is dict and set(map(type, value.values())) <= {int, float, bool}:
            found[name] = tuple(value)
        else:
            return None
    return None if any(_UNFIT.search(part) for path in _paths_in(found) for part in path) else found


def _joined(fields: _Fields, more: _Fields) -> _Fields | None:
    """The fields of both; None where they contradict each other."""
    found = dict(fields)
    for name, kind in more.items():
        before = found.get(name, kind)
        if isinstance(before, tuple) and isinstance(kind, tuple):
            found[name] = tuple(dict.fromkeys(before + kind))
        elif before == kind:
            found[name] = kind
        else:
            return None
    return found


def _paths_in(fields: _Fields) -> list[FieldPath]:
    """Each field, and each number in an object."""
    inside = [(name, one) for name, kind in fields.items() if type(kind) is tuple for one in kind]
    return [*((name,) for name in fields), *inside]


class _Layout(NamedTuple):
    """The struct of records of a kind, what reads each field, and objects without a number."""

    kind: str
    fields: _Fields
    record: type[msgspec.Struct]
    getters: Mapping[FieldPath, Callable[[msgspec.Struct], Any]]
    empty: Mapping[str, msgspec.Struct]

    def column(self, structs: Iterable[msgspec.Struct], *path: str) -> list[Any]:
        """What each record has in a field, or in a member of it."""
        return list(map(self.getters[path], structs))


@lru_cache(256)
def _layout(kind: str, fields: tuple[tuple[str, Any], ...]) -> _Layout:
    types: dict[str, Any] = {}
    empty: dict[str, msgspec.Struct] = {}
    for name, what in fields:
        if type(what) is tuple:
            inner = _struct("Numbers", dict.fromkeys(what, _NUMBER), frozen=True)
            empty[name] = inner()
            types[name] = (inner, empty[name])
        else:
            types[name] = _NUMBER if what is float else (what, None)
    record = _struct("Record", types, tag_field="log", tag=kind)
    getters: dict[FieldPath, Callable[[msgspec.Struct], Any]] = {}
    for number, (name, what) in enumerate(fields):
        getters[name,] = attrgetter(f"_{number}")
        for place, member in enumerate(what if type(what) is tuple else ()):
            getters[name, member] = attrgetter(f"_{number}._{place}")
    return _Layout(kind, dict(fields), record, getters, empty)


def _struct(title: str, fields: Mapping[str, Any], **options: Any) -> type[msgspec.Struct]:
    made = [(f"_{number}", *field) for number, field in enumerate(fields.values())]
    rename = {f"_{number}": name for number, name in enumerate(fields)}
    return msgspec.defstruct(
        title, made, rename=rename, forbid_unknown_fields=True, gc=False, **options
    )


@lru_cache(1024)
def _any_record(kind: str) -> type[msgspec.Struct]:
    """A struct for the records of another kind: it only says where they are."""
    return msgspec.defstruct("Other", [], tag_field="log", tag=kind, gc=False)


@lru_cache(256)
def _decoder(types: tuple[type[msgspec.Struct], ...]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(Union[types])  # noqa: UP007 (of a tuple)


class Rows(NamedTuple):
    """Records of a kind with the same names, in order; ``gpu`` is the id that all have.

    ``steps`` are empty where the records have none. ``numbers`` are floats, by path. ``starts`` and
    ``ends`` are the bytes of the lines in the text, the newlines included.
    """

    kind: str
    keys: Keys
    gpu: str
    ordinals: NDArray[np.int64]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    steps: NDArray[np.int64]
    numbers: Mapping[FieldPath, NDArray[np.float64]]
    structs: Sequence[msgspec.Struct]
    layout: _Layout

    def at(self, *columns: NDArray[np.int64]) -> Rows:
        """The same with the ordinals, starts and ends of lines; its ordinals are their numbers."""
        ordinals, starts, ends = (column[self.ordinals] for column in columns)
        return self._replace(ordinals=ordinals, starts=starts, ends=ends)

    def series(self) -> dict[SeriesKey, FieldPath]:
        """The path of each series that the records have a point of."""
        paths = series_in(self.kind, self.keys, self.gpu)
        return {key: path for key, path in paths.items() if path in self.numbers}

    def columns(self) -> dict[FieldPath, Sequence[Any] | NDArray[Any]]:
        """The values of each path as they were written: an array if all are floats or steps."""
        return {path: self._column(path) for path in paths_of(self.keys)}

    def _column(self, path: FieldPath) -> Sequence[Any] | NDArray[Any]:
        if path == ("step",):
            return self.steps
        numbers = self.numbers.get(path)
        # Integers and booleans are whole: where no number is, there is none among them.
        if numbers is not None and not (np.rint(numbers) == numbers).any():
            return numbers
        column = self.layout.column(self.structs, *path)
        return column if numbers is None or set(map(type, column)) != {float} else numbers


class Line(NamedTuple):
    """A line with any other record, or None for a damaged one.

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


class LineDecoder:
    """Decodes the lines of one part.

    The first ``few`` lines of a kind are decoded one by one before a struct is made for the rest.
    """

    def __init__(self, few: int = 1) -> None:
        self._few = few
        self._known: dict[str, type[msgspec.Struct]] = {
            kind: _any_record(kind) for kind in KINDS if kind not in ROW_KINDS
        }
        self._layouts: dict[type, _Layout] = {}
        self._fields: dict[str, _Fields] = {}
        self._num_refused: Counter[str] = Counter()
        self._num_structs: Counter[str] = Counter()
        self._decoder = _decoder(tuple(self._known.values()))

    def decode(self, text: bytes, *, first: int) -> Decoded:
        """Decode whole lines, each ended by a newline; ``first`` is the first record's ordinal."""
        ends = np.flatnonzero(np.frombuffer(text, np.uint8) == _NEWLINE) + 1
        starts = np.append(0, ends[:-1])
        found = self._decoded(text, ends.size)
        rows, alone = self._rows(found)
        spans = list(zip(starts[alone].tolist(), ends[alone].tolist(), strict=True))
        lines = [text[start : end - 1] for start, end in spans]
        records = [
            _record_of(*one) for one in zip(map(found.__getitem__, alone), lines, strict=True)
        ]
        # A damaged line has no ordinal of its own, nor has the empty one behind a torn record.
        is_record = np.ones(ends.size, dtype=np.bool_)
        is_record[alone] = [record is not None for record, _ in records]
        ordinals = first + np.cumsum(is_record) - is_record
        items: list[Rows | Line] = [one.at(ordinals, starts, ends) for one in rows]
        numbers = ordinals[alone].tolist()
        for ordinal, span, line, record in zip(numbers, spans, lines, records, strict=True):
            if line:
                items.append(Line(ordinal, *span, *record))
        items.sort(key=_first_ordinal)
        return Decoded(items, int(is_record.sum()))

    def _rows(self, found: Sequence[Any]) -> tuple[list[Rows], list[int]]:
        """The rows, with the numbers of their lines as ordinals, and the numbers of other lines."""
        types = list(map(type, found))
        numbers = {type_: number for number, type_ in enumerate(set(types))}
        which = np.frombuffer(bytes(map(numbers.__getitem__, types)), np.uint8)
        rows: list[Rows] = []
        alone: list[int] = []
        for type_, number in numbers.items():
            layout, is_of_type = self._layouts.get(type_), which == number
            places = np.flatnonzero(is_of_type)
            if layout is None:
                alone += places.tolist()
                continue
            structs = found if len(numbers) == 1 else list(compress(found, is_of_type.tobytes()))
            made, odd = _rows_of(layout, structs, places)
            rows += made
            alone += odd
        alone.sort()
        return rows, alone

    def _decoded(self, text: bytes, num_lines: int) -> Sequence[Any]:
        """Of each line its struct, or the dict of a line that no struct takes; None for others."""
        try:
            found: list[Any] = self._decoder.decode_lines(text)
            if len(found) == num_lines:  # a record may be on two lines, and a line may be empty
                return found
        except (ValueError, RecursionError):
            pass
        return list(map(self._decoded_line, text.split(b"\n")[:-1]))

    def _decoded_line(self, line: bytes) -> Any:
        record: Record | None = None
        while record is None or self._learn(record):
            try:
                return self._decoder.decode(line)
            except (ValueError, RecursionError):
                record = decode_whole(line)
            if record is None:
                return None
        return record

    def _learn(self, record: Record) -> bool:
        """Make a struct for such records if there may be more of them; False if there is none."""
        kind = record["log"]
        if kind not in ROW_KINDS:
            is_new = kind not in self._known and len(self._known) < len(KINDS) + _MAX_KINDS
            return is_new and self._know(kind, _any_record(kind))
        self._num_refused[kind] += 1
        if self._num_refused[kind] < self._few or self._num_structs[kind] == _MAX_STRUCTS:
            return False
        fields, before = _fields_of(record), self._fields.get(kind, {})
        joined = None if fields is None else _joined(before, fields)
        if fields is None or joined is None or joined == before:
            return False
        if len(_paths_in(joined)) > _SOME_NAMES + _MAX_ABSENT * len(_paths_in(fields)):
            return False
        layout = _layout(kind, tuple(joined.items()))
        self._num_structs[kind] += 1
        self._fields[kind], self._layouts[layout.record] = joined, layout
        return self._know(kind, layout.record)

    def _know(self, kind: str, type_: type[msgspec.Struct]) -> bool:
        self._known[kind] = type_
        self._decoder = _decoder(tuple(self._known.values()))
        return True


def _record_of(found: Any, line: bytes) -> tuple[Record | None, bool]:
    """The record of a line that is in no rows, and whether it is all of the line."""
    record = found if type(found) is dict else decode_whole(line)
    return (decode(line), False) if record is None else (record, True)


def _first_ordinal(item: Rows | Line) -> int:
    return item.ordinals[0].item() if isinstance(item, Rows) else item.ordinal


# -- columns --------------------------------------------------------------------------------------


def _rows_of(
    layout: _Layout, structs: Sequence[msgspec.Struct], places: NDArray[np.int64]
) -> tuple[list[Rows], list[int]]:
    """The rows of records with one layout, and the places of those that cannot be in rows."""
    rows: list[Rows] = []
    odd: list[int] = []
    try:
        groups = list(_Alike.of(layout, structs, places).groups())
    except struct.error:  # an integer beyond every float
        return [], places.tolist()
    for group, has in groups:
        made = group.rows(has)
        if made is None:
            odd += group.places.tolist()
        else:
            rows.append(made)
    return rows, odd


class _Alike(NamedTuple):
    """Records with one layout, and their numbers by path; one that is not there is nan."""

    layout: _Layout
    structs: Sequence[msgspec.Struct]
    places: NDArray[np.int64]
    numbers: Mapping[FieldPath, NDArray[np.float64]]
    steps: NDArray[np.int64] | None = None
    has_all: bool = True

    @classmethod
    def of(
        cls, layout: _Layout, structs: Sequence[msgspec.Struct], places: NDArray[np.int64]
    ) -> _Alike:
        """Raises ``struct.error`` for an integer beyond every float."""
        numbers: dict[FieldPath, NDArray[np.float64]] = {}
        size, has_all, steps = len(structs), True, None
        for name, kind in layout.fields.items():
            column = map(layout.getters[name,], structs)
            if type(kind) is tuple:
                inside = chain.from_iterable(map(astuple, column))
                table = _packed("d", inside, size * len(kind)).reshape(size, -1).T.copy()
                numbers |= zip(((name, one) for one in kind), table, strict=True)
                has_all &= bool(kind) and not np.isnan(table).any()
            elif kind is float:
                numbers[name,] = table = _packed("d", column, size)
                has_all &= not np.isnan(table).any()
            elif kind is int:
                steps = _packed_steps(column, size)
                has_all &= steps is not None
            else:
                has_all &= set(map(type, column)) == {str}
        return cls(layout, structs, places, numbers, steps, has_all)

    def groups(self) -> Iterator[tuple[_Alike, Set[FieldPath]]]:
        """Records of one device that have the same fields and numbers, and the paths of those."""
        every, ids = _paths_in(self.layout.fields), list[str]()
        if KINDS[self.layout.kind].by_id and "id" in self.layout.fields:
            ids = list(map(str, self.layout.column(self.structs, "id")))
        if self.has_all and len(set(ids)) < 2:
            yield self, set(every)
            return
        marks = [self._is_there(path).tolist() for path in every]
        found: dict[Any, list[int]] = defaultdict(list)
        for place, key in enumerate(zip(*marks, *([ids] if ids else []), strict=True)):
            found[key].append(place)
        for key, which in found.items():
            yield self._some(which), set(compress(every, key))

    def _is_there(self, path: FieldPath) -> NDArray[np.bool_]:
        """Which records have a field, or a number in an object."""
        if path in self.numbers:
            return ~np.isnan(self.numbers[path])
        nothing = self.layout.empty.get(path[0])
        column = map(self.layout.getters[path], self.structs)
        return np.array([value is not nothing for value in column])

    def _some(self, which: Sequence[int]) -> _Alike:
        return _Alike(
            self.layout,
            [self.structs[place] for place in which],
            self.places[which],
            {path: array[which] for path, array in self.numbers.items()},
            has_all=False,
        )

    def rows(self, has: Set[FieldPath]) -> Rows | None:
        """They as rows; None where each of them has to be looked at."""
        kind, fields = self.layout.kind, self.layout.fields
        keys = tuple(
            (name, tuple(m for m in what if (name, m) in has) if type(what) is tuple else None)
            for name, what in fields.items()
            if (name,) in has
        )
        gpu = ""
        if KINDS[kind].by_id:
            gpu = str(self.layout.column(self.structs[:1], "id")[0]) if ("id",) in has else "0"
        none = steps = np.zeros(0, np.int64)
        if ("step",) in has:
            column = map(self.layout.getters["step",], self.structs)
            packed = self.steps if self.has_all else _packed_steps(column, len(self.structs))
            if packed is None:
                return None
            steps = packed
        plan, times = plan_of(kind, keys, gpu), self.numbers.get(("t",), none)
        if plan is None or plan.axis == "epoch" or (plan.axis == "step" and not steps.size):
            return None
        if ("t",) in has and not bool((np.abs(times) < STEP_LIMIT).all()):
            return None
        values = {path: array for path, array in self.numbers.items() if path in has}
        return Rows(
            kind, keys, gpu, self.places, none, none, steps, values, self.structs, self.layout
        )


def _packed(code: Literal["d", "q"], values: Iterable[Any], size: int) -> NDArray[Any]:
    return np.frombuffer(struct.pack(f"{size}{code}", *values), code)


def _packed_steps(values: Iterable[Any], size: int) -> NDArray[np.int64] | None:
    """Steps; None where a record has none, or one beyond 64 bits."""
    try:
        return _packed("q", values, size)
    except struct.error:
        return None
