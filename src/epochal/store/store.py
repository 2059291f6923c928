"""The store: every question a page, an export, a command or a script may ask about runs.

A store answers about runs it does not write. Which engine is behind it (run folders today) is known
to nobody outside this folder, and ``tests/conformance/test_store.py`` states what each must answer.

Of the store
    runs          which runs are there (a query, an order and a page of them); ``query.py`` has the
                  language, ``selection.py`` the fields
    run           the one run that an id, a prefix, a name, ``project/name`` or a path stands for
    find          the run of exactly this id, which is what links and positions hold
    refresh       look again: what was written since shows up in the answers from now on
    close         put away what is held open

Of a run
    info          its row in a list: identity, status, progress, labels, problem
    config        what it was configured with, later options included
    facts         everything run.json says: command, host, git, packages
    status        how it stands, as of now
    metrics       which series exist: name, axis, unit, goal, role, ranks
    metric, role  the series that a short name or a role means
    series        every point of one series, exact; its summary and its buckets for a chart
    summary       last, min, max, mean and best of one series, without its points where possible
    entries       records of any kind, as they were written: datasets, GPU models, graphs, findings
    histograms, texts, blobs, messages, events, findings      entries by their usual names
    machines      what is read of GPUs and hosts at this moment, while a run goes on
    blob          the bytes of a blob
    records       every record of every writer in file order, from a position on
    end           the position that ``records(since=…)`` goes on from

Changed through a store, and only on a person's word
    relabel       name, tags, notes, hidden: what ``labels.json`` holds
    remove        the run, with everything it recorded

How answers are made (all stores alike)
- A run's attempts are one series: what an older attempt logged at or beyond the step where a newer
  one took over is hidden, on every rank, in every kind that lives on the step or epoch axis; the
  time axis is never cut. ``records`` hides nothing.
- Of several values at one step within one rank the last one written stands, counted in
  ``duplicates``. The plain name is rank 0; what its forked children log shows under it too, where
  rank 0 itself has no value.
- Steps may have been logged in any order; answers ascend. nan and infinities are kept.
- An id stands for one run of a store. A copied run says the id of the one it was copied from: the
  store puts ``~2`` behind it, and ``~3`` behind the next.
- A run that cannot be read is listed with its ``problem``; asking for a list never raises for it.
- Several threads may ask one store. Questions about one run wait for each other, questions about
  different runs do not, and ``find`` and ``refresh`` wait for no run that is being read.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any, Protocol

from epochal.errors import MetricNotFoundError as MetricNotFoundError
from epochal.records import Axis, Position, Record
from epochal.series.reduce import Summary
from epochal.series.series import Series
from epochal.store.answers import Cursor, Entry, Labels, Machine, Metric, RunInfo, Status


class RunView(Protocol):
    """One run, as it stood when the store last looked."""

    @property
    def lock(self) -> threading.RLock:
        """Held by each question about this run; hold it where several answers must fit together."""

    @property
    def id(self) -> str:
        """What stands for this run and for no other of its store."""

    @property
    def created(self) -> float | None:
        """When the run was created, in Unix seconds; None where nothing says it."""

    @property
    def info(self) -> RunInfo:
        """The run in one row; the status is worked out anew at every call."""

    @property
    def status(self) -> Status:
        """How the run stands, worked out at every call."""

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

    def metrics(self) -> Sequence[Metric]:
        """Every series there is, in order of first appearance."""

    def series(self, name: str, *, rank: int = 0, axis: Axis | None = None) -> Series:
        """Every point of a series; the step axis goes first where a name is on several.

        Raises ``MetricNotFoundError``, and ``FormatError`` where the points cannot be read.
        """

    def summary(self, name: str, *, rank: int = 0, axis: Axis | None = None) -> Summary:
        """What a series amounts to; cheap, also for many runs.

        Raises ``MetricNotFoundError``, and ``FormatError`` where the points cannot be read.
        """

    def metric(self, name: str) -> Metric | None:
        """The metric of a name; else of a role; else one whose name ends in ``/name``."""

    def role(self, role: str) -> Metric | None:
        """The metric that plays a role (``epochal.records.ROLES``), defined or guessed."""

    def entries(self, *kinds: str, name: str | None = None, rank: int | None = 0) -> list[Entry]:
        """Records of these kinds by step, then by time; ``rank=None`` for all ranks.

        Kinds that are nothing but numbers raise ``UsageError``: they are series."""

    def histograms(self, name: str | None = None, *, rank: int = 0) -> list[Entry]:
        """Histograms, of one name or of all."""

    def texts(self, name: str | None = None, *, rank: int = 0) -> list[Entry]:
        """Text samples, of one name or of all."""

    def blobs(self, name: str | None = None, *, rank: int = 0) -> list[Entry]:
        """Images and other blobs, of one name or of all."""

    def blob(self, file: str) -> bytes:
        """The bytes of a blob that a record names; raises ``UsageError`` for any other file."""

    def messages(self) -> list[Entry]:
        """Messages of all ranks, by time."""

    def events(self) -> list[Entry]:
        """What happened, of all ranks, by time."""

    def findings(self, *, most: int | None = 50_000) -> list[Entry]:
        """What the health rules found, by time; worked out from records where nobody wrote it.

        At most so many records are read for that at one call, None for all of them.
        """

    def internal_errors(self) -> list[Entry]:
        """Faults of Epochal itself, each member's first as an ``internal-error`` event.

        Recorded ones by time, then those that members met in reading the run here. ``count`` says
        how often the member failed, as far as that is known. None of them affects the run.
        """

    def machines(self) -> Sequence[Machine]:
        """The run's machines as they were a moment ago; none when nobody reads them."""

    def records(self, since: Cursor | None = None) -> Iterator[tuple[Position, Record]]:
        """Every record as written, writer by writer in file order; after ``since`` if given.

        Read as it is iterated: hold ``lock`` meanwhile where other threads ask the store too.
        """

    def end(self) -> Cursor:
        """Where the records read so far end; give it to ``records`` to go on from there."""

    def relabel(self, labels: Labels) -> None:
        """Replace the labels, atomically; raises ``OSError`` when they cannot be stored.

        A name, a tag or a note that is too long or holds control characters is a ``UsageError``.
        """


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
        """Runs by creation, newest first; ``offset`` and ``limit`` cut a page out of them.

        ``query`` selects (``config.lr < 3e-4 and status == "running"``), ``order`` sorts by fields
        with commas between (``-summary.loss.last,name``). A mistake in either raises ``UsageError``
        and shows the place.
        """

    def run(self, key: str) -> RunView:
        """The run a key stands for; raises ``RunNotFoundError`` or, for several, ``UsageError``."""

    def find(self, run_id: str) -> RunView | None:
        """The run of exactly this id, as of the last look; None where there is none."""

    def refresh(self) -> Set[str]:
        """Look for new runs and new records; the ids of runs that are new, changed or gone.

        What was read on in between, by a run's own ``refresh``, counts as changed too.
        """

    def remove(self, run: RunView) -> None:
        """Delete a run and everything it recorded; raises ``OSError`` when that fails."""

    def close(self) -> None:
        """Remember what was learnt, and close every file; nothing is asked after this."""
