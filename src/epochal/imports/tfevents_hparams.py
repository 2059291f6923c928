"""Reads what TensorBoard's hparams plugin keeps in the metadata of a summary."""

from __future__ import annotations

from typing import Any

from epochal.imports import protobuf
from epochal.imports.protobuf import BYTES, FIXED64, VARINT, Field
from epochal.records import Record

_STATUS = {1: "success", 2: "failure", 3: "running"}
_MAX_DEPTH = 20


def hparam_records(content: bytes, t: float) -> list[Record]:
    """One ``option`` per hyperparameter; the end of a session is an event.

    The end is no ``finish``: some writers note it in the same call as the hyperparameters.
    """
    records: list[Record] = []
    for part in protobuf.fields(content):
        if (part.tag, part.wire) == (3, BYTES):
            records += _start_records(content, part, t)
        elif (part.tag, part.wire) == (4, BYTES):
            inner = {f.tag: f for f in protobuf.fields(content, part.start, part.end)}
            status = _STATUS.get(inner[1].number if 1 in inner else 0, "unknown")
            records.append({"log": "event", "t": t, "name": "session-end", "status": status})
    return records


def _start_records(content: bytes, start: Field, t: float) -> list[Record]:
    records: list[Record] = []
    for part in protobuf.fields(content, start.start, start.end):
        if part.wire != BYTES:
            continue
        if part.tag == 1:
            inner = {f.tag: f for f in protobuf.fields(content, part.start, part.end)}
            name = protobuf.text(content, inner[1]) if 1 in inner else ""
            value = _value(content, inner[2], 0) if 2 in inner else None
            records.append({"log": "option", "t": t, "name": name, "value": value})
        elif part.tag == 4 and part.start < part.end:
            group = protobuf.text(content, part)
            records.append({"log": "event", "t": t, "name": "hparams-group", "group": group})
    return records


def _value(data: bytes, field: Field, depth: int) -> Any:
    """A ``google.protobuf.Value``; whole numbers come back as such."""
    found: Any = None
    for part in protobuf.fields(data, field.start, field.end):
        if (part.tag, part.wire) == (2, FIXED64):
            number = protobuf.double(data, part)
            found = int(number) if number.is_integer() and abs(number) < 2**53 else number
        elif (part.tag, part.wire) == (3, BYTES):
            found = protobuf.text(data, part)
        elif (part.tag, part.wire) == (4, VARINT):
            found = bool(part.number)
        elif part.tag in (5, 6) and part.wire == BYTES and depth < _MAX_DEPTH:
            found = (_struct if part.tag == 5 else _list)(data, part, depth + 1)
    return found


def _struct(data: bytes, field: Field, depth: int) -> dict[str, Any]:
    found = {}
    for entry in protobuf.fields(data, field.start, field.end):
        if (entry.tag, entry.wire) == (1, BYTES):
            inner = {f.tag: f for f in protobuf.fields(data, entry.start, entry.end)}
            if 1 in inner and 2 in inner:
                found[protobuf.text(data, inner[1])] = _value(data, inner[2], depth)
    return found


def _list(data: bytes, field: Field, depth: int) -> list[Any]:
    return [
        _value(data, item, depth)
        for item in protobuf.fields(data, field.start, field.end)
        if (item.tag, item.wire) == (1, BYTES)
    ]
