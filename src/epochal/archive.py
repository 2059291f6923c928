"""``write_archive``: runs as one HTML file, from Python."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from epochal.errors import UsageError
from epochal.exports.export import new_file
from epochal.exports.html import BUDGET_BYTES, write
from epochal.guard import Guard
from epochal.store.local import load_run
from epochal.store.store import RunView

_LEAST_BUDGET = 100_000


def write_archive(
    runs: str | Path | RunView | Sequence[str | Path | RunView],
    path: str | Path,
    *,
    budget_bytes: int = BUDGET_BYTES,
) -> None:
    """Write runs, or run folders, as one HTML file that opens anywhere without a network.

    The file appears when it is complete. Series that would make it larger than ``budget_bytes`` are
    kept in slices of their first, last, smallest and largest points.
    """
    if budget_bytes < _LEAST_BUDGET:
        raise UsageError(f"budget_bytes={budget_bytes} must be {_LEAST_BUDGET} or more.")
    given = [runs] if isinstance(runs, (str, Path)) or not isinstance(runs, Sequence) else runs
    if not given:
        raise UsageError("runs must name at least one run or run folder.")
    views = [load_run(one) if isinstance(one, (str, Path)) else one for one in given]
    with new_file(path) as out:
        Guard().explained("exporter html", partial(write, views, out, budget_bytes=budget_bytes))
