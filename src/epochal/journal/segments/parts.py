"""Parts of a journal: which of them nobody writes any more, and reading one, sealed or not.

Loads pyarrow for sealed parts only: a training that continues a short run does without it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from epochal.journal.layout import LOOP, PartName, RunFolder, json_or_empty
from epochal.journal.process import liveness, read_header
from epochal.journal.reader import last_step_in, read_part, records_from_end
from epochal.records import Record

# Smaller parts are read as quickly as they are, and would hardly shrink: they are not sealed.
WORTH_SEALING_BYTES = 64 * 1024
# A thread may be inside a write while another has already turned to the next part.
_SETTLED_S = 5.0
# Companions go on for half a minute after their run has finished.
_OUT_OF_SIGHT_S = 120.0
_END_BYTES = 64 * 1024


def sealable_parts(folder: RunFolder) -> list[PartName]:
    """The journal parts that are complete.

    A part is complete if a later one of the same writer and attempt follows it. The newest part is
    complete if its writer recorded its end, or if its process is gone. A writer on another machine
    that has not finished counts as living. An imported run was complete when its folder appeared.
    """
    return [part for part in folder.parts() if is_sealable(folder, part)]


def is_sealable(folder: RunFolder, part: PartName) -> bool:
    """Whether one journal part is complete; looks at no other part but the next one."""
    following = folder.part_path(part._replace(part=part.part + 1))
    if following.exists():
        return _age_s(folder, part) >= _SETTLED_S
    return _has_ended(folder, part)


def _has_ended(folder: RunFolder, part: PartName) -> bool:
    if has_finish(folder, part):
        return True
    header = read_header(folder.part_path(part))
    if "pid" not in header and "source" in json_or_empty(folder.identity):
        return True  # it was imported
    seen = liveness(header)
    if seen != "unknown":
        return seen == "dead"
    if part.writer == LOOP or _age_s(folder, part) < _OUT_OF_SIGHT_S:
        return False
    return _loop_has_ended(folder, part.attempt)


def _loop_has_ended(folder: RunFolder, attempt: int) -> bool:
    """Whether the newest part of rank 0 ends with ``finish``; its last part is sealed after that.

    A run of a thousand ranks is not listed for it.
    """
    last = PartName(LOOP, attempt, 0)
    while _exists(folder, following := last._replace(part=last.part + 1)):
        last = following
    return has_finish(folder, last) or folder.sealed_path(last).exists()


def _exists(folder: RunFolder, part: PartName) -> bool:
    return folder.part_path(part).exists() or folder.sealed_path(part).exists()


def has_finish(folder: RunFolder, part: PartName) -> bool:
    """Whether a journal part ends with ``finish``; reads only the end of the file."""
    try:
        last = records_from_end(folder.part_path(part), most_bytes=_END_BYTES)
        return any(record["log"] == "finish" for record in last)
    except FileNotFoundError:
        return False


def _age_s(folder: RunFolder, part: PartName) -> float:
    """How long ago a part was written to; less than 0 when it is gone."""
    try:
        return max(0.0, time.time() - folder.part_path(part).stat().st_mtime)
    except FileNotFoundError:
        return -1.0


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
