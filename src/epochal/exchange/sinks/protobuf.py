"""Writes protobuf messages field by field, as far as TensorBoard's files need it.

A message is the concatenation of its fields, so these return bytes to be joined. The encoding is
described at https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")
_MODULUS = 1 << 64
_ONE_BYTE = [bytes([number]) for number in range(0x80)]


def varint(number: int) -> bytes:
    """A whole number of up to 64 bits, seven of them a byte; a negative one takes ten bytes."""
    if 0 <= number < 0x80:
        return _ONE_BYTE[number]
    left = number % _MODULUS
    out = bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)


def whole(tag: int, number: int) -> bytes:
    """An int64, enum or bool field."""
    return varint(tag << 3 | _VARINT) + varint(number)


def double(tag: int, number: float) -> bytes:
    """A double field."""
    return varint(tag << 3 | _FIXED64) + _DOUBLE.pack(number)


def single(tag: int, number: float) -> bytes:
    """A float field; what is too large for 32 bits becomes infinite."""
    try:
        packed = _FLOAT.pack(number)
    except OverflowError:
        packed = _FLOAT.pack(float("inf") if number > 0 else float("-inf"))
    return varint(tag << 3 | _FIXED32) + packed


def doubles(tag: int, numbers: Iterable[float]) -> bytes:
    """A packed field of doubles."""
    return chunk(tag, b"".join(map(_DOUBLE.pack, numbers)))


def chunk(tag: int, data: bytes) -> bytes:
    """A bytes field, or a message within a message."""
    return varint(tag << 3 | _BYTES) + varint(len(data)) + data


def text(tag: int, value: str) -> bytes:
    """A string field; a lone surrogate, which UTF-8 cannot hold, is spelled out."""
    return chunk(tag, value.encode("utf-8", "backslashreplace"))
