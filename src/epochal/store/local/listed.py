"""The runs of a list as queries see them: rows of the index, without opening a run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

from epochal.base.guard import Guard
from epochal.errors import FormatError, MetricNotFoundError
from epochal.journal.metrics import Metric
from epochal.journal.row import RunRow, Status
from epochal.query import filter as q
from epochal.records import Axis
from epochal.series.summary import Summary
from epochal.store.catalog import KnownRuns
from epochal.store.local.index import Answer, Index, decode_answer, decoded_row
from epochal.store.row import status_of, with_set_value, with_status
from epochal.store.run import RunView, metric_of
from epochal.store.selection import Selection, Subject


@dataclass(slots=True, eq=False)
class Entry:
    """A run that a scan found, and what is known of it.

    ``signature`` is of its files at the last look, None before the first; of a run that has ended
    and ``is_settled`` its beginning is enough. ``is_current``: the index has the row of the files
    as they are.
    ``outline`` is the row of a run that nobody has summarised. ``run`` keeps a live run in memory.
    """

    place: str
    index: Index
    signature: str | None = None
    is_settled: bool = False
    own_id: str | None = None
    id: str | None = None
    created: float | None = None
    is_current: bool = False
    outline: RunRow | None = None
    run: RunView | None = None

    @property
    def is_unindexed(self) -> bool:
        """Whether the index could not keep its row: then the run itself has it."""
        return self.run is not None and not self.run.is_indexed


def known_entry(index: Index, known: tuple[str, str, int, str, float]) -> Entry:
    """A run that the index has a row of."""
    place, signature, is_settled, own_id, created = known
    return Entry(
        place, index, signature, bool(is_settled), own_id, created=created, is_current=True
    )


def known_entries(index: Index, *, is_unsettled: bool = False) -> Iterator[Entry]:
    """Every run that the index has a row of, or those that are not settled."""
    return (known_entry(index, known) for known in index.known(is_unsettled=is_unsettled))


class ListReader:
    """Opens the runs of a list, and decodes their rows.

    It keeps the row that was decoded last: a query asks for several fields of a run, then for the
    next run, and the rows of all runs would fill the memory.
    """

    def __init__(self, open_run: Callable[[Entry], RunView]) -> None:
        self.open = open_run
        self._last: tuple[bytes, RunRow] | None = None
        # By name, what the index knows under it of all runs.
        self._answers: dict[tuple[Index, str], dict[str, bytes]] = {}

    def row_of(self, entry: Entry, row: RunRow | bytes) -> RunRow:
        """The row of a run, without status and counts."""
        if not isinstance(row, bytes):
            return row
        if self._last is None or self._last[0] is not row:
            self._last = row, decoded_row(row) or self.open(entry).read_row()
        return self._last[1]

    def answers(self, index: Index, asked: str) -> dict[str, bytes]:
        """By place, what was found in runs under the name of a metric, encoded."""
        found = self._answers.get((index, asked))
        if found is None:
            found = self._answers[index, asked] = index.answers(asked)
        return found


class ListedRun(Subject):
    """A run as the evaluator of queries sees it."""

    __slots__ = ("_packed", "_reader", "_status", "_summaries", "entry")

    def __init__(self, entry: Entry, row: RunRow | bytes, reader: ListReader) -> None:
        self.entry = entry
        self._packed = row
        self._reader = reader
        self._status: Status | None = None
        self._summaries: dict[tuple[str, int, Axis], Summary] = {}

    @property
    def view(self) -> RunView:
        return self._reader.open(self.entry)

    @property
    def row(self) -> RunRow:
        return self._reader.row_of(self.entry, self._packed)

    @property
    def id(self) -> str:
        return self.entry.id or self.row.id

    @property
    def is_summarised(self) -> bool:
        return self.entry.outline is None

    @property
    def status(self) -> Status:
        if self._status is None:
            run = self.entry.run
            grew = None if run is None else run.grew_at
            self._status = status_of(self.row, now=time.time(), grew=grew)
        return self._status

    @property
    def info(self) -> RunRow:
        """Its row at this moment."""
        return with_status(self.row, self.status, run_id=self.id)

    def metric(self, name: str) -> Metric | None:
        """The metric that a name means: of the headline, else what the run itself says."""
        if not self.is_summarised:
            return None
        found = self._of_headline(name)
        if found is not None:
            return found
        answer = self._answer(name)
        if answer is None:
            answer = self._keep(name, self._ask(name))
        if answer.metric is not None and answer.summary is not None:
            rank = answer.metric.ranks[0] if answer.metric.ranks else 0
            self._summaries[answer.metric.name, rank, answer.metric.axis] = answer.summary
        return answer.metric

    def _of_headline(self, name: str) -> Metric | None:
        named = [one for one in self.row.headline if one.name == name]
        named.sort(key=lambda one: one.axis != "step")
        found = named[0] if named else self.row.of_role(name)
        if found is None or found.summary is None:
            return None
        of_run = with_set_value(self.row, found.name, found.rank, found.summary, is_series=True)
        if of_run is not None:
            self._summaries[found.name, found.rank, found.axis] = of_run
        return metric_of([found])

    def _ask(self, name: str) -> Answer:
        run = self.view
        metric = run.metric(name)
        if metric is None or not metric.ranks:
            return Answer(metric, None)
        try:
            return Answer(metric, run.summary(metric.name, rank=metric.ranks[0], axis=metric.axis))
        except (MetricNotFoundError, FormatError):
            return Answer(metric, None)

    def summary(self, name: str, *, rank: int = 0, axis: Axis | None = None) -> Summary:
        found = None if axis is None else self._summaries.get((name, rank, axis))
        return found or super().summary(name, rank=rank, axis=axis)

    def tail_summary(self, metric: Metric, num_points: int) -> Summary:
        """The summary of the last points of a metric; kept with the row once it was read."""
        asked = f"{metric.axis}@{num_points}/{metric.name}"
        answer = self._answer(asked)
        if answer is None or answer.summary is None:
            found = super().tail_summary(metric, num_points)
            self._keep(asked, Answer(metric, found))
            return found
        return answer.summary

    def _answer(self, asked: str) -> Answer | None:
        packed = self._reader.answers(self.entry.index, asked).get(self.entry.place)
        return None if packed is None else decode_answer(packed)

    def _keep(self, asked: str, answer: Answer) -> Answer:
        index, place, signature = self.entry.index, self.entry.place, self.entry.signature
        if signature is not None and not self.entry.is_unindexed:
            packed = index.put_answer(place, asked, signature, answer)
            self._reader.answers(index, asked)[place] = packed
        return answer


class LazyRuns(Sequence[RunView]):
    """Runs of a list, each opened when it is asked for."""

    def __init__(self, entries: Sequence[Entry], open_run: Callable[[Entry], RunView]) -> None:
        self._entries = entries
        self._open = open_run

    @property
    def ids(self) -> list[str]:
        """Their ids; opens none of them."""
        return [entry.id or "" for entry in self._entries]

    def __len__(self) -> int:
        return len(self._entries)

    @overload
    def __getitem__(self, place: int) -> RunView: ...
    @overload
    def __getitem__(self, place: slice) -> LazyRuns: ...
    def __getitem__(self, place: int | slice) -> RunView | LazyRuns:
        if isinstance(place, slice):
            return LazyRuns(self._entries[place], self._open)
        return self._open(self._entries[place])

    def __iter__(self) -> Iterator[RunView]:
        return map(self._open, self._entries)


def newest_first(entry: Entry) -> tuple[float, str]:
    """Orders runs by creation, the newest first."""
    return -(entry.created or 0.0), entry.place


def known_runs(
    selection: Selection,
    entries: list[Entry],
    listed: Callable[[q.Filter | None], list[ListedRun]],
    open_run: Callable[[Entry], RunView],
    *,
    guard: Guard,
    limit: int | None,
    projects: Sequence[str],
) -> KnownRuns:
    """A list over an index; ``listed`` has at least the runs that a condition selects, in order."""
    found, groups = entries, list[tuple[tuple[Any, ...], Sequence[RunView]]]()
    if selection.is_everything:  # no row is needed to know which and in which order
        found = sorted(entries, key=newest_first)
    else:
        runs = listed(selection.condition)
        if selection.needs_summary:  # of others nobody knows whether they are meant
            runs = [run for run in runs if run.is_summarised]
        chosen = selection.of(runs, guard.select)
        found = [run.entry for run in chosen]
        groups = [
            (values, LazyRuns([run.entry for run in some], open_run))
            for values, some in (() if selection.group is None else selection.group(chosen))
        ]
    unsummarised = sum(entry.outline is not None for entry in entries)
    runs_found = LazyRuns(found[:limit], open_run)
    return KnownRuns(runs_found, unsummarised, groups, stored=len(entries), projects=projects)
