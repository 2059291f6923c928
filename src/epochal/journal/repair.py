"""Finds damage in a run folder and repairs it without losing a byte.

Readers do not need a repair: they skip a damaged line and stop before a torn tail. A repair is for
folders that will be kept. It truncates a tail that no writer will complete, and saves its bytes
beside the part with the suffix ``.damaged``. It writes a lost ``run.json`` again from the first
record of the journal. Damaged lines in the middle stay and are reported.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from epochal.base.atomic_file import sync_folder
from epochal.errors import FormatError
from epochal.journal.layout import LOOP, PartName, RunFolder, read_json, write_json
from epochal.journal.process import PROCESS_FIELDS, liveness
from epochal.journal.reader import NewerFormatError, PartReader
from epochal.journal.regular_file import regular_only
from epochal.records import Record

_IDENTITY_FIELDS = ("v", "id", "name", "project", "config", *PROCESS_FIELDS)
# A writer on another machine cannot be looked at; one that wrote this lately may go on.
_QUIET_S = 600.0
_CHUNK_BYTES = 1024 * 1024


@dataclass(slots=True)
class PartDamage:
    """What is wrong with one part: damaged lines, and the bytes after the last whole record.

    ``problem`` is set for a part that cannot be read. ``header`` is its first record. A tail of 0
    lines is one line without its end.
    """

    name: PartName
    num_records: int = 0
    damaged_lines: int = 0
    tail_at: int = 0
    tail_bytes: int = 0
    tail_lines: int = 0
    problem: str | None = None
    header: Record = field(default_factory=dict)
    has_ended: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether there is nothing to report."""
        return not (self.damaged_lines or self.tail_bytes or self.problem)


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


def diagnose(
    folder: RunFolder, *, note: Callable[[Record], object] = lambda _record: None
) -> Diagnosis:
    """Read the journal and report damage; changes nothing. ``note`` gets every record."""
    parts = tuple(_examine(folder, name, note) for name in folder.parts())
    ended = {part.name[:2] for part in parts if part.has_ended}
    problem = _identity_problem(folder)
    return Diagnosis(
        parts=parts,
        identity_problem=problem,
        identity=None if problem is None else _identity_from(parts),
        alive=any(_may_be_written(folder, p) for p in parts if p.name[:2] not in ended),
    )


def repair(folder: RunFolder, diagnosis: Diagnosis) -> list[str]:
    """Mend what the diagnosis found and say what was done, a sentence each.

    Raises ``FormatError`` while a process may still be writing: a torn tail may be on its way.
    """
    if diagnosis.alive:
        raise FormatError(f"{folder.path} is still being written to: repair it when the run ended.")
    return [*_cut_tails(folder, diagnosis), *_restore_identity(folder, diagnosis)]


def _examine(folder: RunFolder, name: PartName, note: Callable[[Record], object]) -> PartDamage:
    part, path = PartDamage(name), folder.part_path(name)
    reader = PartReader(path, name)
    try:
        for position, record in reader.read():
            note(record)
            if position.ordinal == 0 and record["log"] == "run":
                part.header = record
            part.has_ended = part.has_ended or record["log"] == "finish"
        part.tail_at, part.tail_bytes = reader.offset, path.stat().st_size - reader.offset
        part.tail_lines = sum(text.count(b"\n") for text in _tail(path, part.tail_at))
    except (OSError, NewerFormatError) as error:
        part.problem = str(error)
    part.num_records, part.damaged_lines = reader.ordinal, reader.damaged
    return part


def _tail(path: Path, start: int) -> Iterator[bytes]:
    with open(path, "rb", opener=regular_only) as file:
        file.seek(start)
        while chunk := file.read(_CHUNK_BYTES):
            yield chunk


def _may_be_written(folder: RunFolder, part: PartDamage) -> bool:
    """Whether a process may still append: one that exists here, or wrote recently elsewhere."""
    seen = liveness(part.header)
    if seen != "unknown" or not part.header:
        return seen == "alive"
    try:
        return time.time() - folder.part_path(part.name).stat().st_mtime < _QUIET_S
    except OSError:
        return False


def _identity_problem(folder: RunFolder) -> str | None:
    try:
        read_json(folder.identity)
    except FileNotFoundError:
        return "run.json is missing"
    except (OSError, FormatError) as error:
        return f"run.json cannot be read: {error}"
    return None


def _identity_from(parts: Sequence[PartDamage]) -> dict[str, Any] | None:
    """Who the run is, by the first record of its first attempt, rank 0's where it is left."""
    # Attempt 0 is the history of a fork's parent.
    order = sorted(parts, key=lambda p: (p.name.writer != LOOP, p.name.attempt == 0, p.name[1:]))
    first = next((part.header for part in order if part.header), None)
    if first is None:
        return None
    identity = {key: first[key] for key in _IDENTITY_FIELDS if key in first}
    return {**identity, "created": first.get("t"), "rebuilt": True}


def _cut_tails(folder: RunFolder, diagnosis: Diagnosis) -> Iterator[str]:
    for part in diagnosis.parts:
        if not part.tail_bytes:
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
            sync_folder(path.parent)
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
