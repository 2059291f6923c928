"""Rows of runs as MessagePack, which has NaN and infinities, unlike JSON.

MessagePack has no integers beyond 64 bits, but a configuration may: NumPy makes seeds of 128 bits.
They are stored as an extension type, so that they are read back with every digit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

_LARGE_INTEGER = 1
_encoder = msgspec.msgpack.Encoder()


def pack(value: Any) -> bytes:
    """Encode a struct; the decoders of :func:`packed_decoder` read it."""
    try:
        return _encoder.encode(value)
    except OverflowError:
        return _encoder.encode(_with_extensions(value))


def packed_decoder(kind: type[T]) -> msgspec.msgpack.Decoder[T]:
    """A decoder of what :func:`pack` wrote."""
    return msgspec.msgpack.Decoder(kind, ext_hook=_integer)


def _with_extensions(value: Any) -> Any:
    if type(value) is int and not -(2**63) <= value < 2**64:
        digits = value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True)
        return msgspec.msgpack.Ext(_LARGE_INTEGER, digits)
    if isinstance(value, msgspec.Struct):
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        return msgspec.structs.replace(value, **_with_extensions(fields))
    if isinstance(value, Mapping):
        return {key: _with_extensions(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return [_with_extensions(item) for item in value]
    return value


def _integer(code: int, data: memoryview) -> int:
    if code != _LARGE_INTEGER:
        raise ValueError(f"extension type {code} is not known")
    return int.from_bytes(data, "big", signed=True)
