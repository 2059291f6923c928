"""Runs as JSON lines: every record as it was written, in file order, nothing hidden or merged."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any, TextIO

from epochal.journal.line import encode_lines
from epochal.store.run import RunView

_AT_ONCE = 256


def write(runs: Sequence[RunView], out: TextIO, **_: Any) -> None:
    """Write every record of every run; options of other formats are ignored."""
    for run in runs:
        records = (record for _, record in run.records())
        while some := list(islice(records, _AT_ONCE)):
            out.write(encode_lines(some).decode())
