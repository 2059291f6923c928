"""Cuts series into the slices of a chart, where their points are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from epochal.segments.columns import SeriesKey
from epochal.store.clickhouse.connection import literal
from epochal.store.clickhouse.rows import unpacked
from epochal.store.clickhouse.schema import POINTS
from epochal.store.clickhouse.tables import Tables, of_series

# Later ones win: children before rank 0 itself, then by attempt, part and ordinal.
_WEIGHT = f"place + if(startsWith(writer, 'child-'), 0, toUInt64({2**63}))"
_KNOWN = "isFinite(v)"
# 0 for nan, 1 and -1 for the infinities.
_KIND = "if(isNaN(v), 0, if(v > 0, 1, -1))"
Range = tuple[float, float]


class Visible(NamedTuple):
    """The points of a series in a part, below the step where a newer attempt took over.

    ``has_repeats``: some steps, or some batches, may be there twice.
    """

    writer: str
    first: int
    end: int
    cut: int | None = None
    has_repeats: bool = False


class Bounds(NamedTuple):
    """The first and last position of a series in a part, and its number of stored points."""

    lo: float
    hi: float
    num_points: int


@dataclass(frozen=True, slots=True)
class StoredSeries:
    """The points of one series of a rank, where they are stored."""

    tables: Tables
    run_id: str
    key: SeriesKey
    visible: Sequence[Visible]

    @property
    def _at(self) -> str:
        return "t" if self.key.axis == "time" else "step"

    def _source(self, lo: float | None = None, hi: float | None = None) -> str:
        pieces = [
            f"(writer = {literal(one.writer)} AND place >= {one.first} AND place < {one.end}"
            + (")" if one.cut is None else f" AND step < {one.cut})")
            for one in self.visible
        ]
        where = f"{of_series(self.run_id, self.key)} AND ({' OR '.join(pieces) or '0'})"
        where += "" if lo is None else f" AND {self._at} >= {lo!r}"
        where += "" if hi is None else f" AND {self._at} <= {hi!r}"
        return f"FROM {self.tables.name(POINTS)} WHERE {where}"

    def bounds(self, lo: float | None = None, hi: float | None = None) -> list[Bounds]:
        """Where it begins and ends between two positions, in each part with points there."""
        answer = self.tables.server.query(
            f"SELECT toFloat64(min({self._at})), toFloat64(max({self._at})), count()"
            f" {self._source(lo, hi)} GROUP BY writer, bitShiftRight(place, 32) FORMAT RowBinary"
        )
        return [Bounds(*row) for row in unpacked(answer, "ddQ")]

    def num_logged(self, lo: float | None = None, hi: float | None = None) -> int:
        """How many points were logged, also where several are at one step."""
        answer = self.tables.server.query(
            f"SELECT uniqExact(writer, place) {self._source(lo, hi)} FORMAT TabSeparatedRaw"
        )
        return int(answer)

    def slices(self, bounds: Range, pixels: int, *, has_repeats: bool) -> NDArray[np.float64]:
        """The slices between two positions, one row each.

        The columns are: number of points and of finite ones, first and last position of all and of
        the finite ones; then last, mean, smallest and largest finite value.
        """
        columns = (
            "toFloat64(count())",
            f"toFloat64(countIf({_KNOWN}))",
            *(f"toFloat64({end}(at))" for end in ("min", "max")),
            *(f"toFloat64({end}If(at, {_KNOWN}))" for end in ("min", "max")),
            f"argMaxIf(v, at, {_KNOWN})",
            *(f"{end}If(v, {_KNOWN})" for end in ("avg", "min", "max")),
        )
        answer = self.tables.server.query(
            f"SELECT {', '.join(columns)} FROM ({self._resolved(bounds, has_repeats)})"
            f" GROUP BY {_slice(bounds, pixels)} AS slice ORDER BY slice FORMAT RowBinary"
        )
        return np.frombuffer(answer, np.float64).reshape(-1, len(columns))

    def nonfinite(self, bounds: Range, pixels: int, *, has_repeats: bool) -> NDArray[np.float64]:
        """Position and kind of values that are no numbers, the first of each kind in each slice."""
        answer = self.tables.server.query(
            f"SELECT toFloat64(min(at)), toFloat64({_KIND} AS kind)"
            f" FROM ({self._resolved(bounds, has_repeats)}) WHERE NOT {_KNOWN}"
            f" GROUP BY {_slice(bounds, pixels)} AS slice, kind ORDER BY min(at) FORMAT RowBinary"
        )
        return np.frombuffer(answer, np.float64).reshape(-1, 2)

    def _resolved(self, bounds: Range, has_repeats: bool) -> str:
        """A query for the points, one for each step, as ``at`` and ``v``."""
        source = self._source(*bounds)
        if not has_repeats:
            return f"SELECT {self._at} AS at, value AS v {source}"
        if self.key.axis == "time":
            return f"SELECT any(t) AS at, any(value) AS v {source} GROUP BY writer, place"
        return f"SELECT step AS at, argMax(value, {_WEIGHT}) AS v {source} GROUP BY step"


def _slice(bounds: Range, pixels: int) -> str:
    """The number of the slice that a position is in, of equal ones between two others."""
    lo, hi = bounds
    return f"least(toInt64(floor((at - ({lo!r})) * {pixels / (hi - lo)!r})), {pixels - 1})"
