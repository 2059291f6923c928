"""The block summaries of a segment: one section for each long series.

The sections lie between the last page and the metadata of the file, where readers of Parquet do not
look. So a list of runs does not read them, and a chart reads those of its series only.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from epochal.journal.segments.content import PartContent
from epochal.journal.segments.footer import Section
from epochal.records import Axis
from epochal.series.blocks import BLOCK_POINTS, blocks_of
from epochal.series.downsample import Table, block_type, mark_type

# The points of a shorter series are read as quickly.
_FEWEST_POINTS = 8 * BLOCK_POINTS
_LENGTHS = struct.Struct("<II")
# The columns of positions that are close to that of the first point of their block.
_NEAR = slice(1, 6)


def write_blocks(file: BinaryIO, content: PartContent) -> Iterator[Section]:
    """Write the block summaries of every series that is long and ascends."""
    if content.num_records < _FEWEST_POINTS:
        return
    for number, key in enumerate(content.numbers):
        series, ordinals = content.numbers.points(key)
        if len(series) < _FEWEST_POINTS:
            continue
        blocks = blocks_of(series) if bool(np.all(ordinals[:-1] < ordinals[1:])) else None
        if blocks is not None:
            text = _encode(blocks.rows, blocks.marks, ordinals[::BLOCK_POINTS])
            yield Section(number, file.tell(), len(text), zlib.crc32(text))
            file.write(text)


def decode_section(text: bytes, axis: Axis) -> tuple[Table, Table, NDArray[np.int64]]:
    """The rows and the marks of the blocks, and the ordinal of the first record of each."""
    steps = np.dtype(np.float64 if axis == "time" else np.int64)
    kind, mark_kind = block_type(steps), mark_type(steps)
    num_rows, num_marks = _LENGTHS.unpack_from(text)
    packed = zlib.decompress(text[_LENGTHS.size :])
    size = num_rows * (kind.itemsize + 8)
    columns = _unpacked(packed[:size], (-1, num_rows))
    marks = _unpacked(packed[size:], (2, num_marks))
    columns[_NEAR] += columns[0]
    return _rows(columns[:-1], kind), _rows(marks, mark_kind), columns[-1]


def _encode(rows: Table, marks: Table, ordinals: NDArray[np.int64]) -> bytes:
    """The numbers of blocks as 64 bits each, as differences where these are small."""
    columns = np.vstack([_columns(rows), ordinals])
    columns[_NEAR] -= columns[0]
    text = _packed(columns) + _packed(_columns(marks))
    return _LENGTHS.pack(len(rows), len(marks)) + zlib.compress(text, 3)


def _columns(rows: Table) -> NDArray[np.int64]:
    """The bits of each field, one row for each."""
    bits: NDArray[np.int64] = rows.view(np.int64).reshape(-1, rows.dtype.itemsize // 8)
    return bits.T


def _rows(columns: NDArray[np.int64], kind: np.dtype[Any]) -> Table:
    return np.ascontiguousarray(columns.T).view(kind)[:, 0]


def _packed(columns: NDArray[np.int64]) -> bytes:
    """Columns as differences from row to row; the first bytes of all numbers, then the second."""
    steps = np.ascontiguousarray(np.diff(columns, axis=1, prepend=0), dtype="<i8")
    return steps.view(np.uint8).reshape(*steps.shape, 8).swapaxes(1, 2).tobytes()


def _unpacked(text: bytes, shape: tuple[int, int]) -> NDArray[np.int64]:
    found = np.frombuffer(text, np.uint8).reshape(shape[0], 8, shape[1]).swapaxes(1, 2)
    steps = np.ascontiguousarray(found).view("<i8")[:, :, 0]
    return steps.cumsum(axis=1, dtype=np.int64)
