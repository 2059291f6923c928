"""What lists are made of: the runs of a store as far as they are known.

A server of twenty thousand runs makes a list for each key that somebody types. What a list needs of
each run is kept here until its row changes.
"""

from __future__ import annotations

import contextlib
import gc
import heapq
import math
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property

from epochal.errors import FormatError, MetricNotFoundError
from epochal.records import Axis
from epochal.series.reduce import Summary
from epochal.store.answers import LIVE_STATES, Metric, Status
from epochal.store.finding_counts import FindingCounts
from epochal.store.local.cache import ChangeCount
from epochal.store.local.run import LocalRun
from epochal.store.projects import BEST_ROLES, ProjectList, ProjectMember, project_list
from epochal.store.row import Row, RowDetails
from epochal.store.selection import search_text_of

# Clocks of machines that share a folder differ by less.
_SKEW_S = 300.0
# Fewer objects are not worth sparing the garbage collector.
_MANY_OBJECTS = 1_000


def by_creation(runs: Sequence[LocalRun]) -> Iterator[LocalRun]:
    """The runs, newest first, each as soon as no newer one can come.

    A run is not younger than its ``run.json``, so the time of that file says when a run that was
    not read yet can come at the earliest. A file whose time was set back comes late.
    """
    bounds = [_latest_creation(run) for run in runs]
    unread = sorted(range(len(runs)), key=lambda number: (bounds[number], -number))
    known: list[tuple[float, int]] = []
    while unread or known:
        while unread and (not known or -known[0][0] < bounds[unread[-1]]):
            number = unread.pop()
            heapq.heappush(known, (-runs[number].created, number))
        yield runs[heapq.heappop(known)[1]]


def _latest_creation(run: LocalRun) -> float:
    """No later than this the run was created; only a time is read of it."""
    if run.is_outlined:
        return run.created
    try:
        return os.stat(os.path.join(run.place, "run.json")).st_mtime + _SKEW_S
    except OSError:  # a run without the file, or of another tracker
        return math.inf


TailKey = tuple[str, str, int]
# Runs that a list could not judge; with the last points that it needs, where those are missing.
Unread = dict["KnownRun", tuple[Metric, int] | None]

# The last points of so many runs are read whatever the clock says: a short list is whole.
_FEW = 100


class _Judging(threading.local):
    """The list that a thread makes: until when it reads points, and which runs it left."""

    def __init__(self) -> None:
        self.until = math.inf
        self.num_read = 0
        self.left: Unread | None = None

    def may_read(self) -> bool:
        self.num_read += 1
        return self.num_read <= _FEW or time.monotonic() < self.until

    def leave(self, run: KnownRun, tail: tuple[Metric, int] | None) -> None:
        if self.left is not None:
            self.left[run] = tail


_judging = _Judging()


@contextmanager
def judging(*, budget_s: float) -> Iterator[Unread]:
    """Have queries read last points for about so many seconds; the runs that could not be judged.

    A statistic of the last points takes a look into the journal of every run. Of thousands of
    runs, that is more than a list may take.
    """
    left: Unread = {}
    _judging.until, _judging.num_read, _judging.left = time.monotonic() + budget_s, 0, left
    try:
        yield left
    finally:
        _judging.until, _judging.left = math.inf, None


class KnownRun:
    """A run as queries see it while lists are made: only what is known of it, nothing is read."""

    __slots__ = ("_lowest", "_member", "_search_text", "_tails", "id", "row", "run", "worked_out")

    def __init__(self, run: LocalRun, row: Row) -> None:
        self.run = run
        self.row = row
        self.id = run.id
        self.worked_out = row.worked_out
        self._search_text: str | None = None
        self._lowest: Mapping[str, float] | None = None
        self._member: ProjectMember | None = None
        self._tails: dict[TailKey, Summary | None] | None = None

    def is_of(self, row: Row | None) -> bool:
        """Whether this was made of a row as it is now."""
        return self.row is row and self.worked_out is row.worked_out and self.id == self.run.id

    @property
    def status(self) -> Status:
        """As ``outline`` has it."""
        return self.run.known_status

    @property
    def found(self) -> FindingCounts | None:
        """How much was found; None where nobody looked or the run was not read yet."""
        return None if self.row.is_partial else self.run.found

    @property
    def search_text(self) -> str:
        """Name, id and tags in lower case, a line each."""
        if self._search_text is None:
            self._search_text = search_text_of(self.row, self.id)
        return self._search_text

    def metric(self, name: str) -> Metric | None:
        """The metric that a name means; None where the run was not read yet."""
        if self.row.is_partial:
            _judging.leave(self, None)
            return None
        return self.run.metric(name)

    def summary(self, name: str, *, rank: int = 0, axis: Axis | None = None) -> Summary:
        """What a metric amounts to; only asked for a metric that is known."""
        return self.run.summary(name, rank=rank, axis=axis)

    def tail_summary(self, metric: Metric, num_points: int) -> Summary:
        """What the last points of a metric amount to; kept, because it is read from the points.

        Raises ``MetricNotFoundError`` also where the time for reading points is over.
        """
        key = (metric.axis, metric.name, num_points)
        if self._tails is None or key not in self._tails:
            if not _judging.may_read():
                _judging.leave(self, (metric, num_points))
                raise MetricNotFoundError("the last points have not been read yet.")
            self.read_tail(metric, num_points)
        found = None if self._tails is None else self._tails[key]
        if found is None:
            raise MetricNotFoundError(f"{metric.name!r} cannot be read.")
        return found

    def read_tail(self, metric: Metric, num_points: int) -> None:
        """Read the last points of a metric, unless that was done."""
        tails = self._tails = {} if self._tails is None else self._tails
        key = (metric.axis, metric.name, num_points)
        if key in tails:
            return
        try:
            tails[key] = self.run.tail_summary(metric, num_points)
        except (MetricNotFoundError, FormatError):  # reported in the run's own row
            tails[key] = None

    @property
    def member(self) -> ProjectMember:
        """What an overview of projects reads of it; kept of a run that has ended."""
        if self._member is not None:
            return self._member
        row, status = self.row, self.status
        is_late = row.is_partly_watched(status)
        found = self.found if is_late else row.found_by(status)
        member = ProjectMember(
            id=self.id,
            name=row.name,
            project=row.project,
            state=status.state,
            open_errors=0 if found is None else found.open_errors,
            open_warnings=0 if found is None else found.open_warnings,
            owner=row.owner,
            tags=row.tags,
            created=row.created,
            updated=row.updated,
            lowest=self._lowest_losses(),
        )
        if not status.is_live:
            self._member = member
        return member

    def _lowest_losses(self) -> Mapping[str, float]:
        if self._lowest is None:
            details = None if self.row.is_partial else self.row.read_details()
            found = {} if details is None else {r: self._lowest_of(r, details) for r in BEST_ROLES}
            self._lowest = {role: value for role, value in found.items() if value is not None}
        return self._lowest

    def _lowest_of(self, role: str, details: RowDetails) -> float | None:
        """The lowest value of a loss; one that is no number has none."""
        metric = next((metric for metric in details.metrics if metric.role == role), None)
        if metric is None or not metric.ranks:
            return None
        name, axis, rank = metric.name, metric.axis, metric.ranks[0]
        summary = details.summaries.get(f"{axis}/{rank}/{name}")
        if summary is not None:
            return summary.min
        try:
            return self.run.summary(name, rank=rank, axis=axis).min
        except (MetricNotFoundError, FormatError):  # reported in the run's own row
            return None


class KnownList:
    """The known runs of a store, the newest first, and how many of them were not read whole.

    ``listed`` are the runs ``by_id``, the newest first. What is kept of those that have not changed
    since the list ``before`` stays.
    """

    def __init__(
        self,
        by_id: Mapping[str, LocalRun],
        listed: Sequence[LocalRun],
        changes: ChangeCount,
        before: KnownList | None = None,
    ) -> None:
        self._of = by_id
        self._changes = changes
        self._num_changes = changes.value  # before the rows are read
        self._projects: ProjectList | None = None
        kept: Mapping[str, KnownRun] = {} if before is None else before._by_place
        self.runs: list[KnownRun] = []
        self.pending = 0
        for run in listed:
            row = run.row_in_memory
            if row is None:
                self.pending += 1
                continue
            self.pending += row.is_partial
            one = kept.get(run.place)
            if one is None or one.run is not run or not one.is_of(row):
                one = KnownRun(run, row)
            self.runs.append(one)
        self._by_place: Mapping[str, KnownRun] = {one.run.place: one for one in self.runs}

    @cached_property
    def project_names(self) -> Sequence[str]:
        """The projects of these runs, in order."""
        return sorted({one.row.project for one in self.runs})

    def is_current(self, by_id: Mapping[str, LocalRun]) -> bool:
        """Whether this is the list of these runs as they are."""
        return self._of is by_id and self._num_changes == self._changes.value

    def projects(self, num_waiting: int) -> ProjectList:
        """The projects of these runs; kept where no run is live."""
        if self._projects is not None:
            return self._projects
        pending = num_waiting + self.pending
        found = project_list([one.member for one in self.runs], pending=pending)
        if not pending and not any(s in LIVE_STATES for row in found.projects for s in row.states):
            self._projects = found
        return found


@contextlib.contextmanager
def without_collections(*, is_first: bool) -> Iterator[None]:
    """Keep the garbage collector from going through the rows of thousands of runs as they come.

    Those of the first look stay, so they join its oldest generation at once. As new objects they
    would be visited again and again, for a quarter of the time of the look.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            if is_first and gc.get_count()[0] > _MANY_OBJECTS and not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def read_row(run: LocalRun, until: float, *, whole: bool) -> bool:
    """Have a row of a run; False when the time is up. One that is being read is passed over."""
    if time.monotonic() > until:
        return False
    if run.lock.acquire(blocking=False):
        try:
            _ = run.row if whole else run.known_row
        finally:
            run.lock.release()
    return True
