"""Where an earlier attempt of a run left off, whether its parts are sealed or not."""

from __future__ import annotations

from collections.abc import Iterator

from epochal.journal.layout import LOOP, PartName, RunFolder
from epochal.journal.tail import last_epoch_in, last_step_in


def last_step_of(folder: RunFolder, *, before_attempt: int) -> int:
    """The last training step rank 0 logged before the given attempt; -1 when there is none."""
    for name, is_sealed in _parts(folder, before_attempt):
        step = _sealed_step(folder, name) if is_sealed else last_step_in(folder.part_path(name))
        if step is not None:
            return step
    return -1


def last_epoch_of(folder: RunFolder, *, before_attempt: int) -> int | None:
    """How many epochs were complete before the given attempt; None when none was logged."""
    for name, is_sealed in _parts(folder, before_attempt):
        epoch = _sealed_epoch(folder, name) if is_sealed else last_epoch_in(folder.part_path(name))
        if epoch is not None:
            return epoch
    return None


def _parts(folder: RunFolder, before_attempt: int) -> Iterator[tuple[PartName, bool]]:
    """The parts of earlier attempts of rank 0, the newest first, and whether each is sealed."""
    unsealed = set(folder.parts())
    for name in sorted({*unsealed, *folder.sealed_parts()}, reverse=True):
        if name.writer == LOOP and name.attempt < before_attempt:
            yield name, name not in unsealed


def _sealed_step(folder: RunFolder, name: PartName) -> int | None:
    from epochal.segments.read import Segment  # loads pyarrow, and only a resumed run needs it

    with Segment(folder.sealed_path(name)) as segment:
        extents = segment.extents()
    steps = [extents[kind].step for kind in ("metrics", "step") if kind in extents]
    return max((step for step in steps if step is not None), default=None)


def _sealed_epoch(folder: RunFolder, name: PartName) -> int | None:
    from epochal.segments.read import Segment

    with Segment(folder.sealed_path(name)) as segment:
        epochs = [record.get("epoch") for _, record in segment.entries("epoch")]
    return next((epoch for epoch in reversed(epochs) if isinstance(epoch, int)), None)
