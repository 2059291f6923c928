"""Reads the end of a journal without decoding all of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from epochal.journal.line import decode
from epochal.journal.regular_file import read_regular
from epochal.records import Record


def last_step_in(part: Path) -> int | None:
    """The last training step in a journal part, read from its end."""
    for record in _from_end(part):
        step = record.get("step")
        if isinstance(step, int):
            # Samples and telemetry carry steps of their own choosing; only these count them.
            if record["log"] in ("metrics", "step"):
                return step
            if record["log"] == "resume":
                return step - 1
    return None


def last_epoch_in(part: Path) -> int | None:
    """How many epochs were complete at the end of a journal part, read from its end."""
    for record in _from_end(part):
        epoch = record.get("epoch")
        if record["log"] == "epoch" and isinstance(epoch, int):
            return epoch
    return None


def _from_end(part: Path) -> Iterator[Record]:
    text = read_regular(part)
    end = text.rfind(b"\n")  # what follows the last newline is not a whole record
    while end > 0:
        start = text.rfind(b"\n", 0, end) + 1
        record = decode(text[start:end])
        if record is not None:
            yield record
        end = start - 1
