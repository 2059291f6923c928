"""Turns a finished journal part into a segment, so that no moment exists without its records.

The segment is written under a name no reader looks at, read back and compared with what was read
from the journal, brought to the disk, and renamed; only then does the journal part go.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

from epochal.atomic_file import replaced_file, sync_folder
from epochal.errors import FormatError, UsageError
from epochal.journal.layout import PartName, RunFolder
from epochal.journal.reader import read_part
from epochal.segments.collect import collect
from epochal.segments.finished import is_sealable
from epochal.segments.plan import make_plan
from epochal.segments.read import Segment
from epochal.segments.table import write_segment
from epochal.segments.verify import verify

_ABANDONED_S = 3600.0


@dataclass(frozen=True, slots=True)
class SealReport:
    """What sealing one part came to; ``kept_bytes`` are those of damaged lines and torn ends."""

    name: PartName
    path: Path
    num_records: int
    num_damaged: int
    kept_bytes: int
    journal_bytes: int
    segment_bytes: int


def seal_part(folder: RunFolder, name: PartName, *, into: Path | None = None) -> SealReport:
    """Seal one part; with ``into``, a copy in that folder, and the journal part stays.

    Raises UsageError for a part that may still be written, FormatError when the segment does not
    give back what the journal holds; the journal is then as it was.
    """
    journal = folder.part_path(name)
    target = (folder.segments if into is None else into) / f"{name.stem}.parquet"
    if into is None and not (journal.exists() and is_sealable(folder, name)):
        raise UsageError(
            f"{journal} may still be written, or is not there: only finished parts can be sealed."
        )
    covered = _covers(target, journal, name) if target.exists() else False
    report = _report(target, name) if covered else _write(journal, name, target)
    size = journal.stat().st_size
    if size != report.journal_bytes:
        if into is None and not covered:
            target.unlink()
        raise UsageError(f"{journal} was written to while it was being sealed: try again later.")
    if into is None:
        with contextlib.suppress(FileNotFoundError):  # another process has sealed it as well
            journal.unlink()
        sync_folder(journal.parent)
    return report


def _write(journal: Path, name: PartName, target: Path) -> SealReport:
    """Make a segment appear under its name, whole and checked."""
    is_first = not target.parent.exists()
    target.parent.mkdir(parents=True, exist_ok=True)
    _sweep(target)
    with replaced_file(target, durable=True) as temporary:
        found = collect(journal)
        plan = make_plan(found)
        write_segment(temporary, found, plan, part=name.stem)
        verify(temporary, journal, found, plan)
    sync_folder(target.parent)
    if is_first:
        sync_folder(target.parent.parent)
    return SealReport(
        name=name,
        path=target,
        num_records=found.num_records,
        num_damaged=found.num_damaged,
        kept_bytes=sum(len(damage.text) for damage in found.damage),
        journal_bytes=found.journal_bytes,
        segment_bytes=target.stat().st_size,
    )


def _sweep(target: Path) -> None:
    """Remove what an earlier attempt left that was killed; a young file may be someone's work."""
    with os.scandir(target.parent) as entries:
        names = [e.name for e in entries if e.name[0] == "." and e.name.endswith(".tmp")]
    for name in names:
        if name.startswith(f".{target.name}."):
            left = target.parent / name
            with contextlib.suppress(FileNotFoundError):
                if time.time() - left.stat().st_mtime > _ABANDONED_S:
                    left.unlink()


def _covers(target: Path, journal: Path, name: PartName) -> bool:
    """Whether a segment that is already there holds just what the journal part holds.

    One that holds less, or that cannot be read, is written anew from the journal. One that holds
    something else is never replaced: raises UsageError.
    """
    try:
        with Segment(target) as segment:
            records = segment.records()
            for position, record in read_part(journal, name):
                sealed = next(records, None)
                if sealed is None:
                    return False
                if sealed != (position.ordinal, record):
                    raise UsageError(
                        f"{target} and {journal} hold different records: move one away."
                    )
            if next(records, None) is not None:
                raise UsageError(f"{target} holds more records than {journal}: move one away.")
            return segment.journal_bytes == journal.stat().st_size
    except FormatError:
        return False


def _report(target: Path, name: PartName) -> SealReport:
    with Segment(target) as segment:
        return SealReport(
            name=name,
            path=target,
            num_records=segment.num_records,
            num_damaged=segment.num_damaged,
            kept_bytes=sum(len(text) for _, text in segment.damage()),
            journal_bytes=segment.journal_bytes,
            segment_bytes=target.stat().st_size,
        )
