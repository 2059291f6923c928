"""Reads protobuf messages field by field, without their definitions.

Only what the wire format itself says is known here: a field's number, its wire type and its bytes.
The encoding is described at https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_MAX_VARINT_BYTES = 10
_SIGN, _MODULUS = 1 << 63, 1 << 64


class WireError(ValueError):
    """Bytes that are no protobuf message; ``offset`` counts from the start of the message."""

    def __init__(self, what: str, offset: int) -> None:
        super().__init__(f"{what} at byte {offset} of the message")
        self.offset = offset


class Field(NamedTuple):
    """One field: ``start`` and ``end`` bound its value, ``number`` is the value of a varint."""

    tag: int
    wire: int
    start: int
    end: int
    number: int = 0


def fields(data: bytes, start: int = 0, end: int | None = None) -> Iterator[Field]:
    """The fields of the message between two places; raises ``WireError``."""
    place, stop = start, len(data) if end is None else end
    while place < stop:
        key, place = varint(data, place, stop)
        tag, wire = key >> 3, key & 7
        if tag == 0:
            raise WireError("a field of number 0", place)
        number, begin = 0, place
        if wire == VARINT:
            number, finish = varint(data, place, stop)
        elif wire == BYTES:
            length, begin = varint(data, place, stop)
            finish = begin + length
        elif wire == FIXED32:
            finish = place + 4
        elif wire == FIXED64:
            finish = place + 8
        else:
            raise WireError(f"wire type {wire}", place)
        if finish > stop:
            raise WireError("a field longer than its message", begin)
        yield Field(tag, wire, begin, finish, number)
        place = finish


def by_tag(data: bytes, field: Field) -> dict[int, Field]:
    """The fields of a message by number; of a repeated one the last."""
    return {inner.tag: inner for inner in fields(data, field.start, field.end)}


def varint(data: bytes, place: int, stop: int) -> tuple[int, int]:
    """The number at a place, unsigned, and the place after it; raises ``WireError``."""
    number = shift = 0
    for at in range(place, min(stop, place + _MAX_VARINT_BYTES)):
        byte = data[at]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number % _MODULUS, at + 1
        shift += 7
    raise WireError("a number without an end", place)


def signed(number: int) -> int:
    """An unsigned varint as an int64 or int32."""
    return number - _MODULUS if number >= _SIGN else number


def text(data: bytes, field: Field) -> str:
    """A string field; invalid UTF-8 is replaced."""
    return data[field.start : field.end].decode("utf-8", "replace")


def double(data: bytes, field: Field) -> float:
    """A double field; 0 where the field is of another type."""
    return _unpacked("<d", data, field) if field.wire == FIXED64 else 0.0


def single(data: bytes, field: Field) -> float:
    """A float field; 0 where the field is of another type."""
    return _unpacked("<f", data, field) if field.wire == FIXED32 else 0.0


def timestamp(data: bytes, field: Field) -> float | None:
    """A ``google.protobuf.Timestamp`` in Unix seconds."""
    seconds = nanoseconds = 0
    for inner in fields(data, field.start, field.end):
        if inner.tag == 1:
            seconds = signed(inner.number)
        elif inner.tag == 2:
            nanoseconds = signed(inner.number)
    # Years 1900 to 2900: anything else is not a time at which a run was recorded.
    return seconds + nanoseconds / 1e9 if abs(seconds) < 2**35 else None


def _unpacked(layout: str, data: bytes, field: Field) -> float:
    number: float = struct.unpack_from(layout, data, field.start)[0]
    return number
