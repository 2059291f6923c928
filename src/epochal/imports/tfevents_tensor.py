"""Reads the ``TensorProto`` of a TensorBoard summary: numbers as an array, strings as bytes."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from epochal.imports import protobuf
from epochal.imports.protobuf import BYTES, FIXED32, FIXED64, VARINT, Field, WireError

_STRING, _BFLOAT16, _HALF = 7, 14, 19
# Number of a type: how its raw content is laid out, and the field that else holds its values.
_TYPES: dict[int, tuple[str, int]] = {
    1: ("<f4", 5),
    2: ("<f8", 6),
    3: ("<i4", 7),
    4: ("<u1", 7),
    5: ("<i2", 7),
    6: ("<i1", 7),
    9: ("<i8", 10),
    10: ("?", 11),
    _BFLOAT16: ("<u2", 13),
    17: ("<u2", 7),
    _HALF: ("<f2", 13),
    22: ("<u4", 16),
    23: ("<u8", 17),
}
_MAX_DIMENSIONS = 32
_MAX_FILLED = 1_000_000


class Tensor(msgspec.Struct, frozen=True, eq=False):
    """A tensor of numbers or of strings; the other of the two is empty."""

    shape: tuple[int, ...]
    numbers: NDArray[Any]
    strings: tuple[bytes, ...] = ()
    is_text: bool = False


def read_tensor(data: bytes, field: Field) -> Tensor | None:
    """The tensor in a field; None for types other than numbers and strings."""
    kind, shape = 0, tuple[int, ...]()
    values: list[Field] = []
    for inner in protobuf.fields(data, field.start, field.end):
        if inner.tag == 1 and inner.wire == VARINT:
            kind = inner.number
        elif inner.tag == 2 and inner.wire == BYTES:
            shape = _shape(data, inner)
        else:
            values.append(inner)
    if kind == _STRING:
        strings = tuple(data[v.start : v.end] for v in values if (v.tag, v.wire) == (8, BYTES))
        return Tensor(shape, np.zeros(0), strings, is_text=True)
    if kind not in _TYPES:
        return None
    return Tensor(shape, _shaped(_numbers(data, kind, values), shape, field))


def _shape(data: bytes, field: Field) -> tuple[int, ...]:
    sizes = []
    for dimension in protobuf.fields(data, field.start, field.end):
        if (dimension.tag, dimension.wire) == (2, BYTES):
            size = 0  # how 0 is written
            for inner in protobuf.fields(data, dimension.start, dimension.end):
                if inner.tag == 1:
                    size = protobuf.signed(inner.number)
            sizes.append(size)
    if len(sizes) > _MAX_DIMENSIONS or any(size < 0 for size in sizes):
        raise WireError("a tensor of impossible shape", field.start)
    return tuple(sizes)


def _numbers(data: bytes, kind: int, values: list[Field]) -> NDArray[Any]:
    layout, listed = _TYPES[kind]
    size = np.dtype(layout).itemsize
    content = b"".join(data[v.start : v.end] for v in values if (v.tag, v.wire) == (4, BYTES))
    if content:
        return _widened(kind, np.frombuffer(content[: len(content) // size * size], dtype=layout))
    raw = [number for v in values if v.tag == listed for number in _listed(data, v, layout)]
    if kind in (_HALF, _BFLOAT16):  # 16 bits in the low half of an int32
        return _widened(kind, np.array([n & 0xFFFF for n in raw], dtype="<u2").view(layout))
    if np.dtype(layout).kind in "iu":
        bits = 8 * size
        wrapped = np.array([n % (1 << bits) for n in raw], dtype=f"<u{size}")
        return wrapped.view(layout)
    return np.array(raw, dtype=np.float64)


def _listed(data: bytes, value: Field, layout: str) -> list[Any]:
    """The numbers of a repeated field, packed or one by one."""
    if value.wire == FIXED32:
        return [protobuf.single(data, value)]
    if value.wire == FIXED64:
        return [protobuf.double(data, value)]
    if value.wire == VARINT:
        return [value.number]
    text = data[value.start : value.end]
    if layout in ("<f4", "<f8"):
        size = int(layout[2])
        floats: list[Any] = np.frombuffer(text[: len(text) // size * size], dtype=layout).tolist()
        return floats
    numbers, place = [], 0
    while place < len(text):
        number, place = protobuf.varint(text, place, len(text))
        numbers.append(number)
    return numbers


def _widened(kind: int, numbers: NDArray[Any]) -> NDArray[Any]:
    if kind == _BFLOAT16:
        return (numbers.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return numbers


def _shaped(numbers: NDArray[Any], shape: tuple[int, ...], field: Field) -> NDArray[Any]:
    """The numbers in their shape; missing ones equal the last, or 0 if there is none."""
    wanted = 1
    for size in shape:
        wanted *= size
    if len(numbers) == wanted:
        return numbers.reshape(shape)
    # A short message that claims to hold billions must not make us hold them.
    if len(numbers) < wanted <= _MAX_FILLED:
        last = numbers[-1] if len(numbers) else 0
        rest = np.full(wanted - len(numbers), last, dtype=numbers.dtype)
        return np.concatenate([numbers, rest]).reshape(shape)
    raise WireError("a tensor whose shape does not fit its values", field.start)
