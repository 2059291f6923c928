"""Finds damage in a run folder and repairs it without losing a byte.

Readers do not need a repair: they skip a damaged line and stop before a torn tail. A repair is for
folders that will be kept. It truncates a tail that no writer will complete, and saves its bytes
beside the part with the suffix ``.damaged``. It writes a lost ``run.json`` again from the first
record of the journal. Damaged lines in the middle stay and are reported.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from epochal.errors import FormatError
from epochal.journal.layout import LOOP, PartName, RunFolder, read_json, write_json
from epochal.journal.process import liveness
from epochal.journal.reader import NewerFormatError, PartReader
from epochal.journal.regular_file import regular_only
from epochal.records import Record

Tail = Literal["torn", "nul"]
_IDENTITY_FIELDS = (
    "v",
    "id",
    "name",
    "project",
    "config",
    "host",
    "boot_id",
    "pid_namespace",
    "pid",
    "pid_start",
)
# A writer on another machine cannot be looked at; one that wrote this lately may go on.
_QUIET_S = 600.0
_CHUNK_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class PartDamage:
    """What is wrong with one part: damaged lines, and the bytes after the last whole record.

    ``tail`` is "torn" for an incomplete record, "nul" for data that the file system lost.
    ``problem`` is set for a part that cannot be read.
    """

    name: PartName
    num_records: int
    damaged_lines: int
    tail: Tail | None = None
    tail_at: int = 0
    tail_bytes: int = 0
    problem: str | None = None

    @property
    def is_whole(self) -> bool:
        """Whether there is nothing to report."""
        return not (self.damaged_lines or self.tail or self.problem)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What is wrong with a run folder; ``alive`` if a process may still be writing to it."""

    parts: tuple[PartDamage, ...]
    identity_problem: str | None
    identity: dict[str, Any] | None
    alive: bool

    @property
    def is_whole(self) -> bool:
        """Whether there is nothing to report."""
        return self.identity_problem is None and all(part.is_whole for part in self.parts)


def diagnose(folder: RunFolder) -> Diagnosis:
    """Read the whole folder and report damage; changes nothing."""
    headers: list[Record] = []
    ended: set[tuple[str, int]] = set()
    parts = tuple(_examine(folder, name, headers, ended) for name in folder.parts())
    unfinished = [part.name for part in parts if part.name[:2] not in ended]
    problem = _identity_problem(folder)
    return Diagnosis(
        parts=parts,
        identity_problem=problem,
        identity=None if problem is None else _identity_from(headers),
        alive=any(_may_be_written(folder.part_path(name), headers) for name in unfinished),
    )


def repair(folder: RunFolder, diagnosis: Diagnosis) -> list[str]:
    """Mend what the diagnosis found and say what was done, a sentence each.

    Raises ``FormatError`` while a process may still be writing: a torn tail may be on its way.
    """
    if diagnosis.alive:
        raise FormatError(f"{folder.path} is still being written to: repair it when the run ended.")
    return [*_cut_tails(folder, diagnosis), *_restore_identity(folder, diagnosis)]


def _examine(
    folder: RunFolder, name: PartName, headers: list[Record], ended: set[tuple[str, int]]
) -> PartDamage:
    path = folder.part_path(name)
    reader = PartReader(path, name)
    try:
        for position, record in reader.read():
            if position.ordinal == 0 and record.get("log") == "run":
                headers.append({**record, "part_name": name})
            elif record.get("log") == "finish":
                ended.add(name[:2])
        size = path.stat().st_size
    except (OSError, NewerFormatError) as error:
        return PartDamage(name, reader.ordinal, reader.damaged, problem=str(error))
    if size == reader.offset:
        return PartDamage(name, reader.ordinal, reader.damaged)
    return PartDamage(
        name,
        reader.ordinal,
        reader.damaged,
        tail="nul" if reader.stopped_at_nul or _has_nul(path, reader.offset) else "torn",
        tail_at=reader.offset,
        tail_bytes=size - reader.offset,
    )


def _has_nul(path: Path, offset: int) -> bool:
    with open(path, "rb", opener=regular_only) as file:
        file.seek(offset)
        return any(b"\0" in chunk for chunk in iter(lambda: file.read(_CHUNK_BYTES), b""))


def _may_be_written(path: Path, headers: list[Record]) -> bool:
    """Whether a process may still append: one that exists here, or wrote recently elsewhere."""
    header = next((h for h in headers if path.name == f"{h['part_name'].stem}.jsonl"), {})
    seen = liveness(header)
    try:
        age_s = time.time() - path.stat().st_mtime
    except OSError:
        return seen == "alive"
    return seen == "alive" or (seen == "unknown" and bool(header) and age_s < _QUIET_S)


def _identity_problem(folder: RunFolder) -> str | None:
    try:
        read_json(folder.identity)
    except FileNotFoundError:
        return "run.json is missing"
    except (OSError, FormatError) as error:
        return f"run.json cannot be read: {error}"
    return None


def _identity_from(headers: list[Record]) -> dict[str, Any] | None:
    """Who the run is, by the first record of its first attempt, rank 0's where it is left."""
    if not headers:
        return None
    first = min(headers, key=lambda h: (h["part_name"].writer != LOOP, h["part_name"][1:]))
    identity = {field: first[field] for field in _IDENTITY_FIELDS if field in first}
    return {**identity, "created": first.get("t"), "rebuilt": True}


def _cut_tails(folder: RunFolder, diagnosis: Diagnosis) -> Iterator[str]:
    for part in diagnosis.parts:
        if part.tail is None:
            continue
        path = folder.part_path(part.name)
        kept = path.with_name(f"{path.name}.damaged")
        with open(path, "r+b", opener=regular_only) as file:
            file.seek(part.tail_at)
            with kept.open("ab") as beside:
                while chunk := file.read(_CHUNK_BYTES):
                    beside.write(chunk)
                beside.flush()
                os.fsync(beside.fileno())
            file.truncate(part.tail_at)
        yield f"{path.name}: {part.tail_bytes} bytes cut off its end and kept in {kept.name}."


def _restore_identity(folder: RunFolder, diagnosis: Diagnosis) -> Iterator[str]:
    if diagnosis.identity_problem is None:
        return
    if diagnosis.identity is None:
        yield f"{diagnosis.identity_problem}, and no record says what stood in it: left as it is."
        return
    if folder.identity.exists():
        os.replace(folder.identity, folder.identity.with_name("run.json.damaged"))
    write_json(folder.identity, diagnosis.identity)
    yield "run.json: made again from the first record of the journal."
