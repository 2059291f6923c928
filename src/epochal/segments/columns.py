"""The columns of a segment: their names, their types, and how each is encoded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from epochal.segments.shape import NUMBERS, Path

LOG, ORDINAL, STEP, TIME, SHAPE, DOCUMENT = "log", "ordinal", "step", "t", "shape", "json"
LONG_NAME, LONG_VALUE = "long.name", "long.value"
LONG_AXIS, LONG_FIELD, LONG_PLACE, LONG_TYPE = "long.axis", "long.of", "long.place", "long.type"
DAMAGE = "damage"
FIXED: Mapping[str, pa.DataType] = {
    LOG: pa.string(),
    ORDINAL: pa.int64(),
    STEP: pa.int64(),
    TIME: pa.int64(),
    SHAPE: pa.int32(),
    DOCUMENT: pa.string(),
    LONG_NAME: pa.string(),
    LONG_AXIS: pa.string(),
    LONG_FIELD: pa.string(),
    LONG_PLACE: pa.int32(),
    LONG_TYPE: pa.string(),
    LONG_VALUE: pa.float64(),
    DAMAGE: pa.binary(),
}
# Other tools show these first, then the values, then what only this package needs.
_FIRST = (LOG, ORDINAL, STEP, TIME)
_SAMPLE = 4096
_FEW = 256
# Where a value repeats this often, a dictionary is smaller than the values' bytes.
_REPEATS = 16


def name_columns(paths: Iterable[Path]) -> dict[Path, str]:
    """A column name for each path: its names with dots, made unique without regard to case."""
    taken = {name.lower() for name in FIXED}
    names: dict[Path, str] = {}
    for path in paths:
        plain = "".join(c if c.isprintable() else "_" for c in ".".join(path)) or "_"
        name, number = plain, 2
        while name.lower() in taken:
            name, number = f"{plain}_{number}", number + 1
        taken.add(name.lower())
        names[path] = name
    return names


def column_type(codes: set[str], arrays: Iterable[NDArray[Any]]) -> pa.DataType:
    """The narrowest type that gives every value back; ``arrays`` are the values of a number."""
    if codes <= {"b"}:
        return pa.bool_()
    if codes <= {"i", "l", "b"}:
        return pa.int64()
    if codes <= NUMBERS:
        return pa.float32() if all(map(_is_float32, arrays)) else pa.float64()
    if codes == {"I"}:
        return pa.list_(pa.int64())
    return pa.list_(pa.float64()) if codes == {"F"} else pa.string()


def _is_float32(values: NDArray[Any]) -> bool:
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float32)
    return np.array_equal(narrow.astype(np.float64), values, equal_nan=True)


def schema_of(names: Mapping[Path, str], types: Mapping[Path, pa.DataType]) -> pa.Schema:
    """The schema of a segment with these value columns."""
    fixed = [pa.field(name, kind) for name, kind in FIXED.items()]
    values = [pa.field(name, types[path]) for path, name in names.items()]
    first = len(_FIRST)
    return pa.schema([*fixed[:first], *values, *fixed[first:]])


def writer_options(schema: pa.Schema, few_valued: set[str]) -> dict[str, Any]:
    """How to encode each column; ``few_valued`` names number columns that repeat themselves."""
    encodings: dict[str, str] = {}
    dictionaries: list[str] = []
    for column in schema:
        if column.name in few_valued or pa.types.is_string(column.type):
            if column.name != DOCUMENT:
                dictionaries.append(column.name)
            continue
        leaf, path = column.type, column.name
        if pa.types.is_list(leaf):
            leaf, path = leaf.value_type, f"{path}.list.element"
        if pa.types.is_floating(leaf):
            encodings[path] = "BYTE_STREAM_SPLIT"
        elif pa.types.is_integer(leaf):
            encodings[path] = "DELTA_BINARY_PACKED"
    return {
        "compression": "zstd",
        # Level 9 takes two and a half times as long for one byte in fifty.
        "compression_level": 3,
        "version": "2.6",
        # Every type is one that Parquet has itself.
        "store_schema": False,
        "write_page_checksum": True,
        "use_dictionary": dictionaries or False,
        "column_encoding": encodings or None,
        # Statistics cost a footer entry per column and group; steps are what ranges are asked of.
        "write_statistics": [STEP, TIME, ORDINAL, LONG_NAME],
    }


def has_few_values(values: NDArray[Any]) -> bool:
    """Whether a number column is better written as a dictionary; looks at a sample first."""
    if values.size < _SAMPLE:
        return False
    sample = values[:: max(1, values.size // _SAMPLE)]
    if _num_distinct(sample) > _FEW:
        return False
    return _num_distinct(values) * _REPEATS < values.size


def _num_distinct(values: NDArray[Any]) -> int:
    # np.unique imports numpy.ma first, which takes longer than this.
    ordered = np.sort(values)
    return 1 + int(np.count_nonzero(ordered[1:] != ordered[:-1]))
