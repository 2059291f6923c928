"""Puts records together from the columns of a segment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from epochal.journal.line import decode_json
from epochal.records import Record
from epochal.segments import columns as c
from epochal.segments.contents import Contents
from epochal.segments.shape import (
    NUMPY_TYPES,
    VALUED,
    LongPoint,
    Path,
    Shape,
    as_lists,
    put_together,
)

# Records are made a window at a time: as objects they take ten times the memory of the columns.
_WINDOW = 8192
_ABS_MAX = "abs_max/"
_FEW_ROWS = 64
_DTYPES = {
    pa.bool_(): np.bool_,
    pa.int32(): np.int32,
    pa.int64(): np.int64,
    pa.float32(): np.float32,
    pa.float64(): np.float64,
}
LONG_COLUMNS = (c.ORDINAL, c.LONG_NAME, c.LONG_FIELD, c.LONG_PLACE, c.LONG_TYPE, c.LONG_VALUE)


def columns_for(contents: Contents, kinds: Set[str]) -> list[str]:
    """The names of the columns that records of these kinds are made of."""
    used: dict[str, None] = dict.fromkeys((c.LOG, c.ORDINAL, c.STEP, c.TIME, c.SHAPE, c.DOCUMENT))
    for shape in contents.shapes:
        if shape.kind in kinds:
            for path in shape.paths():
                if path in contents.columns:
                    used[contents.columns[path]] = None
    return list(used)


class Rebuilder:
    """Makes records of rows; ``table`` holds their columns, ``long`` what is in long form."""

    def __init__(self, contents: Contents, table: pa.Table, long: LongValues | None) -> None:
        self._contents = contents
        self._table = table.combine_chunks()
        self._numbers: dict[str, NDArray[Any]] = {}
        self._ordinals = self._plain(c.ORDINAL)
        self._shapes = self._plain(c.SHAPE, absent=-1)
        self._long = long

    def records(
        self,
        rows: NDArray[np.int64] | None = None,
        *,
        first: int = 0,
        end: int | None = None,
        kinds: Set[str] | None = None,
    ) -> Iterator[tuple[int, Record]]:
        """The records of some rows, or of all between two ordinals, in file order with ordinals.

        Of all, with ``kinds`` only those.
        """
        for window in self._windows(self._between(first, end, kinds) if rows is None else rows):
            yield from zip(self._ordinals[window].tolist(), self._made(window), strict=True)

    def _between(self, first: int, end: int | None, kinds: Set[str] | None) -> NDArray[np.int64]:
        chosen = self._ordinals >= first
        if end is not None:
            chosen &= self._ordinals < end
        rows: NDArray[np.int64] = np.flatnonzero(chosen)
        if kinds is not None:
            logs = self._table.column(c.LOG).combine_chunks().dictionary_encode()
            is_wanted = np.array([word in kinds for word in logs.dictionary.to_pylist()], np.bool_)
            rows = rows[is_wanted[logs.indices.to_numpy()[rows]]]
        return rows

    def _windows(self, rows: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        order = rows[np.argsort(self._ordinals[rows], kind="stable")]
        for start in range(0, order.size, _WINDOW):
            yield order[start : start + _WINDOW]

    def rows_of(self, number: int | None) -> NDArray[np.int64]:
        """The rows of one shape, or of the records that are documents, in file order."""
        rows = np.flatnonzero(self._shapes == (-1 if number is None else number))
        return rows[np.argsort(self._ordinals[rows], kind="stable")]

    def ordinals(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Which records some rows are."""
        found: NDArray[np.int64] = self._ordinals[rows]
        return found

    def documents(self, rows: NDArray[np.int64]) -> list[str]:
        """The JSON of some rows."""
        return self._objects(c.DOCUMENT, rows)

    def cells(self, number: int, rows: NDArray[np.int64]) -> list[NDArray[Any] | list[Any]]:
        """The values of rows of one shape: a column per letter that has them."""
        shape = self._contents.shapes[number]
        documents = self._documents(rows) if "j" in shape.codes else []
        return [
            self._cells(path, code, rows, documents)
            for path, code in zip(shape.paths(), shape.codes, strict=True)
            if code in VALUED
        ]

    def _made(self, window: NDArray[np.int64]) -> list[Record]:
        made: list[Any] = [None] * window.size
        shapes = self._shapes[window]
        for number in sorted(set(shapes.tolist())):
            places = np.flatnonzero(shapes == number)
            rows = window[places]
            records = self._documents(rows) if number < 0 else self._of_shape(number, rows)
            for place, record in zip(places.tolist(), records, strict=True):
                made[place] = record
        return made

    def _documents(self, rows: NDArray[np.int64]) -> list[Record]:
        return [decode_json(text) for text in self.documents(rows)]

    def _of_shape(self, number: int, rows: NDArray[np.int64]) -> list[Record]:
        shape = self._contents.shapes[number]
        columns = as_lists(self.cells(number, rows))
        long = self._long_points(shape, rows) if "w" in shape.codes else None
        return put_together(shape, columns, size=rows.size, long=long)

    def _cells(
        self, path: Path, code: str, rows: NDArray[np.int64], documents: list[Record]
    ) -> NDArray[Any] | list[Any]:
        if code == "j":
            return [_inside(document, path) for document in documents]
        kind = NUMPY_TYPES.get(code)
        if kind is None:
            return self._objects(self._contents.columns[path], rows)
        if code in "tTs":
            numbers = self._plain(c.STEP if code == "s" else c.TIME)
        else:
            numbers = self._plain(self._contents.columns[path])
        return numbers[rows].astype(kind, copy=False)

    def _long_points(
        self, shape: Shape, rows: NDArray[np.int64]
    ) -> list[Mapping[str, list[LongPoint]]]:
        assert self._long is not None
        return [self._long.of(ordinal) for ordinal in self._ordinals[rows].tolist()]

    def _plain(self, name: str, *, absent: int = 0) -> NDArray[Any]:
        """A number column as an array; what a null becomes is never looked at, but for shapes."""
        if name not in self._numbers:
            self._numbers[name] = plain_numbers(self._table.column(name), absent=absent)
        return self._numbers[name]

    def _objects(self, name: str, rows: NDArray[np.int64]) -> list[Any]:
        column = self._table.column(name)
        if rows.size < _FEW_ROWS:
            return [column[row].as_py() for row in rows.tolist()]
        return column.take(pa.array(rows)).to_pylist()  # type: ignore[no-any-return]


class LongValues:
    """Long points that are part of a record, found by its ordinal."""

    def __init__(self, table: pa.Table) -> None:
        own = table.filter(table.column(c.LONG_PLACE).is_valid())
        ordinals = own.column(c.ORDINAL).to_numpy()
        order = np.argsort(ordinals, kind="stable")
        self._ordinals = ordinals[order]
        own = own.take(pa.array(order))
        self._places = own.column(c.LONG_PLACE).to_numpy()
        self._values = own.column(c.LONG_VALUE).to_numpy()
        self._names = _Words(own.column(c.LONG_NAME))
        self._fields = _Words(own.column(c.LONG_FIELD))
        self._types = _Words(own.column(c.LONG_TYPE))

    def of(self, ordinal: int) -> dict[str, list[LongPoint]]:
        """The long points of a record, by the object they are members of."""
        start, end = np.searchsorted(self._ordinals, (ordinal, ordinal + 1))
        points: dict[str, list[LongPoint]] = {}
        for place, name, field, code, value in zip(
            self._places[start:end].tolist(),
            self._names.between(start, end),
            self._fields.between(start, end),
            self._types.between(start, end),
            self._values[start:end].tolist(),
            strict=True,
        ):
            key = name[len(_ABS_MAX) :] if field == "values" else name
            points.setdefault(field, []).append(LongPoint(place, key, _typed(value, code)))
        return points


class _Words:
    """A text column that repeats itself: each word once, and where it stands."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        encoded = column.dictionary_encode().combine_chunks()
        self._words: list[str] = encoded.dictionary.to_pylist()
        self._numbers = encoded.indices.to_numpy()

    def between(self, start: int, end: int) -> list[str]:
        return [self._words[number] for number in self._numbers[start:end].tolist()]


def plain_numbers(column: pa.ChunkedArray, *, absent: int) -> NDArray[Any]:
    """A number column as an array, with ``absent`` for null; without ``pyarrow.compute``."""
    if not column.null_count:
        found: NDArray[Any] = column.to_numpy()
        return found
    pieces = [np.zeros(0, dtype=_dtype(column.type))]
    for chunk in column.chunks:
        validity, values = chunk.buffers()
        if pa.types.is_boolean(column.type):
            numbers = _bits(values, chunk.offset, len(chunk))
        else:
            dtype = _dtype(column.type)
            start = chunk.offset * dtype.itemsize
            numbers = np.frombuffer(values, dtype, len(chunk), start).copy()
        if validity is not None:
            numbers[~_bits(validity, chunk.offset, len(chunk))] = absent
        pieces.append(numbers)
    return np.concatenate(pieces)


def _dtype(kind: pa.DataType) -> np.dtype[Any]:
    return np.dtype(_DTYPES[kind])


def _bits(buffer: pa.Buffer, start: int, count: int) -> NDArray[np.bool_]:
    bits = np.unpackbits(np.frombuffer(buffer, np.uint8), bitorder="little", count=start + count)
    return bits[start:].astype(np.bool_)


def _typed(value: float, code: str) -> float | int | bool:
    if code == "i":
        return int(value)
    return bool(value) if code == "b" else value


def _inside(document: Record, path: Path) -> Any:
    value: Any = document
    for name in path:
        value = value[name]
    return value
