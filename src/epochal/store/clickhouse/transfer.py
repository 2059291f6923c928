"""Moves a run between a folder and the tables, each time only what the other side does not have."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from epochal.atomic_file import replaced_file
from epochal.errors import FormatError
from epochal.journal.layout import RunFolder, json_bytes, parse_part_name, read_json
from epochal.journal.line import encode_json
from epochal.shipping.offering import PartCounts, labels_of, named_part, sizes
from epochal.shipping.protocol import BATCH_BYTES, is_file_name
from epochal.store.clickhouse.tables import IDENTITY, LABELS, SEALED, Tables


def send_run(tables: Tables, folder: RunFolder, counts: PartCounts) -> str:
    """Store what a folder has of a run and the tables have not; the id of the run."""
    identity = read_json(folder.identity)
    run_id = str(identity.get("id") or folder.path.name)
    send_facts(tables, run_id, folder, identity)
    send_parts(tables, run_id, folder, counts)
    for name, size in sizes(folder.blobs, "blobs").items():
        send_blob(tables, run_id, folder.blobs / name, size)
    for name in sizes(folder.live, "live"):
        with contextlib.suppress(FileNotFoundError):
            tables.put_live(run_id, name, (folder.live / name).read_bytes())
    return run_id


def send_facts(tables: Tables, run_id: str, folder: RunFolder, identity: Mapping[str, Any]) -> None:
    """Store identity and labels, where they differ from those that are stored."""
    known = {fact.key: fact.value for fact in tables.facts(run_id)}
    for key, value in ((IDENTITY, identity), (LABELS, labels_of(folder))):
        text = encoded(value)
        if text != known.get(key, "{}"):
            tables.put_fact(run_id, key, text)


def send_parts(tables: Tables, run_id: str, folder: RunFolder, counts: PartCounts) -> None:
    """Store the lines of journal parts and of segments that are not stored yet."""
    known = {count.part: count.lines for count in tables.parts(run_id)}
    for name in folder.sealed_parts():
        first = known.get(name.stem, 0)
        for lines in lines_of_segment(folder.sealed_path(name), first=first):
            tables.append(run_id, name.stem, first=first, lines=lines)
            first += lines.count(b"\n")
        tables.put_fact(run_id, f"{SEALED}{name.stem}", str(first))
    for name in folder.parts():
        first = known.get(name.stem, 0)
        while lines := counts.lines(folder.part_path(name), first):
            tables.append(run_id, name.stem, first=first, lines=lines)
            first += lines.count(b"\n")


def lines_of_segment(path: Path, *, first: int = 0) -> Iterator[bytes]:
    """The lines that were sealed into a segment without the first so many, in blocks."""
    left = first
    for block in _sealed_bytes(path):
        num_lines = block.count(b"\n")
        if num_lines <= left:
            left -= num_lines
            continue
        start = 0
        for _ in range(left):
            start = block.find(b"\n", start) + 1
        left = 0
        yield block[start:]


def num_sealed(path: Path) -> int:
    """How many records were sealed into a segment."""
    from epochal.segments.read import Segment

    with Segment(path) as segment:
        return segment.num_records


def identity_of(folder: RunFolder) -> str | None:
    """The identity of a run as it is stored; None where its file cannot be read."""
    try:
        return encoded(read_json(folder.identity))
    except (OSError, FormatError):
        return None


def _sealed_bytes(path: Path) -> Iterator[bytes]:
    """What the journal part held, in blocks of whole lines; damage stands where it stood."""
    from epochal.segments.read import Segment

    pieces: list[bytes] = []
    size = 0
    with Segment(path) as segment:
        damage: dict[int, list[bytes]] = {}
        for ordinal, text in segment.damage():
            damage.setdefault(ordinal, []).append(text)
        for ordinal, record in segment.records():
            pieces.extend(damage.pop(ordinal, ()))
            pieces.append(encode_json(record) + b"\n")
            size += len(pieces[-1])
            if size >= BATCH_BYTES:
                yield b"".join(pieces)
                pieces, size = [], 0
    pieces.extend(text for texts in damage.values() for text in texts)
    rest = b"".join(pieces)
    if rest:
        yield rest if rest.endswith(b"\n") else rest + b"\n"


def send_blob(
    tables: Tables, run_id: str, path: Path, size: int, *, name: str | None = None
) -> None:
    """Store a blob, unless it is stored already; its name is the file's unless given."""
    name = name or path.name
    if tables.blobs.sizes(run_id).get(name) != size:
        tables.blobs.put(run_id, name, path)


def fetch_parts(
    tables: Tables,
    run_id: str,
    folder: RunFolder,
    stored: Mapping[str, int],
    counts: PartCounts,
    *,
    changed_s: int,
) -> None:
    """Append to the parts of a folder what is stored beyond their lines.

    ``changed_s`` is when the run was last received, in Unix seconds: files say that.
    """
    for stem, num_lines in stored.items():
        name = named_part(stem)
        if folder.sealed_path(name).exists():
            continue
        path = folder.part_path(name)
        have, end = counts.whole(path)
        if have >= num_lines:
            continue
        folder.journal.mkdir(exist_ok=True)
        with open(path, "ab") as file:
            os.truncate(path, end)  # a copy that was interrupted ends within a line
            for block in tables.lines(run_id, stem, first=have, end=num_lines):
                file.write(block)
        if changed_s:
            os.utime(path, (changed_s, changed_s))


def fetch_blob(tables: Tables, run_id: str, folder: RunFolder, name: str) -> bool:
    """Have a blob in a folder; whether there is one of this name."""
    path = folder.blobs / name
    if not is_file_name("blobs", name) or path.is_file():
        return path.is_file()
    size = tables.blobs.sizes(run_id).get(name)
    if size is None:
        return False
    folder.blobs.mkdir(exist_ok=True)
    with replaced_file(path) as temporary, open(temporary, "wb") as out:
        for piece in tables.blobs.pieces(run_id, name, size=size):
            out.write(piece)
    return True


def fetch_live(tables: Tables, run_id: str, folder: RunFolder) -> None:
    """Have the newest readings of the machines of a run in its folder."""
    for name, value in tables.live(run_id).items():
        if is_file_name("live", name):
            folder.live.mkdir(exist_ok=True)
            with replaced_file(folder.live / name) as temporary:
                temporary.write_bytes(value.encode())


def write_changed(path: Path, value: Mapping[str, Any]) -> bool:
    """Write a JSON file unless it says the same already; whether it was written."""
    with contextlib.suppress(FileNotFoundError, FormatError):
        if read_json(path) == value:
            return False
    with replaced_file(path) as temporary:  # not made durable: the tables have it
        temporary.write_bytes(json_bytes(value) + b"\n")
    return True


def encoded(value: Mapping[str, Any]) -> str:
    """A JSON object as it is stored."""
    return msgspec.json.encode(value).decode()


def decoded(text: str) -> dict[str, Any]:
    """A JSON object that was stored."""
    found = msgspec.json.decode(text)
    return found if isinstance(found, dict) else {}


def is_part(stem: str) -> bool:
    """Whether a text can be the name of a part: it becomes a path."""
    return parse_part_name(f"{stem}.jsonl", ".jsonl") is not None
