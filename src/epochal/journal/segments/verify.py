"""Verifies the folder of a run: everything that has a checksum or a format is read and compared.

A page of a segment has a CRC, a file of a sample is named after its content, a manifest lists the
digests of a checkpoint. A line of a journal has no checksum: one that is still valid JSON counts as
whole.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from epochal.errors import FormatError
from epochal.journal.blobs import RAW, blob_is_whole, can_be_encoded, files_of
from epochal.journal.layout import PartName, RunFolder, json_or_empty, read_json
from epochal.journal.repair import Diagnosis, PartDamage, diagnose
from epochal.journal.segments.read import Segment
from epochal.records import Record, whole_number
from epochal.records.format import plural

# The kinds of records that name files.
_KINDS = ("run", "blob", "event")


@dataclass(frozen=True, slots=True)
class Fault:
    """A file of a run that is damaged or missing; ``file`` is its path in the folder of the run.

    ``records`` is how many records are affected at most, None if that is not known or if it is
    no file of records. ``copy`` says where a good copy may be. No copy has what was ``lost``: a
    line that was never written to its end, or that was damaged before its part was sealed.
    """

    file: str
    problem: str
    records: int | None = None
    copy: str | None = None
    lost: bool = False


@dataclass(slots=True)
class Verification:
    """What was read of a run, and what is wrong with it.

    ``checkpoints`` are the paths of checkpoints that the journal names. ``num_unknown`` counts
    files of samples whose content has no checksum.
    """

    diagnosis: Diagnosis
    faults: list[Fault] = field(default_factory=list)
    checkpoints: list[str] = field(default_factory=list)
    num_records: int = 0
    num_parts: int = 0
    num_blobs: int = 0
    num_unknown: int = 0


class _Named:
    """What the records of a run say about its other files."""

    def __init__(self, folder: RunFolder) -> None:
        # Files of samples; False where it is the content that a name states, not its pixels.
        self.blobs: dict[str, bool] = {}
        self.checkpoints: dict[str, None] = {}
        self.patches: dict[str, str] = {}
        self.note({**json_or_empty(folder.identity), "log": "run"})

    def note(self, record: Record) -> None:
        kind, git = record["log"], record.get("git")
        if kind == "blob":
            for name in files_of(record):
                has_size = whole_number(record.get("bytes")) is not None
                is_plain = name == record.get("file") and has_size
                self.blobs[name] = self.blobs.get(name, True) and not is_plain
        elif kind == "event" and record.get("name") == "checkpoint" and record.get("path"):
            self.checkpoints[str(record["path"])] = None
        elif kind == "run" and isinstance(git, dict) and git.get("patch_sha256"):
            self.patches.setdefault(str(git.get("patch")), str(git["patch_sha256"]))


def verify_run(folder: RunFolder) -> Verification:
    """Read every file of a run that can be verified; changes nothing. Raises OSError."""
    named = _Named(folder)
    found = Verification(diagnose(folder, note=named.note))
    found.faults += _json_faults(folder, found.diagnosis)
    for part in found.diagnosis.parts:
        found.faults += _part_faults(part, is_growing=found.diagnosis.alive)
        found.num_records += part.num_records
    for name in folder.sealed_parts():
        found.faults += _segment_faults(folder.sealed_path(name), named, found)
    found.num_parts = len(folder.all_parts())
    found.faults += _missing_parts(folder)
    found.faults += _blob_faults(folder, named, found)
    found.checkpoints = list(named.checkpoints)
    return found


def segment_fault(path: Path) -> Fault | None:
    """What is wrong with a segment; None for one that is whole."""
    file = f"segments/{path.name}"
    try:
        segment = Segment(path)
    except (FormatError, OSError) as error:
        return Fault(file, f"it cannot be read: {error}")
    with segment:
        try:
            segment.verify()
        except (FormatError, OSError) as error:
            columns = segment.damaged_columns()
            if not columns:
                return Fault(file, f"it cannot be read: {error}", segment.num_records)
            noun = "column" if len(columns) == 1 else "columns"
            are = "is" if len(columns) == 1 else "are"
            problem = f"the {noun} {', '.join(columns)} {are} damaged"
            return Fault(file, problem, segment.num_records_in(columns))
        names = segment.damaged_blocks()
        if names:
            problem = f"the block summaries of {', '.join(names)} are damaged: charts read points"
            return Fault(file, problem)
    return None


def _json_faults(folder: RunFolder, diagnosis: Diagnosis) -> Iterator[Fault]:
    if diagnosis.identity_problem is not None:
        yield Fault("run.json", diagnosis.identity_problem.removeprefix("run.json "))
    if folder.labels.exists():
        try:
            read_json(folder.labels)
        except (FormatError, OSError) as error:
            yield Fault("labels.json", f"cannot be read: {error}")


def _part_faults(part: PartDamage, *, is_growing: bool) -> Iterator[Fault]:
    file = f"journal/{part.name.stem}.jsonl"
    if part.problem is not None:
        yield Fault(file, part.problem)
    if part.damaged_lines:
        yield _skipped(file, part.damaged_lines)
    if part.tail_bytes and (part.tail_lines or not is_growing):
        problem = f"{part.tail_bytes} bytes at its end are not a whole record"
        yield Fault(file, problem, part.tail_lines or 1, lost=not part.tail_lines)


def _skipped(file: str, num_lines: int, *, lost: bool = False) -> Fault:
    problem = f"{plural(num_lines, 'damaged line')}, which readers skip"
    return Fault(file, problem, num_lines, lost=lost)


def _segment_faults(path: Path, named: _Named, found: Verification) -> Iterator[Fault]:
    fault = segment_fault(path)
    if fault is not None:
        yield fault
    with contextlib.suppress(FormatError, OSError), Segment(path) as segment:
        found.num_records += segment.num_records
        if segment.num_damaged:
            yield _skipped(f"segments/{path.name}", segment.num_damaged, lost=True)
        for _, record in segment.entries(*_KINDS):
            named.note(record)


def _missing_parts(folder: RunFolder) -> Iterator[Fault]:
    """Parts that must have been there: those of a writer are numbered from 0."""
    there: dict[tuple[str, int], set[int]] = {}
    for name in folder.all_parts():
        there.setdefault((name.writer, name.attempt), set()).add(name.part)
    for (writer, attempt), parts in there.items():
        for part in sorted(set(range(max(parts))) - parts):
            stem = PartName(writer, attempt, part).stem
            yield Fault(f"journal/{stem}.jsonl", "this part is missing, and a later one is there")


def _blob_faults(folder: RunFolder, named: _Named, found: Verification) -> Iterator[Fault]:
    paths = sorted(folder.blobs.iterdir()) if folder.blobs.is_dir() else []
    names = {path.name for path in paths if not path.name.startswith(".")}
    for path in (path for path in paths if path.name in names):
        file = f"blobs/{path.name}"
        found.num_blobs += 1
        try:
            is_encoded, sha256 = named.blobs.get(path.name, True), named.patches.get(path.name)
            is_whole = blob_is_whole(path, is_encoded=is_encoded, sha256=sha256)
        except FileNotFoundError:
            continue  # encoded or removed meanwhile
        except OSError as error:
            yield Fault(file, f"cannot be read: {error.strerror or error}")
            continue
        found.num_unknown += is_whole is None
        if is_whole is False:
            yield Fault(file, "its content has changed since it was written")
        elif path.suffix == RAW and not can_be_encoded(path):
            yield Fault(file, "it cannot be encoded")
    if not found.diagnosis.alive:  # else it may be on its way to a hub
        for name in named.blobs:
            if name not in names and f"{name}{RAW}" not in names:
                yield Fault(f"blobs/{name}", "it is missing, and a record names it", 1)
