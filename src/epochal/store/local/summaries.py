"""Reads or summarises every series of a run at once, table by table.

The work grows with the points alone.

A table holds series that were logged together, so their steps are looked at once. A series that is
spread over several tables or parts, or whose steps repeat or go back, is left to
``RunState.series``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from epochal.records import Axis
from epochal.series.reduce import Summary, set_summary, summarise_rows
from epochal.series.series import EXACT_UP_TO, Series
from epochal.store.answers import Metric
from epochal.store.local.columns import SeriesKey, SeriesTable
from epochal.store.local.state import AXES, RunState
from epochal.store.metrics import resolve, set_number
from epochal.store.row import Row

_VALUES_AT_ONCE = 1 << 20

Summaries = dict[tuple[SeriesKey, int], Summary]
# Puts a query to the state of a run.
Ask = Callable[[Callable[[RunState], Summaries]], Summaries]


class RowSummaries:
    """The summaries of one row; those that were asked for are kept in it.

    ``is_quickly_read`` says whether the parts that are not sealed are small, however many series
    they have. It lists the run's folder, so it is called only where something has to be read.
    """

    def __init__(self, row: Row, *, is_quickly_read: Callable[[], bool] = lambda: False) -> None:
        self.row = row
        self._is_quickly_read = is_quickly_read
        self._known: dict[tuple[str, Axis | None, int], Summary] = {}
        self._resolved: dict[str, Metric | None] = {}

    def metric(self, name: str) -> Metric | None:
        """The metric that a name, a role or the end of a name means; None for none."""
        if name not in self._resolved:
            self._resolved[name] = resolve(name, self.row.metrics, self.row.details.set_metrics)
        return self._resolved[name]

    def find(
        self, name: str, axis: Axis | None, rank: int, *, ask: Ask, read: Callable[[Axis], Series]
    ) -> Summary | None:
        """The summary of a series or of a number that the program set; None where there is neither.

        What was set replaces the last value that was logged. ``ask`` puts a query to the run's
        state, ``read`` reads the series of the name on an axis.
        """
        found = self._logged(name, axis, rank, ask=ask, read=read)
        value = set_number(self.row.summary_set, name) if rank == 0 else None
        if value is None:
            return found
        if found is not None:
            return msgspec.structs.replace(found, last=value, last_step=None)
        return set_summary(value) if axis in (None, "none") else None

    def _logged(
        self, name: str, axis: Axis | None, rank: int, *, ask: Ask, read: Callable[[Axis], Series]
    ) -> Summary | None:
        known = self._known.get((name, axis, rank))
        if known is None and axis is not None:
            known = self.row.summary(name, axis, rank)
        if known is not None:
            return known
        on = {metric.axis for metric in self._by_name.get(name, ()) if rank in metric.ranks}
        found = next((one for one in (AXES if axis is None else (axis,)) if one in on), None)
        if found is None:
            return None
        summary = self.row.summary(name, found, rank)
        if summary is None and not self.row.summaries:
            self.keep_all(ask)
            summary = self.row.summary(name, found, rank)
        if summary is None:
            summary = read(found).summary
            self.row.keep(name, found, rank, summary)
        self._known[name, axis, rank] = summary
        return summary

    def keep_all(self, ask: Ask) -> None:
        """Keep all summaries that can be worked out together, and the last values of roles.

        Of a large run these are the ones in the footers of its parts.
        """
        first = {m.role: (m.name, m.axis) for m in reversed(self.row.metrics) if m.role is not None}
        roles = {key: role for role, key in first.items()}
        reads = self.row.is_small or self._is_quickly_read()
        for (key, rank), summary in ask(whole_tables if reads else kept_alone).items():
            self.row.keep(key.name, key.axis, rank, summary)
            role = roles.get(key) if rank == 0 else None
            if role is not None:
                said = set_number(self.row.summary_set, key.name)
                self.row.latest.setdefault(role, summary.last if said is None else said)

    @cached_property
    def _by_name(self) -> Mapping[str, Sequence[Metric]]:
        found: dict[str, list[Metric]] = {}
        for metric in self.row.metrics:
            found.setdefault(metric.name, []).append(metric)
        return found


def whole_tables(state: RunState) -> Summaries:
    """The summaries of all series that lie in one part each, by series and rank."""
    return _summaries(state, reads=True)


def kept_alone(state: RunState) -> Summaries:
    """Those of them that the footers of sealed parts have; reads no column."""
    return _summaries(state, reads=False)


def _summaries(state: RunState, *, reads: bool) -> Summaries:
    owners: Counter[tuple[SeriesKey, int]] = Counter()
    for part in state.parts:
        rank = part.facts.origin.rank
        owners.update((key, rank) for key in part.series_keys())
    cuts = {axis: state.cuts(axis) for axis in ("step", "epoch")}
    found: Summaries = {}
    for part in state.parts:
        origin = part.facts.origin
        kept = part.kept_summaries()
        for (name, axis), known in kept.items():
            key = (SeriesKey(name, axis), origin.rank)
            cut = cuts.get(axis, {}).get(origin.attempt)
            last = known.summary.last_step
            if owners[key] == 1 and (cut is None or (last is not None and last < cut)):
                found[key] = known.summary
        if reads and not all(key in kept for key in part.series_keys()):
            for table in part.tables():
                cut = cuts.get(table.axis, {}).get(origin.attempt)
                for name, summary in _of_table(table, cut):
                    key = (SeriesKey(name, table.axis), origin.rank)
                    if owners[key] == 1:
                        found.setdefault(key, summary)
    return found


def _of_table(table: SeriesTable, cut: int | None) -> Iterator[tuple[str, Summary]]:
    along = table.times if table.axis == "time" else table.steps
    if _is_plain(along, is_time=table.axis == "time", cut=cut):
        for names, values in _chunks(table):
            yield from zip(names, summarise_rows(along, values), strict=True)


def all_series(state: RunState, axis: Axis, rank: int) -> list[Series]:
    """Every series of a rank on an axis, as ``RunState.series`` has each."""
    keys = [key for key, ranks in state.ranks.items() if key.axis == axis and rank in ranks]
    parts = state.parts_of(rank)
    owners = Counter(key for part in parts for key in part.series_keys())
    meanings = {(metric.name, metric.axis): metric for metric in state.metrics}
    found: dict[SeriesKey, Series] = {}
    for part in parts:
        if all(owners[key] > 1 for key in part.series_keys()):
            continue
        cut = {} if axis == "time" else state.cuts(axis)
        for table in part.tables():
            if table.axis != axis:
                continue
            along = table.times if axis == "time" else table.steps
            if not _is_plain(along, is_time=axis == "time", cut=cut.get(part.name.attempt)):
                continue
            values = np.ascontiguousarray(table.values.T)
            for column in (table.steps, table.times, values):
                column.flags.writeable = False
            is_exact = ~(np.abs(values).max(axis=1) >= EXACT_UP_TO)
            for name, row, exact in zip(table.names, values, is_exact.tolist(), strict=True):
                key = SeriesKey(name, axis)
                if exact and owners[key] == 1:
                    meaning = meanings[key]
                    found[key] = Series(
                        name,
                        axis,
                        rank,
                        table.steps,
                        table.times,
                        row,
                        goal=meaning.goal,
                        unit=meaning.unit,
                    )
    return [found[key] if key in found else state.series(key, rank) for key in keys]


def _is_plain(along: NDArray[Any], *, is_time: bool, cut: int | None) -> bool:
    """Whether the points stand in order, none replaces another, and no newer attempt hides any."""
    if not along.size:
        return False
    before, after = along[:-1], along[1:]
    is_ascending = bool(np.all(before <= after if is_time else before < after))
    return is_ascending and (cut is None or bool(along[-1] < cut))


def _chunks(table: SeriesTable) -> Iterator[tuple[tuple[str, ...], NDArray[np.float64]]]:
    """The series of a table a few at a time, each as one row."""
    width = max(1, _VALUES_AT_ONCE // max(1, table.values.shape[0]))
    for start in range(0, len(table.names), width):
        names = table.names[start : start + width]
        yield names, np.ascontiguousarray(table.values[:, start : start + width].T)
