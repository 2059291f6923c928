"""Turns a finished journal part into a segment, so that no moment exists without its records.

The segment is written under a name that no reader looks at. It is read back, compared with what was
read from the journal, brought to the disk, and renamed. Only then is the journal part deleted.

What was read is exact. Lines that became columns at once gave back their very bytes when they were
encoded again. Records that were taken apart one by one were put together again. So it is enough
that the file gives back the columns, every bit of every number, and every record exactly once.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epochal.atomic_file import replaced_file, sync_folder
from epochal.errors import FormatError, UsageError
from epochal.journal.layout import PartName, RunFolder
from epochal.journal.line import encode_json, encode_lines
from epochal.journal.reader import read_part
from epochal.segments.collect import Collected, collect
from epochal.segments.finished import is_sealable
from epochal.segments.plan import Piece, Plan, make_plan
from epochal.segments.read import Segment
from epochal.segments.rebuild import Rebuilder
from epochal.segments.table import write_segment

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


def verify(path: Path, journal: Path, found: Collected, plan: Plan) -> None:
    """Raise FormatError, naming the journal part, unless a segment gives back all of it."""
    with Segment(path) as segment:
        if segment.damage() != found.damage:
            raise FormatError(f"{journal} was not sealed: its damaged lines came out wrong.")
        rebuilder = segment.rebuilder()
        seen = [] if rebuilder is None else _compared(rebuilder, segment, found, plan, journal)
    ordinals = np.sort(np.concatenate(seen)) if seen else np.zeros(0, dtype=np.int64)
    if not np.array_equal(ordinals, np.arange(found.num_records)):
        raise FormatError(f"{journal} was not sealed: records are missing, or there are too many.")


def _compared(
    rebuilder: Rebuilder, segment: Segment, found: Collected, plan: Plan, journal: Path
) -> list[NDArray[np.int64]]:
    """The ordinals of the records that are as they should be."""
    numbers = {shape: number for number, shape in enumerate(segment.shapes)}
    seen: list[NDArray[np.int64]] = []
    for piece in plan.pieces:
        if not _is_same(rebuilder, numbers.get(piece.shape, -1), piece):
            raise FormatError(
                f"{journal} was not sealed: records of kind {piece.shape.kind!r} came out wrong."
            )
        seen.append(piece.ordinals)
    rows = rebuilder.rows_of(None)
    expected = sorted((document.ordinal, document.text) for document in found.documents)
    ordinals = rebuilder.ordinals(rows)
    if list(zip(ordinals.tolist(), rebuilder.documents(rows), strict=True)) != expected:
        raise FormatError(f"{journal} was not sealed: records kept as JSON came out wrong.")
    return [*seen, ordinals]


def _is_same(rebuilder: Rebuilder, number: int, piece: Piece) -> bool:
    """Whether the rows of a piece hold its values; several pieces can share a shape."""
    rows = rebuilder.rows_of(number)
    order = np.argsort(piece.ordinals, kind="stable")
    ordinals = piece.ordinals[order]
    rows = rows[np.isin(rebuilder.ordinals(rows), ordinals)]
    if not np.array_equal(rebuilder.ordinals(rows), ordinals):
        return False
    if "w" in piece.shape.codes:  # some of its values are in long form
        expected = piece.bucket.records()
        made = [record for _, record in rebuilder.records(rows)]
        return encode_lines(made) == encode_lines([expected[place] for place in order.tolist()])
    return all(
        _are_same(read, given, order)
        for read, given in zip(rebuilder.cells(number, rows), piece.cells, strict=True)
    )


def _are_same(
    read: NDArray[Any] | list[Any], given: NDArray[Any] | list[Any], order: NDArray[np.intp]
) -> bool:
    if isinstance(given, list) or isinstance(read, list):
        return encode_json(list(read)) == encode_json([given[place] for place in order.tolist()])
    return read.dtype == given.dtype and read.tobytes() == given[order].tobytes()
