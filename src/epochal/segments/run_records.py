"""Every record of a run exactly once, from sealed and unsealed parts alike."""

from __future__ import annotations

from collections.abc import Iterator

from epochal.errors import FormatError
from epochal.journal.layout import PartName, RunFolder
from epochal.journal.reader import read_part
from epochal.records import Position, Record
from epochal.segments.read import Segment


def every_part(folder: RunFolder) -> list[PartName]:
    """Every part there is in either form; one that is being sealed meanwhile is not missed."""
    unsealed = folder.parts()  # first: a part goes from here to there, never back
    return sorted({*unsealed, *folder.sealed_parts()})


def read_part_records(folder: RunFolder, name: PartName) -> Iterator[tuple[Position, Record]]:
    """Every record of one part; from the segment where there is one, unless it is damaged."""
    try:
        segment = Segment(folder.sealed_path(name))
    except FileNotFoundError:
        yield from _unsealed(folder, name)
        return
    except FormatError:
        if not folder.part_path(name).exists():
            raise
        yield from read_part(folder.part_path(name), name)
        return
    with segment:
        yield from _positions(segment, name)


def read_run(folder: RunFolder) -> Iterator[tuple[Position, Record]]:
    """Every record of a run, writer by writer, in file order."""
    for name in every_part(folder):
        yield from read_part_records(folder, name)


def _unsealed(folder: RunFolder, name: PartName) -> Iterator[tuple[Position, Record]]:
    records = read_part(folder.part_path(name), name)
    try:
        first = next(records, None)
    except FileNotFoundError:
        # Sealed between the two looks.
        with Segment(folder.sealed_path(name)) as segment:
            yield from _positions(segment, name)
        return
    if first is not None:
        yield first
        yield from records


def _positions(segment: Segment, name: PartName) -> Iterator[tuple[Position, Record]]:
    for ordinal, record in segment.records():
        yield Position(*name, ordinal), record
