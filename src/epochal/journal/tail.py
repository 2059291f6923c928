"""Looks at the end of a journal without decoding all of it."""

from __future__ import annotations

from pathlib import Path

from epochal.journal.line import decode
from epochal.journal.regular_file import read_regular


def last_step_in(part: Path) -> int | None:
    """The last training step a journal part holds, read from its end."""
    text = read_regular(part)
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
