"""The store: every query that a page, an export, a command or a script makes about runs.

A store reads runs and does not write them. Its engines are packages beside this file, ``local`` for
run folders; ``tests/conformance/test_store.py`` states what each of them must return.

Of the store
    runs          the runs that a query selects, in an order, one page of them; ``query.py`` has the
                  language, ``selection.py`` the fields
    run           the one run with this id, prefix of an id, name or ``project/name``, or the newest
                  one as ``latest`` or ``latest:PROJECT``
    find          the run with exactly this id, which links and positions contain
    refresh       look at the files again: later queries see what was written since
    close         close every file

Of a run
    outline       the same, without reading a run that carries no summary
    info          its row in a list: identity, status, progress, labels, problem
    config        what it was configured with, later options included
    facts         everything run.json says: command, host, git, packages
    status        its status at this moment
    metrics       which series exist: name, axis, unit, goal, role, ranks
    metric, role  the metric of a short name or of a role
    series        every point of one series, exact; its summary and its buckets for a chart
    summary       last, min, max, mean and best of one series, without its points where possible
    goodput       productive time over wall time, and the work that restarts lost
    entries       records of any kind, as they were written: datasets, GPU models, graphs, findings
    histograms, texts, messages, events, findings      entries by their usual names
    samples       pictures, tables, sounds, videos, pages and texts
    files         the files that the program kept with ``run.log_file``
    machines      the newest readings of GPUs and hosts of a live run
    blob          the content of a file that a record names; ``blob_path`` is where it lies, and
                  ``blob_types`` has all of them
    patch         changes of the code that were not committed
    records       every record of every writer in file order, from a position on
    end           the position that ``records(since=…)`` continues from

Changed through a store, and only when a person asks for it
    relabel       name, tags, notes, hidden: what ``labels.json`` holds
    remove        moves a run to the trash; ``trash`` lists, restores and erases what is there
    boards        lists, saves and deletes boards, which belong to projects

Rules that hold for every engine
- A store shows the runs that it was opened on, and nothing else: its list is the only way from a
  text to a run, and no text is a path. So a request may pass its words on to the store it holds.
  ``local/by_path.py`` finds runs by their paths, for people at their own machine.
- The attempts of a run are one series. Where a newer attempt started again at a step, the points of
  older attempts are hidden from that step on. That holds for every rank and every kind of the step
  and the epoch axis. The time axis hides nothing, nor does ``records``.
- Of several values at one step of one rank the last one written counts; ``duplicates`` counts the
  others. Rank 0 includes what its forked children logged, where it has no value of its own.
- Steps may be logged in any order; results ascend. nan and infinities are kept.
- An id belongs to one run of a store. A copied folder contains the id of its original: the store
  appends ``~2`` to it, and ``~3`` to the next.
- A run that cannot be read is listed with its ``problem``; a list never raises because of it.
- Several threads may use one store. Queries of one run wait for each other, queries of different
  runs do not. ``find`` and ``refresh`` wait for no run that is being read.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol

from epochal.errors import MetricNotFoundError as MetricNotFoundError
from epochal.exchange.media.stored import StoredSample
from epochal.health.finding import Evaluated
from epochal.journal.blobs import open_blob
from epochal.journal.boards import Boards
from epochal.journal.entries import Cursor, Entry, by_time
from epochal.journal.layout import RunFolder
from epochal.journal.metrics import Metric
from epochal.journal.row import Labels, RunRow, Status
from epochal.records import Axis, Position, Record
from epochal.series.blocks import Downsampled
from epochal.series.series import Series
from epochal.series.summary import Summary
from epochal.store.answers import LabelsEdit, Machine, TrashedRun
from epochal.store.goodput import Goodput
from epochal.store.projects import ProjectList

# So long a list reads runs that carry no summary.
SUMMARISE_S = 2.0


class RunView(Protocol):
    """One run, as of the last look at its files; engines derive their class of runs from it."""

    # Held by each query of this run; hold it where several results must fit together.
    lock: threading.RLock

    @property
    def id(self) -> str:
        """The id of this run and of no other in its store."""

    @property
    def created(self) -> float | None:
        """When the run was created, in Unix seconds; None where nothing says it."""

    @property
    def info(self) -> RunRow:
        """The run in one row; the status is derived again at every call."""

    def outline(self) -> RunRow:
        """Like ``info``, without reading a run that was not summarised; see ``is_summarised``."""

    @property
    def status(self) -> Status:
        """The status of the run, derived again at every call."""

    @property
    def config(self) -> Mapping[str, Any]:
        """What the run was configured with, options set later included."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """Everything that was recorded about how the run was started."""

    @property
    def labels(self) -> Labels:
        """What people changed later."""

    def refresh(self) -> bool:
        """Read what was written since; True when there was anything."""

    def length(self, axis: Axis) -> int | None:
        """How many steps or epochs it has: as planned, or as recorded if those are more.

        Args:
            axis: ``step``, ``epoch`` or ``time``.
        """
        return self.info.length(axis)

    def metrics(self) -> Sequence[Metric]:
        """Every series there is, in order of first appearance."""

    def set_metrics(self) -> Sequence[Metric]:
        """The numbers that the program set with ``run.summary`` under names that no series has.

        Their axis is ``none``: they have a summary and no points.
        """

    def series(self, name: str, *, rank: int = 0, axis: Axis | None = None) -> Series:
        """Every point of a series; the step axis goes first where a name is on several.

        The name may be a formula (``query/formula.py``) where no metric is named like that. Raises
        ``MetricNotFoundError``, and ``FormatError`` where the points cannot be read.

        Args:
            name: The metric.
            rank: The rank of a distributed run.
            axis: ``step``, ``epoch`` or ``time``.
        """

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
        return None

    def all_series(self, axis: Axis, *, rank: int = 0) -> Sequence[Series]:
        """Every series of a rank on an axis, in order of first appearance; read together.

        Raises ``FormatError`` where the points cannot be read.

        Args:
            axis: ``step``, ``epoch`` or ``time``.
            rank: The rank of a distributed run.
        """

    def summary(self, name: str, *, rank: int = 0, axis: Axis | None = None) -> Summary:
        """Last, extremes and mean of a series; cheap, also for many runs.

        Raises ``MetricNotFoundError``, and ``FormatError`` where the points cannot be read.

        Args:
            name: The metric.
            rank: The rank of a distributed run.
            axis: ``step``, ``epoch`` or ``time``.
        """

    def goodput(self) -> Goodput | None:
        """Productive time over wall time across attempts; None before the first step.

        None also for runs that another tracker wrote: their files do not say when they started.
        """

    def metric(self, name: str) -> Metric | None:
        """The metric of a name; else of a role; else one whose name ends in ``/name``.

        It may be one of ``set_metrics``, or the result of a formula.

        Args:
            name: The name, role, or end of a name.
        """

    def role(self, role: str) -> Metric | None:
        """The metric that plays a role (``epochal.records.ROLES``), defined or guessed.

        Args:
            role: The role.
        """

    def latest(self, role: str) -> float | None:
        """The last value of the metric that plays a role on rank 0, as far as ``outline`` reads.

        None without one, and where only the whole run would say it.

        Args:
            role: The role.
        """

    def kinds(self) -> Set[str]:
        """The kinds of records that the run has, as far as ``entries`` returns them."""

    def entries(self, *kinds: str, name: str | None = None, rank: int | None = 0) -> list[Entry]:
        """Records of these kinds by step, then by time; ``rank=None`` for all ranks.

        Kinds that are nothing but numbers raise ``UsageError``: they are series.

        Args:
            kinds: Kinds of records.
            name: The name of the records; all of them if you give none.
            rank: The rank; None for all ranks.
        """

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

    def blob_types(self) -> Mapping[str, str]:
        """The media types of all files that records name: ``blob`` returns these and no others."""

    def blob_path(self, file: str) -> Path:
        """Where a file lies that a record names; it may not be encoded yet (``journal/blobs.py``).

        Raises ``UsageError`` for any other file.

        Args:
            file: The name of the file, as the record has it.
        """

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

    def patch(self) -> bytes:
        """The changes that were not committed when the run started; empty where it has none."""
        return b""

    def messages(self) -> list[Entry]:
        """Messages of all ranks, by time."""
        return by_time(self.entries("message", rank=None))

    def events(self) -> list[Entry]:
        """Events of all ranks, by time."""
        return by_time(self.entries("event", rank=None))

    def findings(self, *, most: int | None = 50_000) -> list[Entry]:
        """Findings of the health rules, by time; made from records where no companion wrote them.

        At most so many records are read for that at one call, None for all of them.

        Args:
            most: The largest number of records that are read.
        """

    def evaluated(self) -> Evaluated | None:
        """How many records of steps and metrics the rules saw, of how many.

        None before ``findings`` has read them, and while a companion evaluates the run.
        """

    def internal_errors(self) -> list[Entry]:
        """Faults of Epochal itself, each member's first as an ``internal-error`` event.

        Recorded ones by time, then those that members met in reading the run here. ``count`` says
        how often the member failed, as far as that is known. None of them affects the run.
        """

    def machines(self) -> Sequence[Machine]:
        """The newest readings of the run's machines; none when no companion measures them."""

    def records(self, since: Cursor | None = None) -> Iterator[tuple[Position, Record]]:
        """Every record as written, writer by writer in file order; after ``since`` if given.

        Read as it is iterated: hold ``lock`` meanwhile where other threads ask the store too.
        """

    def end(self) -> Cursor:
        """The end of the records read so far; ``records`` continues from it."""

    def relabel(self, edit: LabelsEdit) -> None:
        """Edit the labels that are stored now; no edit is lost when several come at once.

        Raises ``OSError`` when they cannot be stored, and ``UsageError`` for a name, a tag or a
        note that is too long or holds control characters.

        Args:
            edit: What changes.
        """


class KnownRuns(NamedTuple):
    """Runs of a list; of ``unsummarised`` runs of the store only identity and status are known.

    ``stored`` counts all runs, whatever the query; ``projects`` names their projects, in order.
    """

    runs: Sequence[RunView]
    unsummarised: int
    # By the values of the fields that were grouped by, in the order of the runs.
    groups: Sequence[tuple[tuple[Any, ...], Sequence[RunView]]] = ()
    stored: int = 0
    projects: Sequence[str] = ()

    @property
    def ids(self) -> Sequence[str]:
        """The ids of the runs; a store that opens runs when they are asked for opens none."""
        found = getattr(self.runs, "ids", None)
        return [run.id for run in self.runs] if found is None else found


class Trash(Protocol):
    """The deleted runs of a store; nothing in it is erased by itself."""

    def runs(self) -> Sequence[TrashedRun]:
        """All of them, the newest deletion first."""

    def find(self, key: str) -> TrashedRun:
        """The one that a key names, as in ``Store.run``; of several the one deleted last.

        Raises ``RunNotFoundError``.
        """

    def restore(self, run: TrashedRun) -> str:
        """Move a run back; its folder, which has another name where its own is taken.

        Raises ``RunNotFoundError`` for a run that is no longer in the trash, and ``OSError``.
        """

    def erase(self, run: TrashedRun) -> None:
        """Delete a run for ever; raises ``OSError`` when that fails."""


class Store(Protocol):
    """A set of runs."""

    def runs(
        self,
        query: str | None = None,
        *,
        order: str | None = None,
        offset: int = 0,
        limit: int | None = None,
    ) -> Sequence[RunView]:
        """Runs by creation, newest first; ``offset`` and ``limit`` select a page of them.

        ``query`` selects (``config.lr < 3e-4 and status == "running"``), ``order`` sorts by fields
        with commas between (``-summary.loss.last,name``). A mistake in either raises ``UsageError``
        and shows the place.
        """

    def known_runs(
        self,
        query: str | None = None,
        *,
        order: str | None = None,
        group: str | None = None,
        budget_s: float = SUMMARISE_S,
    ) -> KnownRuns:
        """Like ``runs``; runs that carry no summary are read for about so many seconds.

        Of the others identity and status are known, and all other fields are missing. ``group``
        names fields, with commas between.
        """

    def projects(self, *, budget_s: float = SUMMARISE_S) -> ProjectList:
        """Every project in one row; see ``known_runs`` for the seconds."""

    def run(self, key: str) -> RunView:
        """The listed run that a key names; a key is never a path, an address or a file.

        Raises ``RunNotFoundError`` or, where it fits several, ``UsageError``.
        """

    def find(self, run_id: str) -> RunView | None:
        """The run of exactly this id, as of the last look; None where there is none."""

    def refresh(self, *, budget_s: float = math.inf) -> Set[str]:
        """Look for new runs and new records; the ids of runs that are new, changed or gone.

        What was read on in between, by a run's own ``refresh``, counts as changed too.
        """

    def remove(self, run: RunView) -> TrashedRun:
        """Move a run with everything it recorded to the trash; raises ``OSError``.

        A run that is live, or that lies in another tracker's files, raises ``UsageError``.
        """

    @property
    def trash(self) -> Trash:
        """The runs that were deleted."""

    @property
    def boards(self) -> Boards:
        """What people arranged for the projects, as of now."""

    def close(self) -> None:
        """Write the index and close every file; no query follows."""


def tag_edit(run: RunView, *, add: Iterable[str] = (), remove: Collection[str] = ()) -> LabelsEdit:
    """Adds and removes tags; those that the run recorded count where people set none."""
    recorded = recorded_tags(run)
    added = tuple(add)

    def edit(labels: Labels) -> Labels:
        had = recorded if labels.tags is None else labels.tags
        tags = tuple(tag for tag in dict.fromkeys((*had, *added)) if tag not in remove)
        return labels if tags == had else replace(labels, tags=tags)

    return edit


def recorded_tags(run: RunView) -> tuple[str, ...]:
    """The tags that the run was started with."""
    tags = run.facts.get("tags")
    return tuple(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else ()
