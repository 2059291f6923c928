"""Copies a run of another tracker into a run folder, through the journal.

The copy appears when it is complete. It stores its source. Copying the same run again replaces the
copy if the source has new records, and otherwise does nothing. Labels and other files in the folder
stay.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from epochal.errors import UsageError
from epochal.exchange.imports.foreign import Batch, Identity, RecordList, Source, SourceRun
from epochal.exchange.imports.values import json_safe
from epochal.journal.blobs import files_of, store_blob
from epochal.journal.boards import OutdatedBoardError, save_board
from epochal.journal.layout import (
    LOOP,
    PartName,
    RunFolder,
    create_run_folder,
    json_or_empty,
    run_folders,
    slugify,
    staged_folder,
    write_json,
)
from epochal.journal.line import encode, encode_lines
from epochal.journal.process import part_header
from epochal.journal.writer import PART_BYTES
from epochal.records import FORMAT_VERSION
from epochal.records.values import plain_json

Outcome = Literal["new", "updated", "unchanged"]
# What a copy is made of; a segment is made of the journal, so an old one goes with it.
_PIECES = ("journal", "blobs", "segments")


@dataclass(frozen=True, slots=True)
class Copied:
    """One run that was copied, and what could not be read of it."""

    id: str
    name: str
    project: str
    folder: Path
    outcome: Outcome
    records: int = 0
    problems: tuple[str, ...] = ()


def copy_run(
    source: Source,
    run: SourceRun,
    *,
    root: Path,
    project: str | None = None,
    name: str | None = None,
) -> Copied:
    """Copy a run below a folder of runs; raises ``OSError`` when it cannot be written."""
    identity = run.identity
    project = project or identity.project
    place = root / slugify(project)
    origin = {"format": source.label, "path": str(source.path), "key": run.key}
    signature = plain_json(run.signature())
    earlier = _earlier_copy(place, origin)
    known = {} if earlier is None else json_or_empty(earlier.identity)
    if earlier is not None and known["source"].get("signature") == signature:
        final = str(known.get("name"))
        return Copied(identity.id, final, project, earlier.path, "unchanged")
    with staged_folder(place) as staged:
        staged.journal.mkdir()
        copy = RunCopy(staged, run, name=name, project=project)
        if not copy.read_on():
            copy.write_empty_part()
        target, final = earlier, copy.identity.name
        if target is None:
            target, final = create_run_folder(place, final)
        record = copy.identity_record({**origin, "signature": signature})
        write_json(staged.identity, {**record, "name": final})
        swap_in(staged, target)
    if (board := getattr(run, "board", None)) is not None:
        with contextlib.suppress(OutdatedBoardError, UsageError):  # of another run, or changed
            save_board(place, project, board, None)
    return Copied(
        id=identity.id,
        name=final,
        project=project,
        folder=target.path,
        outcome="new" if earlier is None else "updated",
        records=copy.num_records,
        problems=tuple(run.problems),
    )


def _earlier_copy(place: Path, origin: Mapping[str, str]) -> RunFolder | None:
    for folder in run_folders(place) if place.is_dir() else ():
        source = json_or_empty(folder.identity).get("source")
        if isinstance(source, dict) and origin.items() <= source.items():
            return folder
    return None


def swap_in(staged: RunFolder, target: RunFolder) -> None:
    """Replace the old copy by a finished one; run.json comes last and completes it."""
    for piece in _PIECES:
        new, there = staged.path / piece, target.path / piece
        if there.exists():
            os.rename(there, staged.path / f"old-{piece}")
        if new.exists():
            os.rename(new, there)
    os.replace(staged.identity, target.identity)


class RunCopy:
    """Writes a run of another tracker into a run folder, and later what that run has gained.

    There is a journal part for each attempt, more when one grows too long. ``name`` and ``project``
    stand in for those of the run; the parts are numbered from ``first_part``.
    """

    def __init__(
        self,
        folder: RunFolder,
        run: SourceRun,
        *,
        name: str | None = None,
        project: str | None = None,
        first_part: int = 0,
    ) -> None:
        self.folder = folder
        self.project = project
        self.num_records = 0
        self._run = run
        self._name = name
        self._first_part = first_part
        self._first_t: float | None = None
        # By attempt, the part that is written.
        self._parts: dict[int, PartName] = {}

    @property
    def identity(self) -> Identity:
        """The identity of the run, as far as it was read, under the names of the copy."""
        found = self._run.identity
        name, project = self._name or found.name, self.project or found.project
        return replace(found, name=name, project=project)

    def read_on(self) -> bool:
        """Write everything there is to read now; False if there was nothing. Raises ``OSError``."""
        before = self.num_records
        for batch in self._run.read_new():
            if self._first_t is None:
                self._first_t = float(batch.records[0]["t"])
            self._append(batch.attempt, b"".join(self._lines(batch)))
            for record in batch.records:
                for file in files_of(record) if record["log"] in ("blob", "file") else ():
                    store_blob(self.folder, file, self._run.blob(file))
        return self.num_records > before

    def write_empty_part(self) -> None:
        """Write a part without records, for a run that has none."""
        self._append(1, b"")

    def identity_record(self, source: Mapping[str, Any]) -> dict[str, Any]:
        """The content of run.json."""
        identity = self.identity
        facts = {key: json_safe(value) for key, value in identity.facts.items() if key != "source"}
        return {
            "v": FORMAT_VERSION,
            "id": identity.id,
            "name": identity.name,
            "project": identity.project,
            "created": self._created(identity),
            "tags": list(identity.tags),
            "notes": identity.notes,
            "config": json_safe(identity.config),
            **facts,
            "source": dict(source),
        }

    def _created(self, identity: Identity) -> float | None:
        created = self._first_t if identity.created is None else identity.created
        return None if created is None else round(created, 3)

    def _append(self, attempt: int, lines: bytes) -> None:
        part = self._parts.get(attempt)
        if part is None:
            part = PartName(LOOP, attempt, self._first_part)
        elif self.folder.part_path(part).stat().st_size >= PART_BYTES:
            part = part._replace(part=part.part + 1)
        with open(self.folder.part_path(part), "ab") as file:
            if part != self._parts.get(attempt):
                file.write(self._header(part))
                self._parts[attempt] = part
            file.write(lines)

    def _header(self, part: PartName) -> bytes:
        identity = self.identity
        named = {"id": identity.id, "name": identity.name, "project": identity.project}
        is_first = part.part == self._first_part and part.attempt == 1
        fields = {"config": json_safe(identity.config)} if is_first else {}
        t = self._created(identity)
        t = time.time() if t is None else t
        return part_header(part, identity=named, rank=0, t=t, process={}, **fields)

    def _lines(self, batch: Batch) -> Iterator[bytes]:
        self.num_records += len(batch.records)
        if not isinstance(batch.records, RecordList):
            for record in batch.records:
                record["t"] = round(float(record["t"]), 3)
        # Most batches are plain numbers. What is not finite is encoded as null, without a word.
        with contextlib.suppress(TypeError, ValueError, OverflowError, RecursionError):
            lines = encode_lines(batch.records)
            if b"null" not in lines:
                yield lines
                return
        for record in batch.records:
            try:
                yield encode(record)
            except (OverflowError, RecursionError):  # numbers or nesting beyond what JSON takes
                yield encode(json_safe(record))
