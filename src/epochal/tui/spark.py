"""Small pictures inside a line: the recent course of a series, and how full something is."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

from epochal.tui.glyphs import Glyphs

RECENT = 240
_COMMON = (3.0, 97.0)  # percentiles
_FULL_FROM, _HIGH_FROM = 0.95, 0.85


def sparkline(values: NDArray[np.float64], columns: int, *, glyphs: Glyphs) -> str:
    """The last points of a series in so many characters, each the mean of its share of them.

    From the lowest to the highest of the characters go the common values: a single spike is as high
    as they get. A place without a finite point has the mark of those.
    """
    recent = values[-RECENT:]
    if columns < 1 or not recent.size:
        return ""
    columns = min(columns, recent.size)
    starts = np.arange(columns) * recent.size // columns
    finite = np.isfinite(recent)
    sums = np.add.reduceat(np.where(finite, recent, 0.0), starts)
    counts = np.add.reduceat(finite.astype(np.float64), starts)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        means = sums / counts
    known = np.isfinite(means)
    if not known.any():
        return glyphs.nonfinite * columns
    low, high = np.percentile(means[known], _COMMON).tolist()
    top = len(glyphs.levels) - 1
    if high > low:
        shares = np.clip((means[known] / 2 - low / 2) / (high / 2 - low / 2), 0, 1)
        heights = np.rint(shares * top).astype(int)
    else:
        heights = np.full(int(known.sum()), top // 2)
    text = np.full(columns, glyphs.nonfinite)
    text[known] = np.array(list(glyphs.levels))[heights]
    return "".join(text)


def meter(share: float, columns: int, *, glyphs: Glyphs, warns: bool = False) -> Text:
    """How full something is, from 0 to 1; with ``warns`` it turns yellow, then red towards 1."""
    share = min(max(0.0, share), 1.0)  # nan is 0
    filled = round(share * columns)
    style = "accent"
    if warns and share >= _HIGH_FROM:
        style = "bad" if share >= _FULL_FROM else "warn"
    return Text.assemble(
        (glyphs.filled * filled, style), (glyphs.empty * (columns - filled), "dim")
    )


def progress_bar(share: float, columns: int, *, glyphs: Glyphs, style: str = "accent") -> Text:
    """How much of a run is done, from 0 to 1."""
    filled = round(min(max(share, 0.0), 1.0) * columns)
    rest = glyphs.progress_left * (columns - filled)
    return Text.assemble((glyphs.progress * filled, style), (rest, "dim"))
