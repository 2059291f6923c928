"""Writes event files and W&B logs byte by byte, for shapes that no golden file has."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from pathlib import Path

from epochal.exchange.event_file import masked_of_bytes

BLOCK = 32768


def varint(number: int) -> bytes:
    number %= 1 << 64
    encoded = b""
    while number >= 0x80:
        encoded += bytes([number & 0x7F | 0x80])
        number >>= 7
    return encoded + bytes([number])


def field(tag: int, content: bytes | str) -> bytes:
    """A field of bytes."""
    data = content.encode() if isinstance(content, str) else content
    return varint(tag << 3 | 2) + varint(len(data)) + data


def scalar(tag: str, value: float, *, step: int, t: float = 0.0) -> bytes:
    """An event with one plain scalar, as torch writes it."""
    summary = field(1, field(1, tag) + b"\x15" + struct.pack("<f", value))
    return event(field(5, summary), step=step, t=t)


def event(content: bytes, *, step: int = 0, t: float = 0.0) -> bytes:
    at = b"\x10" + varint(step) if step else b""
    return b"\x09" + struct.pack("<d", t) + at + content


def frame(data: bytes) -> bytes:
    """A record of an event file."""
    length = struct.pack("<Q", len(data))
    checks = [struct.pack("<I", masked_of_bytes(text)) for text in (length, data)]
    return length + checks[0] + data + checks[1]


def write_events(folder: Path, events: Iterable[bytes], *, name: str = "tfevents.1.host") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"events.out.{name}"
    with open(path, "ab") as file:
        file.writelines(map(frame, events))
    return path


def leveldb(records: Iterable[bytes]) -> bytes:
    """A W&B log that holds these records."""
    text = b":W&B" + struct.pack("<HB", 0xBEE1, 0)
    for record in records:
        rest, is_first = record, True
        while is_first or rest:
            room = BLOCK - len(text) % BLOCK
            if room < 7:
                text += bytes(room)
                continue
            piece, rest = rest[: room - 7], rest[room - 7 :]
            kind = (1 if is_first else 4) if not rest else (2 if is_first else 3)
            checked = bytes([kind]) + piece
            text += struct.pack("<IH", zlib.crc32(checked), len(piece)) + checked
            is_first = False
    return text
