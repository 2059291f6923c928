"""Decodes many journal lines at once, and puts records of numbers with the same names together.

A record of a dense kind is decoded into a struct that has every name its part has had so far, so
that no dict is made of it. Lines that such a struct refuses are decoded one by one, as
``journal/line.py`` does it; their names join the struct.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from functools import lru_cache
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple, Union

import msgspec
import numpy as np
from msgspec.structs import astuple
from numpy.typing import NDArray

from epochal.journal.facts import STEP_LIMIT
from epochal.journal.line import decode, decode_whole
from epochal.records import DENSE_KINDS, KINDS, Axis, Record

# A field, or a field and a member of it.
FieldPath = tuple[str, ...]
# The fields of a record without ``log``: a name, and the names inside where it is an object.
Keys = tuple[tuple[str, tuple[str, ...] | None], ...]

_NEWLINE = 10
# A log that hardly ever repeats a set of names would make a new struct again and again, and a log
# of very many names a wide one for a few numbers.
_MAX_STRUCTS = 64
_MAX_KINDS = 64
_SOME_NAMES = 64
_MAX_ABSENT = 4
# Names that no field of a struct can have.
_UNFIT = re.compile(r'[\\"\x00-\x1f]')
_NOT_THERE = math.nan  # JSON has no such number


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


def paths_of(keys: Keys) -> list[FieldPath]:
    """The path of each value."""
    paths: list[FieldPath] = []
    for name, members in keys:
        paths += [(name,)] if members is None else [(name, member) for member in members]
    return paths


class _Names(NamedTuple):
    """The names of numbers, of texts and of objects of numbers that records of a kind have had."""

    numbers: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    objects: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @classmethod
    def of(cls, record: Record) -> _Names | None:
        """Those of one record; None if it has other values, or a name that no struct can have."""
        numbers, texts, objects = list[str](), list[str](), dict[str, tuple[str, ...]]()
        for name, value in record.items():
            if name == "log":
                continue
            if isinstance(value, (int, float)):
                numbers.append(name)
            elif isinstance(value, str):
                texts.append(name)
            elif type(value) is dict and set(map(type, value.values())) <= {int, float, bool}:
                objects[name] = tuple(value)
            else:
                return None
        found = cls(tuple(numbers), tuple(texts), tuple(objects.items()))
        return (
            None if any(_UNFIT.search(part) for path in found.marked() for part in path) else found
        )

    def fields(self) -> list[str]:
        """The fields of a record, in the order of the struct."""
        return [*self.numbers, *self.texts, *(name for name, _ in self.objects)]

    def paths(self) -> list[FieldPath]:
        """The path of each number."""
        inside = [(name, member) for name, members in self.objects for member in members]
        return [*((name,) for name in self.numbers), *inside]

    def marked(self) -> list[FieldPath]:
        """Whatever may be missing from a record: numbers, then texts and objects."""
        return [*self.paths(), *((name,) for name in self.fields()[len(self.numbers) :])]

    def is_wide_for(self, record: _Names) -> bool:
        """Whether a record with other names has only few of these."""
        return len(self.paths()) > _SOME_NAMES + _MAX_ABSENT * len(record.paths())

    def keys(self, has: Set[FieldPath]) -> Keys:
        """The keys of a record that has some of it."""
        inside = dict(self.objects)
        return tuple(
            (name, tuple(m for m in inside[name] if (name, m) in has) if name in inside else None)
            for name in self.fields()
            if (name,) in has
        )

    def joined(self, other: _Names) -> _Names | None:
        """Both; None where they contradict each other."""
        objects = dict(self.objects)
        for name, members in other.objects:
            objects[name] = tuple(dict.fromkeys(objects.get(name, ()) + members))
        numbers = tuple(dict.fromkeys(self.numbers + other.numbers))
        texts = tuple(dict.fromkeys(self.texts + other.texts))
        found = _Names(numbers, texts, tuple(objects.items()))
        return found if len(set(found.fields())) == len(found.fields()) else None


class _Layout(NamedTuple):
    """The struct of records of a kind; its fields are numbers, texts and objects in this order."""

    kind: str
    names: _Names
    record: type[msgspec.Struct]
    empty: tuple[msgspec.Struct, ...]


@lru_cache(256)
def _layout(kind: str, names: _Names) -> _Layout:
    objects = [_struct("Numbers", dict.fromkeys(m, _NUMBER)) for _, m in names.objects]
    fields = {
        **dict.fromkeys(names.numbers, _NUMBER),
        **dict.fromkeys(names.texts, (str, None)),
        **{name: (type_, None) for (name, _), type_ in zip(names.objects, objects, strict=True)},
    }
    record = _struct("Record", fields, tag_field="log", tag=kind)
    return _Layout(kind, names, record, tuple(type_() for type_ in objects))


_NUMBER = (int | float | bool, _NOT_THERE)


def _struct(title: str, fields: Mapping[str, Any], **tag: Any) -> type[msgspec.Struct]:
    made = [(f"_{number}", *field) for number, field in enumerate(fields.values())]
    rename = {f"_{number}": name for number, name in enumerate(fields)}
    return msgspec.defstruct(
        title, made, rename=rename, forbid_unknown_fields=True, gc=False, **tag
    )


@lru_cache(1024)
def _any_record(kind: str) -> type[msgspec.Struct]:
    """A struct for the records of another kind: it only says where they are."""
    return msgspec.defstruct("Other", [], tag_field="log", tag=kind, gc=False)


@lru_cache(256)
def _decoder(types: tuple[type[msgspec.Struct], ...]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(Union[types])  # noqa: UP007 (of a tuple)


class Rows(NamedTuple):
    """Records of a dense kind with the same names, in order; ``gpu`` is the id that all have.

    ``steps`` are empty where the records have none. ``numbers`` are floats, by path.
    """

    kind: str
    keys: Keys
    gpu: str
    ordinals: NDArray[np.int64]
    steps: NDArray[np.int64]
    numbers: Mapping[FieldPath, NDArray[np.float64]]
    structs: Sequence[msgspec.Struct]
    layout: _Layout

    def columns(self) -> dict[FieldPath, Sequence[Any]]:
        """The values of each path as they were written."""
        names = self.layout.names
        found: dict[FieldPath, Sequence[Any]] = {}
        outer = zip(*map(astuple, self.structs), strict=True)
        inside = dict(names.objects)
        for name, column in zip(names.fields(), outer, strict=True):
            if name not in inside:
                found[name,] = column
            elif inside[name] and column[0] is not None:
                members = zip(*map(astuple, column), strict=True)
                found |= zip(((name, one) for one in inside[name]), members, strict=True)
        return {path: found[path] for path in paths_of(self.keys)}


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


class LineDecoder:
    """Decodes the lines of one part.

    The first ``few`` lines of a kind are decoded one by one before a struct is made for the rest.
    """

    def __init__(self, few: int = 1) -> None:
        self._few = few
        self._known: dict[str, type[msgspec.Struct]] = {
            kind: _any_record(kind) for kind in KINDS if kind not in DENSE_KINDS
        }
        self._layouts: dict[type, _Layout] = {}
        self._names: dict[str, _Names] = {}
        self._num_refused: Counter[str] = Counter()
        self._num_structs: Counter[str] = Counter()
        self._decoder = _decoder(tuple(self._known.values()))

    def decode(self, text: bytes, *, first: int) -> Decoded:
        """Decode whole lines, each ended by a newline; ``first`` is the first record's ordinal."""
        ends = np.flatnonzero(np.frombuffer(text, np.uint8) == _NEWLINE) + 1
        found = self._decoded(text, ends.size)
        by_type: dict[type, list[int]] = defaultdict(list)
        for place, type_ in enumerate(map(type, found)):
            by_type[type_].append(place)
        items: list[Rows | Line] = []
        alone: list[int] = []
        for type_, places in by_type.items():
            layout, structs = self._layouts.get(type_), found
            if len(places) < len(found):
                structs = [found[place] for place in places]
            rows, odd = ([], places) if layout is None else _rows_of(layout, structs, places)
            items += rows
            alone += odd
        # Damaged lines have no ordinal of their own, nor has the empty one behind a torn record.
        is_record = np.ones(ends.size, dtype=np.bool_)
        for place in alone:
            start, end = ends[place - 1].item() if place else 0, ends[place].item()
            record, line = found[place], text[start : end - 1]
            is_whole = type(record) is dict
            if not is_whole:
                whole = decode_whole(line)
                record, is_whole = decode(line) if whole is None else whole, whole is not None
            if line:
                items.append(Line(place, start, end, record, is_whole))
            is_record[place] = record is not None
        return _with_ordinals(items, is_record, first)

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
        if kind not in DENSE_KINDS:
            is_new = kind not in self._known and len(self._known) < len(KINDS) + _MAX_KINDS
            return is_new and self._know(kind, _any_record(kind))
        self._num_refused[kind] += 1
        if self._num_refused[kind] < self._few or self._num_structs[kind] == _MAX_STRUCTS:
            return False
        names, before = _Names.of(record), self._names.get(kind, _Names())
        joined = None if names is None else before.joined(names)
        if names is None or joined is None or joined == before or joined.is_wide_for(names):
            return False
        layout = _layout(kind, joined)
        self._num_structs[kind] += 1
        self._names[kind], self._layouts[layout.record] = joined, layout
        return self._know(kind, layout.record)

    def _know(self, kind: str, type_: type[msgspec.Struct]) -> bool:
        self._known[kind] = type_
        self._decoder = _decoder(tuple(self._known.values()))
        return True


def _with_ordinals(items: list[Rows | Line], is_record: NDArray[np.bool_], first: int) -> Decoded:
    """The items with the ordinals of their records, in order, in place of the numbers of lines."""
    ordinals = first + np.cumsum(is_record) - is_record
    placed: list[Rows | Line] = []
    for item in sorted(items, key=_first_line):
        if isinstance(item, Rows):
            placed.append(item._replace(ordinals=ordinals[item.ordinals]))
        else:
            placed.append(item._replace(ordinal=ordinals[item.ordinal].item()))
    return Decoded(placed, int(is_record.sum()))


def _first_line(item: Rows | Line) -> int:
    return item.ordinals[0].item() if isinstance(item, Rows) else item.ordinal


# -- columns --------------------------------------------------------------------------------------


def _rows_of(
    layout: _Layout, structs: Sequence[msgspec.Struct], places: Sequence[int]
) -> tuple[list[Rows], list[int]]:
    """The rows of records with one layout, and the places of those that cannot be in rows."""
    columns = dict(
        zip(layout.names.fields(), zip(*map(astuple, structs), strict=True), strict=True)
    )
    try:
        numbers = _floats(layout, columns, len(structs))
    except OverflowError:  # an integer beyond every float
        return [], list(places)
    others = [*layout.names.texts, *dict(layout.names.objects)]
    is_there = np.array([[value is not None for value in columns[name]] for name in others], bool)
    marks = np.concatenate([~np.isnan(numbers), is_there.reshape(-1, len(structs))])
    ids = columns.get("id") if KINDS[layout.kind].by_id else None
    rows: list[Rows] = []
    odd: list[int] = []
    for which in _alike(marks, ids):
        is_all = len(which) == len(structs)
        made = _plain_rows(
            layout,
            structs if is_all else [structs[place] for place in which],
            np.array(places)[which],
            numbers if is_all else numbers[:, which],
            marks[:, which[0]].tolist(),
        )
        if made is None:
            odd += [places[place] for place in which]
        else:
            rows.append(made)
    return rows, odd


def _column(layout: _Layout, structs: Sequence[msgspec.Struct], name: str) -> list[Any]:
    return list(map(attrgetter(f"_{layout.names.fields().index(name)}"), structs))


def _floats(
    layout: _Layout, columns: Mapping[str, Sequence[Any]], size: int
) -> NDArray[np.float64]:
    """Every number as a float, a row for each path; nan where a record has none."""
    outer = np.array([columns[name] for name in layout.names.numbers], np.float64)
    found = [outer.reshape(-1, size)]
    for (name, members), empty in zip(layout.names.objects, layout.empty, strict=True):
        column = columns[name]
        if type(None) in set(map(type, column)):
            column = [empty if value is None else value for value in column]
        flat = chain.from_iterable(map(astuple, column))
        inner = np.fromiter(flat, np.float64, size * len(members))
        found.append(inner.reshape(size, -1).T)
    return np.concatenate(found)


def _alike(marks: NDArray[np.bool_], ids: Sequence[Any] | None) -> Iterable[NDArray[np.int64]]:
    """The indices of records with the same marks and the same id."""
    found: dict[Any, list[int]] = defaultdict(list)
    names = list(map(str, ids or ()))
    if marks.all() and len(set(names)) < 2:
        return [np.arange(marks.shape[1])]
    packed = np.packbits(marks, axis=0).T.copy()
    texts = packed.view(f"V{packed.shape[1]}")[:, 0].tolist()
    for place, key in enumerate(zip(texts, names, strict=True) if names else texts):
        found[key].append(place)
    return map(np.array, found.values())


def _plain_rows(
    layout: _Layout,
    structs: Sequence[msgspec.Struct],
    ordinals: NDArray[np.int64],
    numbers: NDArray[np.float64],
    marks: Sequence[bool],
) -> Rows | None:
    """Records with the same names as rows; None where each of them has to be looked at."""
    names, kind = layout.names, layout.kind
    has = {path for path, mark in zip(names.marked(), marks, strict=True) if mark}
    keys = names.keys(has)
    values = {path: row for path, row in zip(names.paths(), numbers, strict=False) if path in has}
    gpu = ""
    if KINDS[kind].by_id:
        gpu = str(_column(layout, structs, "id")[0]) if ("id",) in has else "0"
    plan = plan_of(kind, keys, gpu)
    steps = np.zeros(0, np.int64)
    if ("step",) in has:
        exact = _column(layout, structs, "step")
        if (
            set(map(type, exact)) != {int}
            or not -STEP_LIMIT <= min(exact) <= max(exact) < STEP_LIMIT
        ):
            return None
        steps = np.array(exact)
    if plan is None or plan.axis == "epoch" or (plan.axis == "step" and not steps.size):
        return None
    times = values.get(("t",))
    if times is not None and not bool((np.abs(times) < STEP_LIMIT).all()):
        return None
    return Rows(kind, keys, gpu, ordinals, steps, values, structs, layout)
