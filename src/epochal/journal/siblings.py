"""Whether a run is worse than runs that differ from it in the seed alone.

It needs only the rows of a project. So the companion can ask at the end of a run, and a reader can
at any time; the answer changes with every further run, so it is never stored.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from epochal.journal.row import RunRow, SeriesSummary
from epochal.records.format import format_number
from epochal.records.values import flat_items
from epochal.series.statistics import t_quantile

# Of a project, so many of the newest rows are read.
MOST_ROWS = 50
_FEWEST = 3
_SPREADS = 3.0
_MAD = 1.4826
# Few siblings show too little of their spread: one more run is within this limit so often.
_USUAL = 0.99
# Below this share of the level, a spread is rounding.
_LEAST_SHARE = 0.005
# A sibling is as long as the run, up to this share of its steps.
_AS_LONG = 0.02


class Unexplained(NamedTuple):
    """A run that is worse than all its siblings, by so many of their spreads.

    ``typical`` is their median.
    """

    metric: str
    value: float
    typical: float
    spread: float
    siblings: int

    @property
    def sentence(self) -> str:
        """What is wrong, with its numbers."""
        by = abs(self.value - self.typical) / self.spread
        value, typical, spread = map(format_number, (self.value, self.typical, self.spread))
        return (
            f"{self.metric} ended at {value}. {self.siblings} runs that differ in the seed alone"
            f" ended at {typical} in the median, with a spread of {spread}: this run is worse than"
            f" all of them, by {by:.3g} spreads, and nothing that was recorded explains it."
        )


def unexplained(own: RunRow, rows: Iterable[RunRow]) -> Unexplained | None:
    """How much worse a run is than its siblings; None where that is usual, or has a cause.

    An open warning or error is a cause. A configuration that was cut is not compared.
    """
    metric = _metric(own)
    seedless = _seedless(own)
    if metric is None or metric.last is None or seedless is None or _has_cause(own):
        return None
    values = [
        value
        for row in rows
        if row.id != own.id and _is_sibling(row, own, seedless)
        if (value := _last(row, metric.name)) is not None
    ]
    if len(values) < _FEWEST:
        return None
    sign = -1.0 if metric.goal == "max" else 1.0
    known, value = sign * np.array(values), sign * metric.last
    typical = float(np.median(known))
    spread = _MAD * float(np.median(np.abs(known - typical)))
    spread = max(spread, _LEAST_SHARE * abs(typical), float(np.finfo(float).tiny))
    wide = float(known.std(ddof=1)) * math.sqrt(1 + 1 / known.size)
    usual = t_quantile(_USUAL, known.size - 1) * wide
    if value <= known.max() or value - typical <= max(_SPREADS * spread, usual):
        return None
    return Unexplained(metric.name, metric.last, sign * typical, spread, known.size)


def _metric(row: RunRow) -> SeriesSummary | None:
    named = row.of_role("eval_loss") or row.of_role("loss")
    return named or next((each for each in row.headline if each.goal is not None), None)


def _last(row: RunRow, name: str) -> float | None:
    return next((each.last for each in row.headline if each.name == name), None)


def _seedless(row: RunRow) -> Mapping[str, Any] | None:
    """The configuration without seeds; None where it has no seed, or was cut."""
    items = dict(flat_items(row.config))
    rest = {key: value for key, value in items.items() if not key.lower().endswith("seed")}
    return rest if len(rest) < len(items) and not row.is_cut else None


def _is_sibling(row: RunRow, own: RunRow, seedless: Mapping[str, Any]) -> bool:
    steps, own_steps = row.step or 0, own.step or 0
    return (
        row.project == own.project
        and row.is_ended
        and not (row.hidden or row.nonfinite or _has_cause(row))
        and abs(steps - own_steps) <= _AS_LONG * max(steps, own_steps)
        and _seedless(row) == seedless
    )


def _has_cause(row: RunRow) -> bool:
    counts = row.counts
    return counts is not None and bool(counts.open_errors or counts.open_warnings)
