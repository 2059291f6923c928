"""Copies a run of another tracker into a run folder, through the journal.

The copy appears when it is complete. It stores its source. Copying the same run again replaces the
copy if the source has new records, and otherwise does nothing. Labels and other files in the folder
stay.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from epochal.errors import FormatError
from epochal.imports.foreign import Batch, Identity, Points, Source, SourceRun
from epochal.imports.values import json_safe
from epochal.journal.header import part_header
from epochal.journal.layout import (
    LOOP,
    PartName,
    RunFolder,
    create_run_folder,
    read_json,
    run_folders,
    slugify,
    write_json,
)
from epochal.journal.line import encode, encode_lines
from epochal.journal.writer import JournalWriter
from epochal.records import FORMAT_VERSION, Record
from epochal.values import plain_json

Outcome = Literal["new", "updated", "unchanged"]
# What a copy is made of; a segment is made of the journal, so an old one goes with it.
_PIECES = ("journal", "blobs", "segments")
_WRITE_BYTES = 1024 * 1024


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
    identity = replace(identity, name=name or identity.name, project=project or identity.project)
    place = root / slugify(identity.project)
    origin = {"format": source.label, "path": str(source.path), "key": run.key}
    signature = plain_json(run.signature())
    earlier = _earlier_copy(place, origin)
    if earlier is not None and _identity_of(earlier)["source"].get("signature") == signature:
        final = str(_identity_of(earlier).get("name"))
        return Copied(identity.id, final, identity.project, earlier.path, "unchanged")
    with _staging(place) as staged:
        copy = RunCopy(staged, identity)
        copy.write(run)
        target, final = earlier, identity.name
        if target is None:
            target, final = create_run_folder(place, identity.name)
        said = {**copy.identity_record(), "name": final}
        write_json(staged.identity, {**said, "source": {**origin, "signature": signature}})
        _move(staged, target)
    return Copied(
        id=identity.id,
        name=final,
        project=identity.project,
        folder=target.path,
        outcome="new" if earlier is None else "updated",
        records=copy.num_records,
        problems=tuple(run.problems),
    )


def _earlier_copy(place: Path, origin: Mapping[str, str]) -> RunFolder | None:
    for folder in run_folders(place) if place.is_dir() else ():
        source = _identity_of(folder).get("source")
        if isinstance(source, dict) and origin.items() <= source.items():
            return folder
    return None


def _identity_of(folder: RunFolder) -> dict[str, Any]:
    try:
        return read_json(folder.identity)
    except (FileNotFoundError, FormatError):
        return {}


@contextlib.contextmanager
def _staging(place: Path) -> Iterator[RunFolder]:
    """A hidden folder beside the runs, which no reader takes for one; gone afterwards."""
    folder = RunFolder(place / f".import-{os.getpid()}-{secrets.token_hex(4)}")
    folder.journal.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder.path, ignore_errors=True)


def _move(staged: RunFolder, target: RunFolder) -> None:
    """Replace the old copy by a finished one; run.json comes last and completes it."""
    for piece in _PIECES:
        new, there = staged.path / piece, target.path / piece
        if there.exists():
            os.rename(there, staged.path / f"old-{piece}")
        if new.exists():
            os.rename(new, there)
    os.replace(staged.identity, target.identity)


class RunCopy:
    """One run being written; a journal part per attempt, more when one grows too long."""

    def __init__(self, folder: RunFolder, identity: Identity) -> None:
        self.num_records = 0
        self._folder = folder
        self._identity = identity
        self._first_t: float | None = None
        self._faults: list[str] = []

    def write(self, run: SourceRun) -> None:
        """Write everything there is to read; raises ``OSError`` when not all could be written."""
        writers: dict[int, JournalWriter] = {}
        try:
            for batch in run.read_new():
                self._note_time(batch)
                if batch.attempt not in writers:
                    writers[batch.attempt] = self._open(batch.attempt)
                self._write_batch(writers[batch.attempt], batch)
                self._store_blobs(run, batch)
            if not writers:
                writers[1] = self._open(1)
        finally:
            for writer in writers.values():
                writer.close()
        if self._faults or any(writer.lost_total for writer in writers.values()):
            raise OSError(" ".join(self._faults) or f"{self._folder.path} cannot be written.")

    def identity_record(self) -> dict[str, Any]:
        """The fields of run.json, without the source of the copy."""
        identity = self._identity
        facts = {key: value for key, value in identity.facts.items() if key != "source"}
        return {
            "v": FORMAT_VERSION,
            "id": identity.id,
            "name": identity.name,
            "project": identity.project,
            "created": self._created(),
            "tags": list(identity.tags),
            "notes": identity.notes,
            "config": json_safe(identity.config),
            "totals": {},
            "world_size": 1,
            **{key: json_safe(value) for key, value in facts.items()},
        }

    def _created(self) -> float:
        created = self._identity.created
        if created is None:
            created = time.time() if self._first_t is None else self._first_t
        return round(created, 3)

    def _note_time(self, batch: Batch) -> None:
        if self._first_t is None:
            if len(batch.points):
                self._first_t = float(batch.points.times[0])
            else:
                self._first_t = float(batch.records[0]["t"])

    def _open(self, attempt: int) -> JournalWriter:
        writer = JournalWriter(
            self._folder,
            writer=LOOP,
            attempt=attempt,
            header=self._header,
            on_fault=self._faults.append,
        )
        writer.open()
        return writer

    def _header(self, part: PartName) -> bytes:
        identity = self._identity
        named = {"id": identity.id, "name": identity.name, "project": identity.project}
        is_first = part.part == 0 and part.attempt == 1
        fields = {"config": json_safe(identity.config)} if is_first else {}
        return part_header(part, identity=named, rank=0, t=self._created(), process={}, **fields)

    def _write_batch(self, writer: JournalWriter, batch: Batch) -> None:
        waiting: list[bytes] = []
        size = 0
        for lines in self._lines(batch):
            waiting.append(lines)
            size += len(lines)
            if size >= _WRITE_BYTES:
                writer.append(b"".join(waiting), time.time())
                waiting, size = [], 0
        if waiting:
            writer.append(b"".join(waiting), time.time())

    def _lines(self, batch: Batch) -> Iterator[bytes]:
        for points in _cut(batch.points):
            records = list(metrics_of(points))
            self.num_records += len(records)
            if bool(np.isfinite(points.values).all()):
                yield encode_lines(records)
            else:
                yield from map(encode, records)
        for record in others_of(batch):
            self.num_records += 1
            try:
                yield encode(record)
            except (OverflowError, RecursionError):  # numbers or nesting beyond what JSON takes
                yield encode(json_safe(record))

    def _store_blobs(self, run: SourceRun, batch: Batch) -> None:
        for record in batch.records:
            if record["log"] == "blob":
                self._folder.blobs.mkdir(exist_ok=True)
                (self._folder.blobs / record["file"]).write_bytes(run.blob(record["file"]))


def _cut(points: Points, *, size: int = 50_000) -> Iterator[Points]:
    """Points in pieces, so that their records are never all in memory."""
    for start in range(0, len(points), size):
        end = start + size
        yield Points(
            points.names,
            points.which[start:end],
            points.steps[start:end],
            points.times[start:end],
            points.values[start:end],
        )


def others_of(batch: Batch) -> Iterator[Record]:
    """The records of a batch that are not points."""
    for record in batch.records:
        yield {**record, "t": round(float(record["t"]), 3)}


def metrics_of(points: Points) -> Iterator[Record]:
    """The records of these points; times are rounded to the millisecond, as in a journal.

    Points that follow each other with the same step, at the same millisecond and under different
    names are one record.
    """
    if not len(points):
        return
    millis = np.rint(points.times * 1000.0)
    is_new = (np.diff(points.steps) != 0) | (np.diff(millis) != 0)
    names = points.names
    record: Record = {}
    metrics: dict[str, float] = {}
    columns = (points.which, points.steps, millis / 1000.0, points.values)
    rows = zip([True, *is_new.tolist()], *(column.tolist() for column in columns), strict=True)
    for starts, which, step, t, value in rows:
        name = names[which]
        if starts or name in metrics:
            if metrics:
                yield record
            metrics = {}
            record = {"log": "metrics", "t": t, "step": step, "m": metrics}
        metrics[name] = value
    yield record
