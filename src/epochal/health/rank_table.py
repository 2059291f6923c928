"""One figure of every rank at the same step, put side by side as the ranks' records come in."""

from __future__ import annotations

import math
from collections.abc import Mapping

_MOST_STEPS = 512


class RankTable:
    """Rows by step; a row is complete when every rank that has ever given the figure is in it."""

    def __init__(self) -> None:
        self._rows: dict[int, dict[int, float]] = {}
        self._ranks: set[int] = set()

    def push(self, step: int, rank: int, value: float) -> Mapping[int, float] | None:
        """Take in one figure; gives the row that it completes, once."""
        self._ranks.add(rank)
        if not math.isfinite(value):
            self._rows.pop(step, None)
            return None
        row = self._rows.setdefault(step, {})
        row[rank] = value
        if len(row) < max(2, len(self._ranks)):
            if len(self._rows) > _MOST_STEPS:
                del self._rows[next(iter(self._rows))]
            return None
        return self._rows.pop(step)

    def clear(self) -> None:
        """Forget rows and ranks."""
        self._rows.clear()
        self._ranks.clear()
