"""The protocol of an export, the list of exports, and how their files are written.

An export writes runs to an open file. It reads only the store. If its format allows, it has
no more than one row or record in memory. It raises ``UsageError`` for runs that it cannot write.
The format is the same for one run and for several. With several, each row or section names the run;
raw records have its id anyway.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, cast

from epochal.errors import UsageError
from epochal.journal.boards import StoredBoard
from epochal.store.run import RunView

Rows = Literal["epoch", "step"]


class Export(Protocol):
    """A module of this folder: one format."""

    def write(
        self,
        runs: Sequence[RunView],
        out: Any,
        *,
        rows: Rows | None = None,
        names: Sequence[str] = (),
        boards: Sequence[StoredBoard] = (),
        opens_board: bool = False,
    ) -> None:
        """Write the runs to a text file, or to a binary one for a format of ``BINARY``.

        ``rows`` None means epochs for a run that has any, else steps. ``names`` are metrics,
        patterns or formulas: the columns of a table of steps, and what an archive has in addition.
        ``boards`` are for a format that shows them; with ``opens_board`` it opens with the first.
        """


# The name people type, and the module: loaded when it is asked for.
FORMATS: Mapping[str, str] = {
    "csv": "epochal.exports.table",
    "jsonl": "epochal.exports.lines",
    "html": "epochal.exports.archive",
}
BINARY: Mapping[str, str] = {"parquet": "epochal.exports.parquet"}


def export_named(name: str) -> Export:
    """The export of a format; raises ``UsageError`` for one that is not known."""
    module = FORMATS.get(name) or BINARY.get(name)
    if module is None:
        known = ", ".join((*FORMATS, *BINARY))
        raise UsageError(f"format={name!r} is not known: use one of {known}.")
    return cast(Export, importlib.import_module(module))


def rows_of(run: RunView, rows: Rows | None, names: Sequence[str] = ()) -> Rows:
    """The rows to write: the option, else epochs if the run has any. Chosen columns have steps."""
    if names and rows == "epoch":
        raise UsageError("chosen metrics are written by step: leave out --rows epoch.")
    if rows is not None or names:
        return rows or "step"
    return "epoch" if any(metric.axis == "epoch" for metric in run.metrics()) else "step"
