"""Reads the records of a W&B log: which fields mean what, and what they become."""

from __future__ import annotations

from typing import Any

from epochal.imports import protobuf
from epochal.imports.protobuf import BYTES, FIXED64, VARINT, Field
from epochal.imports.values import json_value

# The field of a record that says what it is.
HISTORY, SUMMARY, OUTPUT, CONFIG, STATS, ALERT, METRIC = 2, 3, 4, 5, 7, 10, 12
OUTPUT_RAW, RUN, EXIT, PREEMPTING = 13, 17, 18, 23
KINDS = (HISTORY, SUMMARY, OUTPUT, CONFIG, STATS, ALERT, METRIC, OUTPUT_RAW, RUN, EXIT, PREEMPTING)
_VALUE_JSON, _KEY, _NESTED_KEY = 16, 1, 2


def kind_of(data: bytes) -> Field | None:
    """The payload of a record; None for kinds that are not imported."""
    return next((f for f in protobuf.fields(data) if f.tag in KINDS and f.wire == BYTES), None)


def parts_of(data: bytes, part: Field) -> dict[int, Field]:
    """The fields of a message by number; of a repeated one the last."""
    return {inner.tag: inner for inner in protobuf.fields(data, part.start, part.end)}


def items_of(data: bytes, part: Field, *, tag: int) -> dict[str, Any]:
    """The items in a repeated field of a message, nested as their keys are; sorted by name.

    They are written in any order, which would make the same row look different every time. Bad
    JSON is left as text.
    """
    found: dict[str, Any] = {}
    items = [
        _item(data, item)
        for item in protobuf.fields(data, part.start, part.end)
        if item.tag == tag and item.wire == BYTES
    ]
    for keys, value in sorted(items, key=lambda item: item[0]):
        _put(found, keys or ("",), value)
    return found


def _put(found: dict[str, Any], keys: tuple[str, ...], value: Any) -> None:
    for key in keys[:-1]:
        inner = found.get(key)
        if not isinstance(inner, dict):
            inner = found[key] = {}
        found = inner
    found[keys[-1]] = value


def text_at(data: bytes, parts: dict[int, Field], tag: int) -> str | None:
    """A text field, None when it is missing or empty."""
    part = parts.get(tag)
    return protobuf.text(data, part) or None if part is not None and part.wire == BYTES else None


def time_at(data: bytes, parts: dict[int, Field], tag: int) -> float | None:
    """A time field in Unix seconds."""
    part = parts.get(tag)
    return protobuf.timestamp(data, part) if part is not None and part.wire == BYTES else None


def _item(data: bytes, item: Field) -> tuple[tuple[str, ...], Any]:
    keys: list[str] = []
    value: Any = None
    for field in protobuf.fields(data, item.start, item.end):
        if field.tag in (_KEY, _NESTED_KEY) and field.wire == BYTES:
            keys.append(protobuf.text(data, field))
        elif field.wire == BYTES and field.tag in (8, _VALUE_JSON):
            value = _json(data[field.start : field.end])
        elif field.wire == BYTES and field.tag == 7:
            value = protobuf.text(data, field)
        elif field.wire == VARINT and field.tag == 4:
            value = bool(field.number)
        elif field.wire == VARINT and field.tag == 5:
            value = (field.number >> 1) ^ -(field.number & 1)  # signs are folded into the last bit
        elif field.wire == FIXED64 and field.tag == 6:
            value = protobuf.double(data, field)
    return tuple(keys), value


def _json(text: bytes) -> Any:
    try:
        return json_value(text)
    except (ValueError, RecursionError):
        return text.decode("utf-8", "replace")
