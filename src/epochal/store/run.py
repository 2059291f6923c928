"""One run, with every query of the store about it."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from epochal.errors import UsageError
from epochal.exchange.media.stored import StoredSample
from epochal.health.finding import Evaluated
from epochal.health.rule_settings import RuleSettings, recorded_rules
from epochal.journal.blobs import files_of, open_blob
from epochal.journal.diagnosis import Diagnosis
from epochal.journal.entries import Cursor, Entry, by_time
from epochal.journal.fold import RunMetrics
from epochal.journal.labels import LabelsEdit
from epochal.journal.layout import RunFolder, is_patch, parse_part_name
from epochal.journal.metrics import Metric, set_metrics, set_role
from epochal.journal.regular_file import read_regular
from epochal.journal.row import Labels, RunRow, SeriesSummary, Status
from epochal.journal.state import AXES, RunState, StalePartError
from epochal.journal.summaries import count_findings, diagnosis_of, last_value
from epochal.records import DENSE_KINDS, Axis, Position, Record
from epochal.series.blocks import Downsampled
from epochal.series.importance import Importance
from epochal.series.series import Series
from epochal.series.summary import Summary
from epochal.store.cache import SERIES_BYTES, locked
from epochal.store.findings import (
    RECORDS_A_LOOK,
    Judge,
    met_errors,
    recorded_errors,
    without_ending,
)
from epochal.store.goodput import Goodput, goodput
from epochal.store.held import MAX_MOVES, HeldRun
from epochal.store.metrics import formula_series, no_metric, resolve
from epochal.store.row import latest_findings, status_of, with_set_value, with_status
from epochal.store.run_files import Machine, patch_file, read_machines
from epochal.store.status import GONE

# Runs may have 100,000 metrics, and calling the enumeration for each is slow.
_IMPORTANCE = {one.value: one for one in Importance}


class _Listed:
    """The series of a run, by what people ask for."""

    def __init__(self, known: RunMetrics) -> None:
        self.known = known
        self.by_key = {(one.name, one.axis, one.rank): one for one in known.metrics}
        ranks: defaultdict[tuple[str, Axis], list[SeriesSummary]] = defaultdict(list)
        for one in known.metrics:
            ranks[one.name, one.axis].append(one)
        self.metrics = [metric_of(some) for some in ranks.values()]
        self.names = {name for name, _ in ranks}


def metric_of(some: Sequence[SeriesSummary]) -> Metric:
    """The metric of a series of several ranks."""
    first = some[0]
    return Metric(
        name=first.name,
        axis=first.axis,
        ranks=(first.rank,) if len(some) == 1 else tuple(sorted(one.rank for one in some)),
        unit=first.unit,
        goal=first.goal,
        role=first.role,
        x=first.x,
        importance=_IMPORTANCE[first.importance],
    )


class RunView(HeldRun):
    """One run, as of the last look at its files; nothing of it is read before the first query.

    Each method takes ``lock``; see ``RunView.lock``.
    """

    # Series and their meaning, made of what is known.
    _listed: _Listed | None = None
    # The status of a row that has ended.
    _ended: tuple[RunRow, Status] | None = None
    # The files that records name, and the end of the records when they were collected.
    _blob_types: tuple[Cursor, Mapping[str, str]] | None = None

    @cached_property
    def _judge(self) -> Judge:
        return Judge()

    @property
    def _series_known(self) -> _Listed:
        known = self.known
        if self._listed is None or self._listed.known is not known:
            self._listed = _Listed(known)
        return self._listed

    @property
    def rules(self) -> RuleSettings:
        """The settings of rules that the run recorded, else the reader's."""
        rules = self.source.run_json.get("rules")
        return self._held.rules if rules is None else recorded_rules(rules)

    # -- the run as a whole -----------------------------------------------------------------------

    @property
    def id(self) -> str:
        """The id of this run and of no other in its store."""
        return self.listed_id or self.own_id

    @property
    def created(self) -> float:
        """When the run was created, in Unix seconds; None where nothing says it."""
        return self.outline_row().created or 0.0

    @locked
    def outline(self) -> RunRow:
        """Like ``info``, without reading a run that was not summarised; see ``is_summarised``."""
        row = self.outline_row()
        return with_status(row, self._status_of(row), run_id=self.id)

    @property
    @locked
    def info(self) -> RunRow:
        """The run in one row; the status is derived again at every call."""
        row = self.read_row()
        return with_status(row, self._status_of(row), run_id=self.id)

    @property
    @locked
    def status(self) -> Status:
        """The status of the run, derived again at every call."""
        return self._status_of(self.read_row())

    def _status_of(self, row: RunRow) -> Status:
        if self.source.origin is not None:
            return row.status
        if self._ended is not None and self._ended[0] is row:
            return self._ended[1]
        status = status_of(row, now=time.time(), grew=self.grew_at)
        if not status.is_live and status.text != GONE:
            # What has ended stays so, and a process that is gone does not come back.
            self._ended = (row, status)
        return status

    @property
    @locked
    def config(self) -> Mapping[str, Any]:
        """What the run was configured with, options set later included."""
        row = self.read_row()
        if not row.is_cut:
            return row.config
        given = self.source.run_json.get("config")
        return {**(given if isinstance(given, dict) else {}), **self.known.facts.config}

    @property
    @locked
    def facts(self) -> Mapping[str, Any]:
        """Everything that was recorded about how the run was started."""
        self._look_once()
        return dict(self.source.run_json or self._ask(lambda state: state.header or {}))

    @property
    @locked
    def labels(self) -> Labels:
        """What people changed later."""
        return self.outline_row().labels

    @locked
    def relabel(self, edit: LabelsEdit) -> None:
        """Edit the labels that are stored now; no edit is lost when several come at once.

        Raises ``OSError`` when they cannot be stored, and ``UsageError`` for a name, a tag or a
        note that is too long or holds control characters.

        Args:
            edit: What changes.
        """
        self.source.relabel(edit)
        self.refresh()

    # -- numbers ----------------------------------------------------------------------------------

    @locked
    def metrics(self) -> list[Metric]:
        """Every series there is, in order of first appearance."""
        return list(self._series_known.metrics)

    @locked
    def set_metrics(self) -> list[Metric]:
        """The numbers that the program set with ``run.summary`` under names that no series has.

        Their axis is ``none``: they have a summary and no points.
        """
        listed, row = self._series_known, self.read_row()
        return set_metrics(row.summary, listed.names, listed.known.facts.definitions)

    @locked
    def role(self, role: str) -> Metric | None:
        """The metric that plays a role (``epochal.records.ROLES``), defined or guessed.

        Args:
            role: The role.
        """
        return next((one for one in self._series_known.metrics if one.role == role), None)

    @locked
    def metric(self, name: str) -> Metric | None:
        """The metric of a name; else of a role; else one whose name ends in ``/name``.

        It may be one of ``set_metrics``, or the result of a formula.

        Args:
            name: The name, role, or end of a name.
        """
        return resolve(name, self._series_known.metrics, self.set_metrics())

    @locked
    def series(self, name: str, *, rank: int = 0, axis: Axis | None = None) -> Series:
        """Every point of a series; the step axis goes first where a name is on several.

        The name may be a formula (``query/formula.py``) where no metric is named like that. Raises
        ``MetricNotFoundError``, and ``FormatError`` where the points cannot be read.

        Args:
            name: The metric.
            rank: The rank of a distributed run.
            axis: ``step``, ``epoch`` or ``time``.
        """
        key = self._ask(lambda state: state.find(name, axis, rank))
        if key is None:
            return self._formula(name, rank, axis)
        series, more_bytes = self._series.get((key, rank)), 0
        if series is None:
            series = self._ask(lambda state: state.series(key, rank))
            more_bytes = series.nbytes
            if self._series_bytes + more_bytes > SERIES_BYTES:
                self._drop_series()
            self._series[key, rank] = series
            self._series_bytes += more_bytes
        self._held.loaded.used(self, more_bytes=more_bytes)
        return series

    @locked
    def downsample(
        self,
        name: str,
        pixels: int,
        *,
        rank: int = 0,
        axis: Axis | None = None,
        lo: float | None = None,
        hi: float | None = None,
    ) -> Downsampled | None:
        """What a chart along the series' own axis shows, where that needs few of its points.

        None where it needs all of them: ask for the series then.

        Args:
            name: The metric.
            pixels: The width of the chart.
            rank: The rank of a distributed run.
            axis: ``step``, ``epoch`` or ``time``.
            lo: The lowest position; None for no bound.
            hi: The highest position; None for no bound.
        """

        def query(state: RunState) -> Downsampled | None:
            key = state.find(name, axis, rank)
            blocks = None if key is None else state.blocks(key, rank)
            return None if blocks is None else blocks.downsample(pixels, lo=lo, hi=hi)

        return self._ask(query)

    @locked
    def all_series(self, axis: Axis, *, rank: int = 0) -> list[Series]:
        """Every series of a rank on an axis, in order of first appearance; read together.

        Raises ``FormatError`` where the points cannot be read.

        Args:
            axis: ``step``, ``epoch`` or ``time``.
            rank: The rank of a distributed run.
        """
        return self._ask(lambda state: state.all_series(axis, rank))

    @locked
    def goodput(self) -> Goodput | None:
        """Productive time over wall time across attempts; None before the first step.

        None also for runs that another tracker wrote: their files do not say when they started.
        """
        if self.tracker is not None:
            return None
        status = self._status_of(self.read_row())
        return self._ask(lambda state: goodput(state, status))

    @locked
    def summary(self, name: str, *, rank: int = 0, axis: Axis | None = None) -> Summary:
        """Last, extremes and mean of a series; cheap, also for many runs.

        Raises ``MetricNotFoundError``, and ``FormatError`` where the points cannot be read.

        Args:
            name: The metric.
            rank: The rank of a distributed run.
            axis: ``step``, ``epoch`` or ``time``.
        """
        row, listed = self.read_row(), self._series_known
        axes = AXES if axis is None else (axis,)
        key = next((key for on in axes if (key := (name, on, rank)) in listed.by_key), None)
        found = None
        if key is not None:
            found = listed.by_key[key].summary
            if found is None:  # only its points tell
                found = self.series(name, rank=rank, axis=key[1]).summary
        is_series = name in listed.names or axis not in (None, "none")
        found = with_set_value(row, name, rank, found, is_series=is_series)
        return self._formula(name, rank, axis).summary if found is None else found

    @locked
    def tail_summary(self, metric: Metric, num_points: int) -> Summary:
        """The summary of the last points of the lowest rank that has a metric.

        Args:
            metric: The metric.
            num_points: How many points at its end.
        """
        series = self.series(metric.name, rank=metric.ranks[0], axis=metric.axis)
        return series.select(slice(-num_points, None)).summary

    @locked
    def latest(self, role: str) -> float | None:
        """The last value of the metric that plays a role on rank 0, as far as ``outline`` reads.

        None without one, and where only the whole run would say it.

        Args:
            role: The role.
        """
        row = self.outline_row()
        if not row.is_summarised:
            return None
        if row.of_role(role) is not None or self.source.origin is not None:
            return last_value(row, role)
        metric = self.role(role) or set_role(role, self.set_metrics())
        if metric is None or 0 not in metric.ranks:
            return None
        return self.summary(metric.name, axis=metric.axis).last

    def _formula(self, name: str, rank: int, axis: Axis | None) -> Series:
        """The result of a formula; ``MetricNotFoundError`` for a name that is none."""
        metrics = self._series_known.metrics
        found = formula_series(name, metrics, self, rank=rank, axis=axis)
        if found is None:
            raise no_metric(name, (self.read_row().name, metrics), rank=rank, axis=axis)
        return found

    # -- records ----------------------------------------------------------------------------------

    @locked
    def kinds(self) -> Set[str]:
        """The kinds of records that the run has, as far as ``entries`` returns them."""
        return self._ask(lambda state: state.kinds())

    @locked
    def entries(self, *kinds: str, name: str | None = None, rank: int | None = 0) -> list[Entry]:
        """Records of these kinds by step, then by time; ``rank=None`` for all ranks.

        Kinds that are nothing but numbers raise ``UsageError``: they are series.

        Args:
            kinds: Kinds of records.
            name: The name of the records; all of them if you give none.
            rank: The rank; None for all ranks.
        """
        if not self._may_have(*kinds):
            return []
        return self._ask(lambda state: state.entries(*kinds, name=name, rank=rank))

    def _may_have(self, *kinds: str) -> bool:
        """Return False if the row says that there are no such records, so that none are read."""
        if self._state is not None or self.source.origin is not None:
            return True
        recorded = self.read_row().recorded
        return not recorded or not DENSE_KINDS.union(recorded).isdisjoint(kinds)

    @locked
    def blob_types(self) -> Mapping[str, str]:
        """The media types of all files that records name: ``blob`` returns these and no others."""
        end = self.end()
        if self._blob_types is None or self._blob_types[0] != end:
            named: dict[str, str] = {}
            for entry in self.entries("blob", "file", rank=None):
                named.update(files_of(entry.record))
            self._blob_types = end, named
        return self._blob_types[1]

    @locked
    def blob_path(self, file: str) -> Path:
        """Where a file lies that a record names; it may not be encoded yet (``journal/blobs.py``).

        Raises ``UsageError`` for any other file.

        Args:
            file: The name of the file, as the record has it.
        """
        if file not in self.blob_types() or is_patch(file):
            raise UsageError(f"run {self.read_row().name!r} has no file {file!r}.")
        return self.source.blob_path(file)

    @locked
    def patch(self) -> bytes:
        """The changes that were not committed when the run started; empty where it has none."""
        file = patch_file(self.facts)
        try:
            return b"" if file is None else read_regular(self.source.blob_path(file))
        except (UsageError, OSError):  # deleted since, or left out of a copy
            return b""

    @locked
    def findings(self, *, most: int | None = RECORDS_A_LOOK) -> list[Entry]:
        """Findings of the health rules, by time; made from records where no companion wrote them.

        At most so many records are read for that at one call, None for all of them.

        Args:
            most: The largest number of records that are read.
        """
        row, judge, rules = self.read_row(), self._judge, self.rules
        status = self._status_of(row)
        if status.state == "finished" and not self._may_have("finding"):
            facts = self.known.facts
            if facts.is_judged and not facts.num_unwatched:
                return []
        found = self._ask(lambda state: judge.entries(state, status, rules=rules, most=most))
        if judge.is_complete and status.state != "running":
            # Lists show what was found here, and those of other processes by the index.
            told = [one.record() for one in without_ending(found, attempts=row.attempts)]
            counted = count_findings(told)
            if row.counts != counted or row.unwatched:
                self._row = msgspec.structs.replace(
                    row, counts=counted, unwatched=0, diagnosis=self._diagnosed(told)
                )
                self._keep(self._row)
        return found

    @locked
    def diagnosis(self, *, most: int | None = RECORDS_A_LOOK) -> Diagnosis:
        """How the training is: causes with their evidence, notes, and what was not observed.

        Args:
            most: The largest number of records that are read where no companion judged them.
        """
        entries = self.findings(most=most)
        told = [(entry.position.attempt, entry.record) for entry in entries]
        latest = latest_findings(told, attempts=self.read_row().attempts)
        return self._diagnosed([one.record() for one in latest])

    def _diagnosed(self, findings: Iterable[Record]) -> Diagnosis:
        known = self.known
        is_judged = known.facts.is_judged or (self.rules.enabled and bool(known.facts.num_records))
        return diagnosis_of(known, self.source.run_json, findings, is_judged=is_judged)

    @locked
    def evaluated(self) -> Evaluated | None:
        """How many records of steps and metrics the rules saw, of how many.

        None before ``findings`` has read them, and while a companion evaluates the run.
        """
        return self._ask(self._judge.evaluated)

    @locked
    def internal_errors(self) -> list[Entry]:
        """Faults of Epochal itself, each member's first as an ``internal-error`` event.

        Recorded ones by time, then those that members met in reading the run here. ``count`` says
        how often the member failed, as far as that is known. None of them affects the run.
        """
        met = (*self._judge.guard.faults.values(), self._held.guard.faults.get(self.place))
        return [*self._ask(recorded_errors), *met_errors(*met, now=time.time())]

    @locked
    def machines(self) -> Sequence[Machine]:
        """The newest readings of the run's machines; none when no companion measures them."""
        self._look_once()
        return read_machines(self.source.folder, now=time.time())

    def records(self, since: Cursor | None = None) -> Iterator[tuple[Position, Record]]:
        """Every record as written, writer by writer in file order; after ``since`` if given.

        Read as it is iterated: hold ``lock`` meanwhile where other threads ask the store too.
        """
        state, seen = self._ask(lambda state: state), dict(since or {})
        for _ in range(MAX_MOVES):
            try:
                for position, record in state.records(seen):
                    seen[position.writer] = position
                    yield position, record
            except (FileNotFoundError, StalePartError):
                with self.lock:
                    self._catch_up()
                    state = self._load()
            else:
                return
        raise self._too_fast()

    @locked
    def end(self) -> Cursor:
        """The end of the records read so far; ``records`` continues from it."""
        if self._state is not None:
            return self._state.end()
        found: dict[str, Position] = {}
        known = self.known
        for stem in sorted(known.marks):
            name, mark = parse_part_name(f"{stem}.jsonl", ".jsonl"), known.marks[stem]
            if name is not None and mark.records:
                found[name.writer] = Position(*name, mark.records - 1)
        return found

    # -- entries by their usual names --------------------------------------------------------------

    def length(self, axis: Axis) -> int | None:
        """How many steps or epochs it has: as planned, or as recorded if those are more.

        Args:
            axis: ``step``, ``epoch`` or ``time``.
        """
        return self.info.length(axis)

    def histograms(self, name: str | None = None, *, rank: int = 0) -> list[Entry]:
        """Histograms, of one name or of all.

        Args:
            name: The name; all of them if you give none.
            rank: The rank of a distributed run.
        """
        return self.entries("histogram", name=name, rank=rank)

    def texts(self, name: str | None = None, *, rank: int = 0) -> list[Entry]:
        """Text samples, of one name or of all.

        Args:
            name: The name; all of them if you give none.
            rank: The rank of a distributed run.
        """
        return self.entries("text", name=name, rank=rank)

    def samples(self, name: str | None = None, *, rank: int | None = 0) -> list[StoredSample]:
        """Samples of one name or of all, texts included, by step; ``rank=None`` for all ranks.

        Args:
            name: The name; all of them if you give none.
            rank: The rank; None for all ranks.
        """
        return self._as_samples(self.entries("blob", "text", name=name, rank=rank))

    def files(self, name: str | None = None) -> list[StoredSample]:
        """The files of all ranks by time: the newest version of each name is the last one.

        Args:
            name: The name; all of them if you give none.
        """
        return self._as_samples(by_time(self.entries("file", name=name, rank=None)))

    def _as_samples(self, entries: list[Entry]) -> list[StoredSample]:
        return [StoredSample(entry.record, self.blob_path, rank=entry.rank) for entry in entries]

    def open_blob(self, file: str) -> BinaryIO:
        """A file that a record names, which may be large; raises ``UsageError`` for any other.

        Args:
            file: The name of the file, as the record has it.
        """
        path = self.blob_path(file)
        return open_blob(RunFolder(path.parent.parent), path.name)

    def blob(self, file: str) -> bytes:
        """All bytes of a file that a record names.

        Args:
            file: The name of the file, as the record has it.
        """
        with self.open_blob(file) as opened:
            return opened.read()

    def messages(self) -> list[Entry]:
        """Messages of all ranks, by time."""
        return by_time(self.entries("message", rank=None))

    def events(self) -> list[Entry]:
        """Events of all ranks, by time."""
        return by_time(self.entries("event", rank=None))
