"""Looks at the end of a journal without decoding all of it."""

from __future__ import annotations

from epochal.journal.layout import LOOP, RunFolder
from epochal.journal.line import decode


def last_step_of(folder: RunFolder, *, before_attempt: int | None = None) -> int:
    """The last step rank 0 logged, in attempts before the given one; -1 when there is none."""
    for name in reversed(folder.parts()):
        if name.writer != LOOP or (before_attempt is not None and name.attempt >= before_attempt):
            continue
        step = _last_step_in(folder.part_path(name).read_bytes())
        if step is not None:
            return step
    return -1


def _last_step_in(text: bytes) -> int | None:
    end = text.rfind(b"\n")  # what follows the last newline is not a whole record
    while end > 0:
        start = text.rfind(b"\n", 0, end) + 1
        record = decode(text[start:end])
        step = None if record is None else record.get("step")
        if record is not None and isinstance(step, int):
            # Samples and telemetry carry steps of their own choosing; only these count them.
            if record["log"] in ("metrics", "step"):
                return step
            if record["log"] == "resume":
                return step - 1
        end = start - 1
    return None
