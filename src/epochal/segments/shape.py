"""Takes records apart into cells of one type each, and puts them together again.

Records that have the same kind, the same keys in the same order and values of the same types share
a *shape*. A shape is a list of names and, for each, a letter that says what stands there:

====  ==============================================================================
k     the kind itself
t T   the time, in whole milliseconds: T where the record has an int, t where a float
s     the step, an int of 64 bits
f     a float
i l   an int; l where a float64 could not hold it
b     a bool
u     a text
I F   a list of ints, of floats
x     null, and ``nonfinite`` has the word: the column holds the NaN or infinity
y     inside ``nonfinite``: the word of the x of the same name
z e   null; an empty list
j     anything else: its JSON
o )   an object begins, and ends
w     an object begins of which some members are kept in long form
====  ==============================================================================
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from epochal.records import Record
from epochal.values import nonfinite_word

NUMBERS = frozenset("filbx")
# Letters that a value is kept for; the others say all there is to say.
VALUED = frozenset("tTsfilbxuIFj")
# The ints a float64 holds exactly.
EXACT_INT = 2**53
# Letters that a value's type says, or nearly: t, T and i are not for every value of it.
_PLAIN = frozenset("tTsfibuz")
_INT64 = 2**63
_WORDS = frozenset({"nan", "inf", "-inf"})
LATEST_S = 9e12
NUMPY_TYPES: Mapping[str, Any] = {
    **dict.fromkeys("tTsil", np.int64),
    **dict.fromkeys("fx", np.float64),
    "b": np.bool_,
}
# Letters of the types that say all; int and list depend on the value.
_CODES: Mapping[type, str] = {float: "f", bool: "b", str: "u", type(None): "z"}
_FLOATS = {float}
_INTS = {int}

Path = tuple[str, ...]
# The objects whose members become columns, beside the free metrics ``m`` of every kind.
_FLAT_BY_KIND: Mapping[str, frozenset[str]] = {
    "abs-maxes": frozenset({"values"}),
    "epoch": frozenset({"resources"}),
    "gpu": frozenset({"min", "max"}),
    "system": frozenset({"min", "max"}),
}
# The objects that ``nonfinite`` speaks of, beside the record itself.
_WORDED = ("m", "values")


class Shape(NamedTuple):
    """What the records of one shape have in common; the same number of names and letters."""

    kind: str
    names: tuple[str, ...]
    codes: str

    def paths(self) -> list[Path]:
        """Where each name stands: alone, or inside the object that was begun before it."""
        paths: list[Path] = []
        inside: Path = ()
        for name, code in zip(self.names, self.codes, strict=True):
            paths.append((*inside, name))
            if code in "ow":
                inside = (name,)
            elif code == ")":
                inside = ()
        return paths


def packed(code: str, values: Sequence[Any]) -> Any:
    """The values of one letter, in as few bytes as there are for them; it can grow."""
    if code in "tTsil":
        return array("q", values)
    if code in "fx":
        return array("d", values)
    return bytearray(values) if code == "b" else list(values)


def unpacked(code: str, values: Any) -> NDArray[Any] | list[Any]:
    """What ``packed`` made, as an array where it holds numbers; it can no longer grow."""
    kind = NUMPY_TYPES.get(code)
    return values if kind is None else np.frombuffer(values, dtype=kind)


class LongPoint(NamedTuple):
    """A member of an object that is kept in long form, and its place among the members."""

    place: int
    key: str
    value: Any


class _UnfitError(Exception):
    """The record holds something that no column can."""


def is_flat(kind: str, field: str) -> bool:
    """Whether the members of an object of this name become columns."""
    return field == "m" or field in _FLAT_BY_KIND.get(kind, ())


def take_apart(record: Record) -> tuple[Shape, list[Any]] | None:
    """The shape of a record and its values; None when it is better kept as JSON."""
    words = record.get("nonfinite", _WORDS)
    if words is not _WORDS and not _are_words(words):
        return None
    kind = record["log"]
    if words is _WORDS and dict not in set(map(type, record.values())):
        return _take_plain(kind, record)
    names: list[str] = []
    codes: list[str] = []
    values: list[Any] = []
    nulls: set[str] = set()
    said: Mapping[str, str] = {} if words is _WORDS else words
    try:
        for name, value in record.items():
            names.append(name)
            if type(value) is dict and (is_flat(kind, name) or name == "nonfinite"):
                codes.append("o")
                names.extend(value)
                if name == "nonfinite":
                    codes.append("y" * len(value))
                else:
                    worded = said if name in _WORDED else {}
                    codes.append(_take_members(value, values, worded, nulls))
                codes.append(")")
                names.append("")
            else:
                codes.append(_take_field(name, value, values, said, nulls))
    except _UnfitError:
        return None
    if said.keys() - nulls:
        return None
    return Shape(kind, tuple(names), "".join(codes)), values


def _take_plain(kind: str, record: Record) -> tuple[Shape, list[Any]] | None:
    """The same for a record without objects, by what records of its types have in common."""
    names, values = tuple(record), list(record.values())
    plan = _plan(names, tuple(map(type, values)))
    codes = list(plan.codes)
    for place in plan.open:
        name, value = names[place], values[place]
        if name == "t" and (code := _time_code(value)):
            values[place] = round(value * 1000)
        elif name == "step" and type(value) is int and -_INT64 <= value < _INT64:
            code = "s"
        elif type(value) is int and not -_INT64 <= value < _INT64:
            return None
        else:
            code = _code(value)
        codes[place] = code
    kept = [value for value, code in zip(values, codes, strict=True) if code in VALUED]
    return Shape(kind, names, "".join(codes)), kept


class _Plan(NamedTuple):
    """The letters that types say, and the places of values that say their letter themselves."""

    codes: tuple[str, ...]
    open: tuple[int, ...]


@lru_cache(1024)
def _plan(names: tuple[str, ...], types: tuple[type, ...]) -> _Plan:
    codes = [
        "k" if name == "log" else _CODES.get(kind, "j")
        for name, kind in zip(names, types, strict=True)
    ]
    timed = {place for place, name in enumerate(names) if name == "t"}
    said = {place for place, kind in enumerate(types) if kind in (int, list)}
    return _Plan(tuple(codes), tuple(sorted(timed | said)))


def _are_words(words: Any) -> bool:
    return type(words) is dict and all(
        type(word) is str and word in _WORDS for word in words.values()
    )


def _take_field(
    name: str, value: Any, values: list[Any], words: Mapping[str, str], nulls: set[str]
) -> str:
    if name == "log":
        return "k"
    if name == "t" and (code := _time_code(value)):
        values.append(round(value * 1000))
        return code
    if name == "step" and type(value) is int and -_INT64 <= value < _INT64:
        values.append(value)
        return "s"
    return _take_value(name, value, values, words, nulls)


def _take_members(
    members: Mapping[str, Any], values: list[Any], words: Mapping[str, str], nulls: set[str]
) -> str:
    if set(map(type, members.values())) == _FLOATS:
        values.extend(members.values())
        return "f" * len(members)
    return "".join(
        [_take_value(name, value, values, words, nulls) for name, value in members.items()]
    )


def _take_value(
    name: str, value: Any, values: list[Any], words: Mapping[str, str], nulls: set[str]
) -> str:
    if value is None and name in words:
        nulls.add(name)
        values.append(float(words[name]))
        return "x"
    code = _code(value)
    if code in VALUED:
        values.append(value)
    return code


def _time_code(value: Any) -> str:
    """t or T for a time that whole milliseconds hold exactly; a zero could have lost its sign."""
    if type(value) is float and 0 < value < LATEST_S:
        return "t" if round(value * 1000) / 1000 == value else ""
    return "T" if type(value) is int and 0 < value < LATEST_S else ""


def _code(value: Any) -> str:
    kind = type(value)
    if kind is float:
        return "f"
    if kind is bool:
        return "b"
    if kind is int:
        return _int_code(value)
    if kind is str:
        return "u"
    if value is None:
        return "z"
    return _list_code(value) if kind is list else "j"


def _int_code(value: int) -> str:
    if -EXACT_INT <= value <= EXACT_INT:
        return "i"
    if -_INT64 <= value < _INT64:
        return "l"
    raise _UnfitError


def _list_code(items: list[Any]) -> str:
    if not items:
        return "e"
    kinds = set(map(type, items))
    if kinds == _FLOATS:
        return "F"
    return "I" if kinds == _INTS and min(items) >= -_INT64 and max(items) < _INT64 else "j"


def columns_of(shape: Shape, columns: Sequence[Any]) -> list[Any] | None:
    """The columns of records that have the types of a shape; None where they are not all of it.

    ``columns`` has the values in the order they are written, as the columnar decoder gives them.
    """
    letters = [code for code in shape.codes if code not in "ko)"]
    if not _PLAIN.issuperset(letters):
        return None
    found: list[Any] = []
    for code, column in zip(letters, columns, strict=True):
        if code in "tT":
            column = _milliseconds(code, column)
            if column is None:
                return None
        elif code == "i":
            numbers = np.frombuffer(column, dtype=np.int64)
            if numbers.min() < -EXACT_INT or numbers.max() > EXACT_INT:
                return None
        if code in VALUED:
            found.append(column)
    return found


def _milliseconds(code: str, column: array[Any]) -> array[int] | None:
    """Times in whole milliseconds; None where one of them has no such form."""
    seconds = np.frombuffer(column, dtype=np.float64 if code == "t" else np.int64)
    if not (seconds.min() > 0 and seconds.max() < LATEST_S):
        return None
    milliseconds = np.rint(seconds * 1000).astype(np.int64)
    if not np.array_equal(milliseconds / 1000 if code == "t" else milliseconds // 1000, seconds):
        return None
    return array("q", milliseconds.tobytes())


def as_lists(columns: Iterable[NDArray[Any] | list[Any]]) -> list[list[Any]]:
    """Columns as Python's own values."""
    return [values if isinstance(values, list) else values.tolist() for values in columns]


def put_together(
    shape: Shape,
    columns: Sequence[Sequence[Any]],
    *,
    size: int,
    long: Sequence[Mapping[str, list[LongPoint]]] | None = None,
) -> list[Record]:
    """The records of a shape: one column of values per letter that has them.

    ``long`` gives, for each record, the long points of each of its objects.
    """
    return _Builder(shape, columns, size, long or ()).build()


class _Builder:
    def __init__(
        self,
        shape: Shape,
        columns: Sequence[Sequence[Any]],
        size: int,
        long: Sequence[Mapping[str, list[LongPoint]]],
    ) -> None:
        self._shape = shape
        self._size = size
        self._long = long
        given = iter(columns)
        self._columns = [next(given) if code in VALUED else () for code in shape.codes]

    def build(self) -> list[Record]:
        names: list[str] = []
        cells: list[Sequence[Any]] = []
        outer: tuple[str, str, list[str], list[Sequence[Any]]] | None = None
        for place, (name, code) in enumerate(
            zip(self._shape.names, self._shape.codes, strict=True)
        ):
            if code in "ow":
                outer = (name, code, names, cells)
                names, cells = [], []
            elif code == ")":
                assert outer is not None
                field, begun, outer_names, outer_cells = outer
                made = _objects(names, cells, self._size)
                if begun == "w":
                    made = [
                        _with_long(wide, points.get(field, []))
                        for wide, points in zip(made, self._long, strict=True)
                    ]
                names, cells = [*outer_names, field], [*outer_cells, made]
                outer = None
            else:
                names.append(name)
                cells.append(self._cells(place, name, code))
        return _objects(names, cells, self._size)

    def _cells(self, place: int, name: str, code: str) -> Sequence[Any]:
        if code == "k":
            return [self._shape.kind] * self._size
        if code in "zx":
            return [None] * self._size
        if code == "e":
            return [[] for _ in range(self._size)]
        if code == "y":
            return [nonfinite_word(value) for value in self._nonfinite_values(name)]
        if code == "t":
            return [milliseconds / 1000 for milliseconds in self._columns[place]]
        if code == "T":
            return [milliseconds // 1000 for milliseconds in self._columns[place]]
        return self._columns[place]

    def _nonfinite_values(self, name: str) -> Sequence[Any]:
        for place, code in enumerate(self._shape.codes):
            if code == "x" and self._shape.names[place] == name:
                return self._columns[place]
        raise AssertionError(f"no value is not finite under the name {name!r}")


def _objects(names: list[str], cells: list[Sequence[Any]], size: int) -> list[Record]:
    if not names:
        return [{} for _ in range(size)]
    return [dict(zip(names, row, strict=True)) for row in zip(*cells, strict=True)]


def _with_long(wide: Record, points: list[LongPoint]) -> Record:
    """One object from its two halves, every member in its place."""
    if not points:
        return wide
    by_place = {point.place: (point.key, point.value) for point in points}
    rest = iter(wide.items())
    return dict(
        by_place[place] if place in by_place else next(rest)
        for place in range(len(wide) + len(points))
    )
