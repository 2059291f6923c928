"""Looks at the end of a journal without reading all of it."""

from __future__ import annotations

from epochal.journal.layout import LOOP, RunFolder
from epochal.journal.line import decode

_LOOK_BACK_BYTES = 256 * 1024


def last_step_of(folder: RunFolder, *, before_attempt: int | None = None) -> int:
    """The last step rank 0 logged, in attempts before the given one; -1 when there is none."""
    for name in reversed(folder.parts()):
        if name.writer != LOOP or (before_attempt is not None and name.attempt >= before_attempt):
            continue
        step = _last_step_in(folder.part_path(name).read_bytes()[-_LOOK_BACK_BYTES:])
        if step is not None:
            return step
    return -1


def _last_step_in(text: bytes) -> int | None:
    lines = text.split(b"\n")[:-1]  # what follows the last newline is not a whole record
    for line in reversed(lines):
        record = decode(line)
        if record is not None and isinstance(record.get("step"), int):
            return int(record["step"])
    return None
