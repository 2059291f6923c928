"""Reads a part of a journal whether it is sealed or not.

Loads pyarrow for sealed parts only: a training that continues a short run does without it.
"""

from __future__ import annotations

from collections.abc import Iterator

from epochal.journal.layout import PartName, RunFolder
from epochal.journal.reader import last_step_in, read_part
from epochal.records import Record


def part_records(folder: RunFolder, part: PartName, *kinds: str) -> Iterator[Record]:
    """The records of a part, of some kinds or of all."""
    try:
        for _, record in read_part(folder.part_path(part), part):
            if not kinds or record["log"] in kinds:
                yield record
    except FileNotFoundError:
        from epochal.journal.segments.read import Segment

        with Segment(folder.sealed_path(part)) as segment:
            records = segment.entries(*kinds) if kinds else segment.records()
            yield from (record for _, record in records)


def last_step_of_part(folder: RunFolder, part: PartName) -> int | None:
    """The last training step of a part; None if it has none."""
    try:
        return last_step_in(folder.part_path(part))
    except FileNotFoundError:
        from epochal.journal.segments.read import Segment

        with Segment(folder.sealed_path(part)) as segment:
            extents = segment.footer.extents
        steps = [extents[kind].step for kind in ("metrics", "step") if kind in extents]
        return max((step for step in steps if step is not None), default=None)
