"""Runs as JSON lines: every record as it was written, in file order, nothing hidden or merged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from epochal.exports.export import Rows
from epochal.journal.line import encode_json
from epochal.store.store import RunView


def write(runs: Sequence[RunView], out: TextIO, *, rows: Rows | None = None) -> None:
    """Write every record of every run; ``rows`` does not apply and is ignored."""
    for run in runs:
        for _, record in run.records():
            out.write(encode_json(record).decode() + "\n")
