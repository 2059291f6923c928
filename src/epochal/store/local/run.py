"""One run on disk: its numbers and records; the rest is in ``listed_run.py``."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from epochal.errors import MetricNotFoundError, UsageError
from epochal.records import Axis, Position, Record
from epochal.series.reduce import NOTHING_LOGGED, Summary
from epochal.series.series import Series
from epochal.store.answers import Cursor, Entry, Machine, Metric
from epochal.store.local.entries import entries_of, met_errors, recorded_errors
from epochal.store.local.findings import RECORDS_A_LOOK, count_entries
from epochal.store.local.listed_run import ListedRun
from epochal.store.local.state import locked
from epochal.store.local.summaries import RowSummaries, all_series
from epochal.store.metrics import no_metric, set_number


class LocalRun(ListedRun):
    """A run on disk with every query of the store about it."""

    # -- numbers ----------------------------------------------------------------------------------

    @locked
    def metrics(self) -> list[Metric]:
        """Every series there is, in order of first appearance."""
        return list(self.row.metrics)

    @locked
    def role(self, role: str) -> Metric | None:
        """The metric that plays a role, defined or guessed."""
        return next((metric for metric in self.row.metrics if metric.role == role), None)

    @locked
    def series(self, name: str, *, rank: int = 0, axis: Axis | None = None) -> Series:
        """Every point of a series; raises ``MetricNotFoundError``, ``FormatError``."""
        key = self._ask(lambda state: state.find(name, axis, rank))
        if key is None:
            raise self._no_metric(name, rank, axis)
        self._held.loaded.used(self)
        series = self._held.series.get(self._key, key, rank)
        if series is None:
            series = self._ask(lambda state: state.series(key, rank))
            self._held.series.put(series, self._key, key, rank)
        return series

    @locked
    def all_series(self, axis: Axis, *, rank: int = 0) -> list[Series]:
        """Every series of a rank on an axis, in order of first appearance; raises ``FormatError``.

        They are not kept for the next query.
        """
        return self._ask(lambda state: all_series(state, axis, rank))

    @locked
    def metric(self, name: str) -> Metric | None:
        """The metric that a name, a role or the end of a name means; None for none."""
        return self._row_summaries.metric(name)

    @locked
    def summary(self, name: str, *, rank: int = 0, axis: Axis | None = None) -> Summary:
        """First, last, extremes and mean of a series, kept; raises ``MetricNotFoundError``."""
        summaries = self._row_summaries
        num_kept = len(summaries.row.summaries)
        found = summaries.find(
            name, axis, rank, ask=self._ask, read=lambda on: self.series(name, rank=rank, axis=on)
        )
        value = set_number(summaries.row.summary_set, name) if rank == 0 else None
        if found is None and (value is None or axis is not None):
            raise self._no_metric(name, rank, axis)
        if len(summaries.row.summaries) > num_kept:
            self._tell_news()
        if value is not None:
            return msgspec.structs.replace(found or NOTHING_LOGGED, last=value, last_step=None)
        assert found is not None
        return found

    @locked
    def latest(self, role: str) -> float | None:
        """The last value of the metric that plays a role on rank 0; None without one."""
        row = self.known_row
        if role not in row.latest:
            if row.is_partial:
                return None
            metric = self.role(role)
            if metric is None or 0 not in metric.ranks:
                return None
            row.latest[role] = self.summary(metric.name, axis=metric.axis).last
        return row.latest[role]

    @property
    def _row_summaries(self) -> RowSummaries:
        row = self.row if self._row is None else self._row
        if self._summaries is None or self._summaries.row is not row:
            self._summaries = RowSummaries(row)
        return self._summaries

    def _no_metric(self, name: str, rank: int, axis: Axis | None) -> MetricNotFoundError:
        run, metrics = self.brief().name, self.row.metrics
        return MetricNotFoundError(no_metric(name, metrics, run=run, rank=rank, axis=axis))

    # -- records ----------------------------------------------------------------------------------

    @locked
    def entries(self, *kinds: str, name: str | None = None, rank: int | None = 0) -> list[Entry]:
        """Records of these kinds in the order of steps, then of time."""
        return self._ask(lambda state: entries_of(state, kinds, name=name, rank=rank))

    @locked
    def blob(self, file: str) -> bytes:
        """The bytes of a blob that a record names."""
        named = {entry.record.get("file") for entry in self.entries("blob", rank=None)}
        if file not in named or Path(file).name != file:
            raise UsageError(f"run {self.brief().name!r} has no blob {file!r}.")
        return self.source.blob(file)

    @locked
    def patch(self) -> bytes:
        """The changes that were not committed, from the file that run.json names."""
        git = self.facts.get("git")
        file = git.get("patch") if isinstance(git, Mapping) else None
        if not isinstance(file, str) or Path(file).name != file:
            return b""
        try:
            return self.source.blob(file)
        except (UsageError, OSError):  # deleted since, or left out of a copy
            return b""

    @locked
    def findings(self, *, most: int | None = RECORDS_A_LOOK) -> list[Entry]:
        """Findings of the health rules, by time; made here where no companion wrote them.

        One call reads at most ``most`` records for that, None reads all; the next call continues.
        """
        status = self.status
        found = self._ask(
            lambda state: self._diagnosis.entries(state, status, rules=self._rules, most=most)
        )
        if self._diagnosis.is_complete and status.state != "running":
            # Lists count what was worked out: here, and by the index in other processes.
            counted = count_entries(found, attempts=self.row.attempts)
            if self.row.worked_out != counted:
                self.row.worked_out = counted
                self._tell_news()
        return found

    @locked
    def internal_errors(self) -> list[Entry]:
        """Faults of Epochal itself: recorded ones by time, then those of reading the run here."""
        met = (*self._diagnosis.guard.faults.values(), self._held.guard.faults.get(self.place))
        return [*self._ask(recorded_errors), *met_errors(*met, now=time.time())]

    @locked
    def machines(self) -> Sequence[Machine]:
        """The newest readings of its machines; none when no companion measures them."""
        return self.source.machines()

    def records(self, since: Cursor | None = None) -> Iterator[tuple[Position, Record]]:
        """Every record as written, writer by writer in file order; after ``since`` if given.

        Hold ``lock`` while iterating where other threads ask the store too.
        """
        return self._reader.records(self._ask(lambda state: state), since, self.lock)

    @locked
    def end(self) -> Cursor:
        """The position of the last record of each writer."""
        state = self._reader.state
        return self.row.end if state is None else state.end()
