"""Runs as one JSON array of records, with ``time`` as ISO text in the place of ``t``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from epochal.exports.export import Rows
from epochal.journal.array import with_iso_time
from epochal.journal.line import encode_json
from epochal.store.store import RunView


def write(runs: Sequence[RunView], out: TextIO, *, rows: Rows | None = None) -> None:
    """Write every record of every run; ``rows`` does not apply and is ignored."""
    out.write("[")
    separator = "\n"
    for run in runs:
        for _, record in run.records():
            out.write(separator + encode_json(with_iso_time(record)).decode())
            separator = ",\n"
    out.write("\n]\n")
