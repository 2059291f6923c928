"""Reads protobuf messages field by field, without their definitions.

Only what the wire format itself says is known here: a field's number, its wire type and its bytes.
The encoding is described at https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cached_property

import msgspec

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_FLOATS = {FIXED64: "<d", FIXED32: "<f"}
_SIZES = {FIXED64: 8, FIXED32: 4}
_MAX_VARINT_BYTES = 10
_SIGN, _MODULUS = 1 << 63, 1 << 64


class WireError(ValueError):
    """Bytes that are no protobuf message; ``offset`` counts from the start of the message."""

    def __init__(self, what: str, offset: int) -> None:
        super().__init__(f"{what} at byte {offset} of the message")
        self.offset = offset


class Field(msgspec.Struct, eq=False, dict=True):
    """One field, or a whole message: ``start`` and ``end`` bound its value in ``data``.

    ``number`` is the value of a varint. A field that is missing, or has another wire type than it
    is read as, is empty: 0, "" or a message without fields. Fields of a message are read when one
    of them is asked for, which raises ``WireError`` if there is no message.
    """

    data: bytes
    start: int
    end: int
    tag: int = 0
    wire: int = BYTES
    number: int = 0

    @cached_property
    def inner(self) -> dict[int, list[Field]]:
        """The fields of the message by number, each list in the order written."""
        found: dict[int, list[Field]] = {}
        if self.wire == BYTES:
            for field in fields(self.data, self.start, self.end):
                found.setdefault(field.tag, []).append(field)
        return found

    def __contains__(self, tag: int) -> bool:
        return tag in self.inner

    def __getitem__(self, tag: int) -> Field:
        """The field of a number; the last one of a repeated field."""
        return self.inner[tag][-1] if tag in self.inner else Field(b"", 0, 0)

    def each(self, tag: int) -> list[Field]:
        """Every field of a number that has bytes."""
        return [field for field in self.inner.get(tag, ()) if field.wire == BYTES]

    @property
    def content(self) -> bytes:
        return self.data[self.start : self.end] if self.wire == BYTES else b""

    @property
    def text(self) -> str:
        """The bytes as text; invalid UTF-8 is replaced."""
        return self.content.decode("utf-8", "replace")

    @property
    def signed(self) -> int:
        """A varint as an int64 or int32."""
        return signed(self.number)

    @property
    def real(self) -> float:
        """A float or a double."""
        layout = _FLOATS.get(self.wire)
        return float(struct.unpack_from(layout, self.data, self.start)[0]) if layout else 0.0

    @property
    def seconds(self) -> float | None:
        """A ``google.protobuf.Timestamp`` in Unix seconds; None if there is none."""
        seconds, nanoseconds = self[1].signed, self[2].signed
        # Years 1900 to 2900: anything else is not a time at which a run was recorded.
        is_time = bool(self.data) and self.wire == BYTES and abs(seconds) < 2**35
        return seconds + nanoseconds / 1e9 if is_time else None


def message(data: bytes) -> Field:
    """The message that some bytes are."""
    return Field(data, 0, len(data))


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
        elif wire in _SIZES:
            finish = place + _SIZES[wire]
        else:
            raise WireError(f"wire type {wire}", place)
        if finish > stop:
            raise WireError("a field longer than its message", begin)
        yield Field(data, begin, finish, tag, wire, number)
        place = finish


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
