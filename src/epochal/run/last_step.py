"""Where an earlier attempt of a run left off, whether its parts are sealed or not."""

from __future__ import annotations

from epochal.journal.layout import LOOP, PartName, RunFolder
from epochal.journal.tail import last_step_in


def last_step_of(folder: RunFolder, *, before_attempt: int) -> int:
    """The last training step rank 0 logged before the given attempt; -1 when there is none."""
    unsealed = set(folder.parts())
    for name in sorted({*unsealed, *folder.sealed_parts()}, reverse=True):
        if name.writer != LOOP or name.attempt >= before_attempt:
            continue
        sealed = name not in unsealed
        step = _sealed_step(folder, name) if sealed else last_step_in(folder.part_path(name))
        if step is not None:
            return step
    return -1


def _sealed_step(folder: RunFolder, name: PartName) -> int | None:
    from epochal.segments.read import Segment  # loads pyarrow, and only a resumed run needs it

    with Segment(folder.sealed_path(name)) as segment:
        extents = segment.extents()
    steps = [extents[kind].step for kind in ("metrics", "step") if kind in extents]
    return max((step for step in steps if step is not None), default=None)
