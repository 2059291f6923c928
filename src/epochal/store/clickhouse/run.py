"""One run of a ClickHouse store: charts are cut into slices by the server."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

from epochal.records import Axis
from epochal.segments.columns import SeriesKey
from epochal.store.answers import Cursor, Metric, Slices
from epochal.store.clickhouse.charts import Bounds, StoredSeries, Visible
from epochal.store.clickhouse.rows import first_place
from epochal.store.clickhouse.source import ClickHouseSource
from epochal.store.local.cache import MemoryBudget, locked
from epochal.store.local.index import RowIndex
from epochal.store.local.row import unread_row
from epochal.store.local.run import LocalRun
from epochal.store.local.state import RunState
from epochal.store.metrics import resolve
from epochal.store.row import StoredRow


class ClickHouseRun(LocalRun):
    """A run whose parts answer from the tables.

    What is known of its metrics does not wait for their summaries, as it does in a folder.
    """

    def __init__(
        self,
        source: ClickHouseSource,
        *,
        held: MemoryBudget,
        index: RowIndex,
        signature: str | None,
    ) -> None:
        super().__init__(source, held=held, index=index, signature=signature)
        self._rows = source

    def _partial_row(self, own_id: str) -> StoredRow:
        return unread_row(self.source, own_id=own_id, updated=self.source.newest_s)

    @property
    @locked
    def config(self) -> Mapping[str, Any]:
        """What the run was configured with, options set later included."""
        given = self.source.run_json.get("config")
        given = given if isinstance(given, dict) else {}
        return {**given, **self._ask(lambda state: state.config)}

    @locked
    def metrics(self) -> list[Metric]:
        """Every series there is, in order of first appearance."""
        return list(self._ask(lambda state: state.metrics))

    @locked
    def set_metrics(self) -> list[Metric]:
        """The numbers that the program set with ``run.summary`` under names that no series has."""
        return list(self._ask(lambda state: state.set_metrics))

    @locked
    def metric(self, name: str) -> Metric | None:
        """The metric that a name, a role or the end of a name means; None for none."""
        return self._ask(lambda state: resolve(name, state.metrics, state.set_metrics))

    @locked
    def end(self) -> Cursor:
        """The position of the last record of each writer."""
        return self._ask(RunState.end)

    @locked
    def slices(
        self,
        name: str,
        pixels: int,
        *,
        rank: int = 0,
        axis: Axis | None = None,
        lo: float | None = None,
        hi: float | None = None,
    ) -> Slices | None:
        """A series in the width of a chart; None where all of its points are to be read."""
        key = self._ask(lambda state: state.find(name, axis, rank))
        if key is None or key.axis == "none" or pixels == 0:
            return None
        series = self._ask(lambda state: self._series_of(state, key, rank, is_cut=True))
        parts = series.bounds()
        ends = (min(one.lo for one in parts), max(one.hi for one in parts)) if parts else (0, 0)
        if not (lo is None and hi is None):
            parts = series.bounds(lo, hi)
        num_stored = sum(one.num_points for one in parts)
        if num_stored <= pixels:
            return None
        first, last = min(one.lo for one in parts), max(one.hi for one in parts)
        bounds = (first if lo is None else lo, last if hi is None else hi)
        if bounds[0] == bounds[1]:
            return None
        repeats = any(one.has_repeats for one in series.visible)
        repeats |= key.axis != "time" and _overlap(parts)
        count, finite, *columns = series.slices(bounds, pixels, has_repeats=repeats).T
        num_points, num_nonfinite = int(count.sum()), int((count - finite).sum())
        if num_points <= pixels:
            return None
        low, high, low_known, high_known, *values = columns
        is_known, marks, duplicates, hidden = finite > 0, np.empty((0, 2)), 0, 0
        if num_nonfinite:
            marks = series.nonfinite(bounds, pixels, has_repeats=repeats)
        if num_stored > num_points and key.axis != "time":
            duplicates = series.num_logged(*bounds) - num_points
        if any(one.cut is not None for one in series.visible):
            every = self._ask(lambda state: self._series_of(state, key, rank, is_cut=False))
            hidden = every.num_logged() - series.num_logged()
        return Slices(
            axis=key.axis,
            columns=(
                np.where(is_known, low_known, low),
                np.where(is_known, high_known, high),
                *(np.where(is_known, column, np.nan) for column in values),
                finite,
            ),
            marks=(marks[:, 0], marks[:, 1]),
            num_points=num_points,
            num_nonfinite=num_nonfinite,
            duplicates=duplicates,
            hidden=hidden,
            lo=ends[0],
            hi=ends[1],
        )

    def _series_of(
        self, state: RunState, key: SeriesKey, rank: int, *, is_cut: bool
    ) -> StoredSeries:
        """The points of a rank's series that count; also those behind a cut unless ``is_cut``."""
        cuts = state.cuts(key.axis) if is_cut else {}
        visible: list[Visible] = []
        for part in state.parts_of(rank):
            if key in part.series_keys():
                first = first_place(part.name)
                end, cut = first + part.facts.num_records, cuts.get(part.name.attempt)
                repeats = self._rows.has_repeats(part.name)
                visible.append(Visible(part.name.writer, first, end, cut, repeats))
        return StoredSeries(self._rows.database.tables, self._rows.place, key, visible)


def _overlap(parts: list[Bounds]) -> bool:
    """Whether a step may be in several parts."""
    ordered = sorted((one.lo, one.hi) for one in parts)
    return any(before[1] >= after[0] for before, after in itertools.pairwise(ordered))
