"""The store: every query that a page, an export, a command or a script makes about runs.

A store is an engine over a catalog, which knows which runs there are: ``local`` has one of folders,
``remote`` one of a server. A run (``run.py``) is an engine over a folder, which may be a copy that
is fetched when a query needs it. ``tests/conformance/test_store.py`` states what they return.

Of the store
    runs          the runs that a query selects, in an order; ``query/filter.py`` has the language,
                  ``selection.py`` the fields
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
from collections.abc import Collection, Iterable, Sequence, Set
from dataclasses import replace

from epochal.errors import RunNotFoundError, UsageError
from epochal.journal.boards import Boards
from epochal.journal.labels import LabelsEdit
from epochal.journal.row import Labels
from epochal.store.catalog import SUMMARISE_S, Catalog, KnownRuns, Trash
from epochal.store.lookup import choose
from epochal.store.projects import ProjectList, project_list
from epochal.store.row import TrashedRun
from epochal.store.run import RunView
from epochal.store.selection import Selection


class Store:
    """A set of runs: those of a catalog; ``trash`` takes the place of the catalog's."""

    def __init__(self, catalog: Catalog, trash: Trash | None = None) -> None:
        self.catalog = catalog
        self.trash = catalog.trash if trash is None else trash

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Write the index and close every file; no query follows."""
        self.catalog.close()

    def runs(
        self, query: str | None = None, *, order: str | None = None, limit: int | None = None
    ) -> Sequence[RunView]:
        """Runs by creation, newest first, of these at most ``limit``.

        ``query`` selects (``config.lr < 3e-4 and status == "running"``), ``order`` sorts by fields
        with commas between (``-summary.loss.last,name``). A mistake in either raises ``UsageError``
        and shows the place.
        """
        if limit is not None and limit < 0:
            raise UsageError(f"limit={limit} must be 0 or more.")
        return self.catalog.select(Selection(query, order), limit=limit, budget_s=math.inf).runs

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
        return self.catalog.select(Selection(query, order, group), budget_s=budget_s)

    def projects(self, *, budget_s: float = SUMMARISE_S) -> ProjectList:
        """Every project in one row; see ``known_runs`` for the seconds."""
        return project_list(self.catalog.rows(budget_s=budget_s))

    def run(self, key: str) -> RunView:
        """The listed run that a key names; a key is never a path, an address or a file.

        Raises ``RunNotFoundError`` or, where it fits several, ``UsageError``.
        """
        found = self.find(key)
        if found is None:
            rows = self.catalog.rows()
            found = self.find(rows[choose(key, rows)].id)
        if found is None:  # it went a moment ago
            raise RunNotFoundError(f"there is no run {key!r}.")
        return found

    def find(self, run_id: str) -> RunView | None:
        """The run of exactly this id, as of the last look; None where there is none."""
        return self.catalog.find(run_id)

    def refresh(self, *, budget_s: float = math.inf) -> Set[str]:
        """Look for new runs and new records; the ids of runs that are new, changed or gone.

        What was read on in between, by a run's own ``refresh``, counts as changed too.
        """
        return self.catalog.refresh(budget_s=budget_s)

    def remove(self, run: RunView) -> TrashedRun:
        """Move a run with everything it recorded to the trash; raises ``OSError``.

        A run that is live, or that lies in another tracker's files, raises ``UsageError``.
        """
        moved = self.trash.put(run)
        self.catalog.forget(run)
        return moved

    @property
    def boards(self) -> Boards:
        """What people arranged for the projects, as of now."""
        return self.catalog.boards


def tag_edit(run: RunView, *, add: Iterable[str] = (), remove: Collection[str] = ()) -> LabelsEdit:
    """Adds and removes tags; those that the run recorded count where people set none."""
    tags = run.facts.get("tags")
    recorded = tuple(t for t in tags if isinstance(t, str)) if isinstance(tags, list) else ()
    added = tuple(add)

    def edit(labels: Labels) -> Labels:
        had = recorded if labels.tags is None else labels.tags
        tags = tuple(tag for tag in dict.fromkeys((*had, *added)) if tag not in remove)
        return labels if tags == had else replace(labels, tags=tags)

    return edit
