"""Writes a planned part as one Parquet file."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path as FilePath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from epochal.journal.line import encode_json
from epochal.segments import columns as c
from epochal.segments.collect import Collected
from epochal.segments.contents import Contents
from epochal.segments.footer import FOOTER_KEY
from epochal.segments.kept import Rows, catalogue, make_footer
from epochal.segments.long import NO_NUMBER, NO_PLACE, LongKey, LongSeries
from epochal.segments.plan import Piece, Plan, times_of
from epochal.segments.shape import VALUED, Path, Shape

# A kind with this many records gets row groups of its own; the others share one.
_OWN_GROUP_ROWS = 4096
_LONG_GROUP_ROWS = 1_000_000
# A row group has at most so many rows, and fewer where they have many columns: readers of records
# hold one of each kind.
_GROUP_ROWS = 128 * 1024
_GROUP_CELLS = 4_000_000
# pyarrow's own to_pandas_dtype() imports pandas in some of its versions.
_NUMPY_OF_ARROW = {
    pa.bool_(): np.bool_,
    pa.int64(): np.int64,
    pa.float32(): np.float32,
    pa.float64(): np.float64,
}


def write_segment(path: FilePath, found: Collected, plan: Plan, *, part: str) -> None:
    """Write everything of a part to a new file."""
    shapes = {piece.shape: 0 for piece in plan.pieces}
    shapes = {shape: number for number, shape in enumerate(shapes)}
    rows = [_rows_of(piece, shapes) for piece in plan.pieces]
    names = c.name_columns(plan.codes)
    arrays = _numbers_by_path(rows, plan.codes)
    types = {path: c.column_type(codes, arrays[path]) for path, codes in plan.codes.items()}
    few_valued = {
        names[path]
        for path, pieces in arrays.items()
        if pieces and c.has_few_values(np.concatenate(pieces))
    }
    rows += list(_document_rows(found))
    parted = [(kinds, _group_rows(rows, kinds)) for kinds in _groups(rows)]
    groups = [kinds for kinds, at_once in parted for _ in range(_num_groups(rows, kinds, at_once))]
    contents = _contents(found, part, names, shapes, rows, groups)
    footer = make_footer(found, plan, rows, contents.series)
    schema = c.schema_of(names, types)
    with pq.ParquetWriter(path, schema, **c.writer_options(schema, few_valued)) as writer:
        for kinds, at_once in parted:
            members = [piece for piece in rows if piece.kind in kinds]
            _write_group(writer, schema, _record_columns(members, names, types), at_once)
        for columns in _trailing_columns(found):
            _write_group(writer, schema, columns)
        # Metadata of the schema would be written twice, once of it in base64.
        writer.add_key_value_metadata({**contents.metadata(), FOOTER_KEY: footer.encode()})


def _write_group(
    writer: pq.ParquetWriter,
    schema: pa.Schema,
    given: Mapping[str, pa.Array],
    at_once: int | None = None,
) -> None:
    """Write rows as one row group, or as several of so many rows."""
    size = len(given[c.ORDINAL])
    # Columns without a value share one array of a type: there may be hundreds, and many rows.
    absent = {kind: pa.nulls(size, kind) for kind in {column.type for column in schema}}
    arrays = [given.get(column.name, absent[column.type]) for column in schema]
    table = pa.Table.from_arrays(arrays, schema=schema)
    writer.write_table(table, row_group_size=at_once or max(size, 1))


# -- records --------------------------------------------------------------------------------------


def _rows_of(piece: Piece, shapes: Mapping[Shape, int]) -> Rows:
    valued = [
        (path, code)
        for path, code in zip(piece.shape.paths(), piece.shape.codes, strict=True)
        if code in VALUED
    ]
    found: dict[Path, tuple[str, Any]] = {
        path: (code, values) for (path, code), values in zip(valued, piece.cells, strict=True)
    }
    size = len(piece.ordinals)
    code, steps = found.get(("step",), ("", []))
    documents = {path: values for path, (code, values) in found.items() if code == "j"}
    return Rows(
        kind=piece.shape.kind,
        shape=shapes[piece.shape],
        ordinals=piece.ordinals,
        steps=np.asarray(steps) if code == "s" else np.full(size, NO_NUMBER),
        milliseconds=times_of(found, size),
        cells={path: values for path, (code, values) in found.items() if code not in "tTsj"},
        documents=_json_texts(documents, size) if documents else None,
    )


def _json_texts(fields: Mapping[Path, list[Any]], size: int) -> list[str]:
    """For each record, one JSON object of the fields that have no column."""
    texts = []
    for row in range(size):
        document: dict[str, Any] = {}
        for path, values in fields.items():
            inner = document
            for name in path[:-1]:
                inner = inner.setdefault(name, {})
            inner[path[-1]] = values[row]
        texts.append(encode_json(document).decode())
    return texts


def _document_rows(found: Collected) -> Iterator[Rows]:
    by_kind: dict[str, list[Any]] = {}
    for document in found.documents:
        by_kind.setdefault(document.kind, []).append(document)
    for kind, documents in by_kind.items():
        yield Rows(
            kind=kind,
            shape=None,
            ordinals=np.array([d.ordinal for d in documents], dtype=np.int64),
            steps=_whole([d.step for d in documents]),
            milliseconds=_whole([d.milliseconds for d in documents]),
            cells={},
            documents=[d.text for d in documents],
        )


def _whole(numbers: list[int | None]) -> NDArray[np.int64]:
    return np.array([NO_NUMBER if n is None else n for n in numbers], dtype=np.int64)


def _numbers_by_path(
    rows: Iterable[Rows], codes: Mapping[Path, set[str]]
) -> dict[Path, list[NDArray[Any]]]:
    numbers: dict[Path, list[NDArray[Any]]] = {path: [] for path in codes}
    for piece in rows:
        for path, values in piece.cells.items():
            if isinstance(values, np.ndarray):
                numbers[path].append(values)
    return numbers


def _groups(rows: Iterable[Rows]) -> list[tuple[str, ...]]:
    sizes: Counter[str] = Counter()
    for piece in rows:
        sizes[piece.kind] += len(piece.ordinals)
    own: list[tuple[str, ...]] = [
        (kind,) for kind, size in sizes.items() if size >= _OWN_GROUP_ROWS
    ]
    shared = tuple(kind for kind, size in sizes.items() if size < _OWN_GROUP_ROWS)
    return [*own, shared] if shared else own


def _group_rows(rows: Iterable[Rows], kinds: Collection[str]) -> int:
    """How many rows of some kinds a row group has at most."""
    paths = {path for piece in rows if piece.kind in kinds for path in piece.cells}
    return max(_OWN_GROUP_ROWS, min(_GROUP_ROWS, _GROUP_CELLS // (len(paths) + 1)))


def _num_groups(rows: Iterable[Rows], kinds: Collection[str], at_once: int) -> int:
    size = sum(len(piece.ordinals) for piece in rows if piece.kind in kinds)
    return -(-size // at_once)


def _record_columns(
    rows: list[Rows], names: Mapping[Path, str], types: Mapping[Path, pa.DataType]
) -> dict[str, pa.Array]:
    """The columns of one row group, its records in file order."""
    ordinals = np.concatenate([piece.ordinals for piece in rows])
    order = np.argsort(ordinals, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(order.size)
    starts = np.cumsum([0, *(len(piece.ordinals) for piece in rows)])
    places = [place[start:end] for start, end in itertools.pairwise(starts)]
    kinds = [piece.kind for piece in rows]
    distinct = list(dict.fromkeys(kinds))
    kind_numbers = np.repeat(
        [distinct.index(kind) for kind in kinds], [len(piece.ordinals) for piece in rows]
    )[order]
    shape_numbers = np.repeat(
        [-1 if piece.shape is None else piece.shape for piece in rows],
        [len(piece.ordinals) for piece in rows],
    )[order]
    made = {
        c.LOG: pa.repeat(distinct[0], order.size)
        if len(distinct) == 1
        else pa.array([distinct[number] for number in kind_numbers.tolist()]),
        c.ORDINAL: pa.array(ordinals[order]),
        c.STEP: _whole_numbers([piece.steps for piece in rows], order),
        c.TIME: _whole_numbers([piece.milliseconds for piece in rows], order),
        c.SHAPE: pa.array(shape_numbers.astype(np.int32), mask=shape_numbers < 0),
    }
    documents = [
        (places[i], piece.documents) for i, piece in enumerate(rows) if piece.documents is not None
    ]
    if documents:
        made[c.DOCUMENT] = _objects(documents, order.size, pa.string())
    for path, name in names.items():
        pieces = [
            (places[i], piece.cells[path]) for i, piece in enumerate(rows) if path in piece.cells
        ]
        if pieces:
            made[name] = _values(pieces, order.size, types[path])
    return made


def _whole_numbers(pieces: list[NDArray[np.int64]], order: NDArray[np.intp]) -> pa.Array:
    numbers = np.concatenate(pieces)[order]
    return pa.array(numbers, mask=numbers == NO_NUMBER)


def _values(
    pieces: Sequence[tuple[NDArray[np.intp], Any]], size: int, kind: pa.DataType
) -> pa.Array:
    if pa.types.is_string(kind) or pa.types.is_list(kind):
        return _objects(pieces, size, kind)
    values: NDArray[Any] = np.zeros(size, dtype=_NUMPY_OF_ARROW[kind])
    absent = np.ones(size, dtype=np.bool_)
    for places, numbers in pieces:
        values[places] = numbers
        absent[places] = False
    # from_pandas would make a NaN a null; here they are two things.
    return pa.array(values, type=kind, mask=absent if absent.any() else None, from_pandas=False)


def _objects(
    pieces: Sequence[tuple[NDArray[np.intp], Sequence[Any]]], size: int, kind: pa.DataType
) -> pa.Array:
    values: list[Any] = [None] * size
    for places, objects in pieces:
        for place, value in zip(places.tolist(), objects, strict=True):
            values[place] = value
    return pa.array(values, type=kind)


# -- long points and damage -----------------------------------------------------------------------


def _trailing_columns(found: Collected) -> Iterator[dict[str, pa.Array]]:
    batch: list[tuple[LongKey, LongSeries]] = []
    size = 0
    for key, series in found.long:
        batch.append((key, series))
        size += len(series.values)
        if size >= _LONG_GROUP_ROWS:
            yield _long_columns(batch)
            batch, size = [], 0
    if batch:
        yield _long_columns(batch)
    if found.damage:
        yield {
            c.ORDINAL: pa.array([damage.ordinal for damage in found.damage], pa.int64()),
            c.DAMAGE: pa.array([damage.text for damage in found.damage], pa.binary()),
        }


def _long_columns(batch: list[tuple[LongKey, LongSeries]]) -> dict[str, pa.Array]:
    counts = [len(series.values) for _, series in batch]

    def in_a_row(field: str, kind: type[Any]) -> NDArray[Any]:
        return np.frombuffer(b"".join([getattr(series, field) for _, series in batch]), dtype=kind)

    ordinals = in_a_row("ordinals", np.int64)
    # By series, and those of one series by ordinal.
    order = np.lexsort((ordinals, np.repeat(np.arange(len(batch)), counts)))

    def joined(field: str, kind: type[Any]) -> NDArray[Any]:
        return in_a_row(field, kind)[order]

    def repeated(texts: list[str]) -> pa.Array:
        return pa.array(texts, pa.string()).take(pa.array(np.repeat(np.arange(len(texts)), counts)))

    places = joined("places", np.int64).astype(np.int32)
    steps, milliseconds = joined("steps", np.int64), joined("milliseconds", np.int64)
    codes = joined("codes", np.uint8)
    letters, letter_numbers = np.unique(codes, return_inverse=True)
    return {
        c.ORDINAL: pa.array(ordinals[order]),
        c.STEP: pa.array(steps, mask=steps == NO_NUMBER),
        c.TIME: pa.array(milliseconds, mask=milliseconds == NO_NUMBER),
        c.LONG_NAME: repeated([key.name for key, _ in batch]),
        c.LONG_AXIS: repeated([key.axis for key, _ in batch]),
        c.LONG_FIELD: repeated([key.field for key, _ in batch]),
        c.LONG_PLACE: pa.array(places, mask=places == NO_PLACE),
        c.LONG_TYPE: pa.array([chr(letter) for letter in letters]).take(pa.array(letter_numbers)),
        c.LONG_VALUE: pa.array(joined("values", np.float64), from_pandas=False),
    }


# -- contents -------------------------------------------------------------------------------------


def _contents(
    found: Collected,
    part: str,
    names: Mapping[Path, str],
    shapes: Mapping[Shape, int],
    rows: list[Rows],
    groups: list[tuple[str, ...]],
) -> Contents:
    kinds: Counter[str] = Counter()
    lowest: list[int] = []
    highest: list[int] = []
    for piece in rows:
        kinds[piece.kind] += len(piece.ordinals)
        steps = piece.steps[piece.steps != NO_NUMBER]
        if steps.size:
            lowest.append(int(steps.min()))
            highest.append(int(steps.max()))
    return Contents(
        part=part,
        num_records=found.num_records,
        num_damaged=found.num_damaged,
        journal_bytes=found.journal_bytes,
        first_step=min(lowest, default=None),
        last_step=max(highest, default=None),
        kinds=kinds,
        columns=names,
        shapes=tuple(shapes),
        groups=tuple(groups),
        series=catalogue(rows, found.long),
    )
