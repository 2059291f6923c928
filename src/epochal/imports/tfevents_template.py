"""Decodes events that contain only scalars, all events of one shape at once.

Events of one length mostly differ in the time, the step, the tag and the value only. The first of
them is parsed field by field, which gives the positions of these four and a mask for the rest.
Every other event that equals it under the mask is decoded by slicing columns.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from epochal.imports import protobuf
from epochal.imports.protobuf import BYTES, FIXED32, FIXED64, VARINT, Field, WireError

Bytes = NDArray[np.uint8]

SCALARS = "scalars"
_DT_FLOAT, _DT_DOUBLE = 1, 2
# Field of a tensor, by type: where its one value may lie besides the raw content.
_VALUE_FIELDS = {_DT_FLOAT: 5, _DT_DOUBLE: 6}
_SIZES = {_DT_FLOAT: 4, _DT_DOUBLE: 8}


class Slot(NamedTuple):
    """One value of an event: where its tag and its number lie."""

    tag_start: int
    tag_end: int
    value_start: int
    value_bytes: int


class Template(msgspec.Struct, frozen=True, eq=False):
    """The shape of an event of scalars, and the places of what varies."""

    mask: Bytes
    expected: Bytes
    time_start: int | None
    step: tuple[int, int] | None
    slots: tuple[Slot, ...]

    def matches(self, rows: Bytes) -> NDArray[np.bool_]:
        """Which rows have this shape."""
        agree: NDArray[np.bool_] = ((rows & self.mask) == self.expected).all(axis=1)
        return agree

    def times(self, rows: Bytes) -> NDArray[np.float64]:
        """Wall times in Unix seconds; 0 for events without one."""
        if self.time_start is None:
            return np.zeros(len(rows))
        return _numbers(rows, self.time_start, "<f8")

    def steps(self, rows: Bytes) -> NDArray[np.int64]:
        """Steps; 0 for events without one, which is how 0 is written."""
        steps = np.zeros(len(rows), dtype=np.uint64)
        if self.step is not None:
            for shift, column in enumerate(range(*self.step)):
                steps |= (rows[:, column] & np.uint8(0x7F)).astype(np.uint64) << np.uint64(
                    7 * shift
                )
        return steps.view(np.int64)

    @staticmethod
    def values(rows: Bytes, slot: Slot) -> NDArray[np.float64]:
        """The numbers of a slot; 32-bit floats are widened."""
        return _numbers(rows, slot.value_start, f"<f{slot.value_bytes}")

    @staticmethod
    def tags(rows: Bytes, slot: Slot) -> tuple[list[bytes], NDArray[np.int64]]:
        """The different tags of a slot, and which of them each row has."""
        return distinct(rows[:, slot.tag_start : slot.tag_end])


def template_of(event: bytes) -> Template | None:
    """The template an event gives; None when it is not scalars alone, or not plainly so."""
    try:
        return _parse(event)
    except WireError:
        return None


def distinct(cells: Bytes) -> tuple[list[bytes], NDArray[np.int64]]:
    """The different rows of a table of bytes, and which of them each row is."""
    count, width = cells.shape
    words = np.zeros((count, (width + 7) // 8 * 8), dtype=np.uint8)
    words[:, :width] = cells
    keys = words.view(np.uint64)
    if bool((keys == keys[0]).all()):
        return [cells[0].tobytes()], np.zeros(count, dtype=np.int64)
    mixed = keys[:, 0].copy()
    for column in range(1, keys.shape[1]):
        mixed = mixed * np.uint64(0x9E3779B97F4A7C15) + keys[:, column]
    _, first, which = np.unique(mixed, return_index=True, return_inverse=True)
    if not bool((keys[first][which] == keys).all()):  # two tags of one hash
        _, first, which = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    return [cells[row].tobytes() for row in first], which.reshape(-1)


def _parse(event: bytes) -> Template | None:
    mask = np.full(len(event), 0xFF, dtype=np.uint8)
    time_start: int | None = None
    step: tuple[int, int] | None = None
    slots: list[Slot] | None = None
    for field in protobuf.fields(event):
        if (field.tag, field.wire) == (1, FIXED64) and time_start is None:
            time_start = field.start
            mask[field.start : field.end] = 0
        elif (field.tag, field.wire) == (2, VARINT) and step is None:
            step = (field.start, field.end)
            mask[field.start : field.end] = 0x80
        elif (field.tag, field.wire) == (5, BYTES) and slots is None:
            slots = _summary_slots(event, field)
        else:
            return None
    if not slots:
        return None
    for slot in slots:
        mask[slot.tag_start : slot.tag_end] = 0
        mask[slot.value_start : slot.value_start + slot.value_bytes] = 0
    expected = np.frombuffer(event, dtype=np.uint8) & mask
    return Template(mask, expected, time_start, step, tuple(slots))


def _summary_slots(event: bytes, summary: Field) -> list[Slot] | None:
    slots = []
    for value in protobuf.fields(event, summary.start, summary.end):
        slot = _slot(event, value) if (value.tag, value.wire) == (1, BYTES) else None
        if slot is None:
            return None
        slots.append(slot)
    return slots


def _slot(event: bytes, value: Field) -> Slot | None:
    found: dict[int, Field] = {}
    for field in protobuf.fields(event, value.start, value.end):
        if field.tag in found:
            return None
        found[field.tag] = field
    tag, simple, tensor = found.get(1), found.get(2), found.get(8)
    if tag is None or tag.wire != BYTES or tag.start == tag.end or len(found.keys() & {2, 8}) != 1:
        return None
    if found.keys() - {1, 2, 7, 8, 9}:
        return None
    if 9 in found and not _is_plain(event, found[9]):
        return None
    if simple is not None:
        if simple.wire != FIXED32:
            return None
        return Slot(tag.start, tag.end, simple.start, 4)
    assert tensor is not None
    place = _tensor_number(event, tensor)
    return None if place is None else Slot(tag.start, tag.end, *place)


def _is_plain(event: bytes, metadata: Field) -> bool:
    """Whether a value's metadata names at most its plugin: titles and contents are worth a look."""
    if metadata.wire != BYTES:
        return False
    for field in protobuf.fields(event, metadata.start, metadata.end):
        if (field.tag, field.wire) == (1, BYTES):
            inner = {part.tag: part for part in protobuf.fields(event, field.start, field.end)}
            if 2 in inner and 1 in inner and protobuf.text(event, inner[1]) != SCALARS:
                return False
        elif field.wire == BYTES and field.start < field.end:
            return False
    return True


def _tensor_number(event: bytes, tensor: Field) -> tuple[int, int] | None:
    """Where the only number of a tensor without dimensions lies, and its size."""
    if tensor.wire != BYTES:
        return None
    found: dict[int, Field] = {}
    for field in protobuf.fields(event, tensor.start, tensor.end):
        if field.tag in found:
            return None
        found[field.tag] = field
    kind = found[1].number if 1 in found else 0
    if kind not in _SIZES or (2 in found and found[2].start != found[2].end):
        return None
    size, value = _SIZES[kind], _VALUE_FIELDS[kind]
    if found.keys() - {1, 2, 3, 4, value} or (4 in found) == (value in found):
        return None
    place = found[4] if 4 in found else found[value]
    return (place.start, size) if place.end - place.start == size else None


def _numbers(rows: Bytes, start: int, layout: str) -> NDArray[np.float64]:
    size = np.dtype(layout).itemsize
    cells = np.ascontiguousarray(rows[:, start : start + size])
    with np.errstate(invalid="ignore"):  # a signalling nan stays a nan
        numbers: NDArray[np.float64] = cells.view(layout)[:, 0].astype(np.float64)
    return numbers
