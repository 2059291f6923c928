"""A graph's history as CSV, and as a log for people."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from epochal.atomic_file import new_text_file
from epochal.format import format_duration, format_number
from epochal.series.eta import remaining_of
from epochal.torch.graph.observe import Points


def write_table(path: str | Path, history: Mapping[str, Points]) -> None:
    """Write a row per epoch and a column per metric; an epoch without a point has an empty cell.

    Numbers are written so that reading them gives the same number back.
    """
    with new_text_file(path) as out:
        table = csv.writer(out, lineterminator="\n")
        table.writerow(["epoch", *history])
        for epoch, row in _rows(history):
            table.writerow([epoch, *(repr(row[name]) if name in row else "" for name in history)])


def write_epochs(
    path: str | Path,
    history: Mapping[str, Points],
    *,
    total_epochs: int,
    seconds: Sequence[float],
    first_timed: int,
) -> None:
    """Write a line per epoch; `seconds` are the durations from epoch `first_timed` on.

    The time left is estimated from the durations up to that line; a `total_epochs` of 0 leaves it
    out.
    """
    lines = ["# epochal training log"]
    width = len(str(total_epochs)) if total_epochs else 3
    for epoch, row in _rows(history):
        place = f"{epoch:{width}d}/{total_epochs}" if total_epochs else f"{epoch:3d}"
        figures = "".join(f"  {_one_line(k)}={format_number(v)}" for k, v in row.items())
        lines.append(f"epoch {place}{figures}{_times(epoch, total_epochs, seconds, first_timed)}")
    lines.append(f"# total: {format_duration(math.fsum(seconds))}")
    with new_text_file(path) as out:
        out.write("\n".join(lines) + "\n")


def _times(epoch: int, total: int, seconds: Sequence[float], first: int) -> str:
    done = seconds[: epoch - first + 1] if epoch >= first else []
    if not done:
        return ""
    left_s = remaining_of(done, total=total, done=epoch)
    eta = f"  ETA {format_duration(left_s)}" if left_s else ""
    return f"  [{format_duration(done[-1])}{eta}]"


def _rows(history: Mapping[str, Points]) -> list[tuple[int, dict[str, float]]]:
    rows: dict[int, dict[str, float]] = {}
    for name, points in history.items():
        for flush, value in zip(points.flushes, points.values, strict=True):
            rows.setdefault(flush, {})[name] = value
    return sorted(rows.items())


def _one_line(text: str) -> str:
    return text if text.isprintable() else repr(text)[1:-1]
