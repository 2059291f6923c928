"""The catalog over the runs of a cluster or a bucket: lists from its own index, runs as copies.

Rows are read where they are stored when they change, and kept in the index that every reader has in
its cache. A run that is queried in depth is copied into the cache, each time only what is new, as
a run of another machine is.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

import msgspec

from epochal.errors import RunNotFoundError
from epochal.health.rule_settings import RuleSettings
from epochal.journal.boards import Boards
from epochal.journal.facts import unix_time
from epochal.journal.labels import LabelsEdit
from epochal.journal.layout import SearchBounds
from epochal.journal.process import PROCESS_FIELDS
from epochal.journal.row import NO_LABELS, Labels, RunRow
from epochal.journal.summaries import chosen_fields, fork_of, names_of, summary_bytes
from epochal.query import filter as q
from epochal.records import whole_number
from epochal.shipping.fetching import RunReader
from epochal.store.cache import MemoryBudget
from epochal.store.catalog import RUNS, SUMMARISE_S, TRASH, KnownRuns
from epochal.store.cluster.runs import News, StoredRun
from epochal.store.folder import FolderSource
from epochal.store.held import HeldRun
from epochal.store.local.index import Index
from epochal.store.local.listed import (
    Entry,
    ListedRun,
    ListReader,
    known_entries,
    known_entry,
    known_runs,
    newest_first,
)
from epochal.store.local.trash import check_ended
from epochal.store.lookup import choose
from epochal.store.remote.mirror import Mirror
from epochal.store.row import TrashedRun, status_of
from epochal.store.run import RunView
from epochal.store.selection import Selection

_MIRRORS = "clusters"
# Runs that are open at once; their copies in the cache stay.
_MOST_OPEN = 256


class StoredRuns(RunReader, Protocol):
    """Runs as rows and objects: those of a cluster, or of a bucket alone, which changes nothing."""

    @property
    def address(self) -> str:
        """What people call it."""

    def find(self, run_id: str, *, is_removed: bool = False) -> StoredRun | None:
        """The run of an id, or the one of it in the trash; None where there is none."""

    def news(self, seen: int | None, known: Callable[[], Mapping[str, int]]) -> News:
        """What has changed since a number, None at first; ``known`` has runs with their changes."""

    def removed(self) -> list[StoredRun]:
        """The runs in the trash, the newest deletion first."""

    def sizes(self, runs: Sequence[str]) -> dict[str, int]:
        """How many lines some runs have, where that is known."""

    def stored_bytes(self, runs: Sequence[str]) -> dict[str, int]:
        """How much some runs take, those in the trash as well."""

    def metrics(self, run_id: str) -> bytes | None:
        """The summaries of all series as their sender sent them; None where there are none."""

    def put_summary(self, run_id: str, summary: bytes) -> None:
        """Keep the summary of a run that has ended, if that is possible."""

    def edit_labels(
        self, run_id: str, edit: Callable[[Mapping[str, Any]], dict[str, Any]]
    ) -> object:
        """Change the labels of a run."""

    def remove(self, run_id: str) -> None:
        """Move a run to the trash."""

    def restore(self, run_id: str) -> None:
        """Take a run out of the trash."""

    def erase(self, run_id: str) -> None:
        """Delete a run that is in the trash."""

    def boards(self, projects: Callable[[], Collection[str]]) -> Boards:
        """The boards of some projects."""


class ClusterCatalog:
    """Every run of a cluster, or those of some projects, or some runs.

    ``projects`` are slugs. What is not in this part never comes into the index, so that nothing
    can return it. See ``epochal.store.catalog``.
    """

    def __init__(
        self,
        runs: StoredRuns,
        *,
        cache: Path,
        projects: Set[str] | None = None,
        only: Set[str] | None = None,
        rules: RuleSettings | None = None,
    ) -> None:
        self._runs = runs
        self._projects = projects
        self._only = only
        part = repr((runs.address, _sorted(projects), _sorted(only)))
        digest = hashlib.sha256(part.encode()).hexdigest()[:16]
        self._index = Index(cache, Path(_MIRRORS, digest))
        self._folder = cache / _MIRRORS / digest
        self._server = ClusterServer(runs, self._folder)
        self._bounds = SearchBounds(self._folder)
        self._held = MemoryBudget(rules=rules or RuleSettings())
        self._lock = threading.RLock()
        self._opened: OrderedDict[str, tuple[RunView, Mirror]] = OrderedDict()
        # The number of the last change that the index has; None before the first look.
        self._seen: int | None = None
        # The runs that have changed since the last ``refresh``, and sizes of open runs as of then.
        self._news: set[str] = set()
        self._sizes: dict[str, int] = {}
        self.trash = ClusterTrash(self)
        self.boards = runs.boards(self._board_projects)

    def close(self) -> None:
        self._index.close()

    # -- lists ------------------------------------------------------------------------------------

    def select(
        self, selection: Selection, *, limit: int | None = None, budget_s: float = SUMMARISE_S
    ) -> KnownRuns:
        self._look_once()
        self._summarise(budget_s if selection.needs_summary else min(budget_s, SUMMARISE_S))
        known = known_runs(
            selection,
            [*map(self._outlined, known_entries(self._index))] if selection.is_everything else [],
            self._listed,
            self._open,
            guard=self._held.guard,
            limit=limit,
            projects=sorted(self._index.projects()),
        )
        counts = self._index.count(), self._index.count(is_unsettled=True)
        return known._replace(stored=counts[0], unsummarised=counts[1])

    def rows(self, *, budget_s: float | None = None) -> list[RunRow]:
        self._look_once()
        return [run.info for run in self._listed(None)]

    def _outlined(self, entry: Entry) -> Entry:
        """A run of the index with its id, and with its row where that is not of a summary."""
        entry.id = entry.place
        if not entry.is_settled:
            entry.outline = self._index.row(entry.place)
        return entry

    def _listed(self, condition: q.Filter | None) -> list[ListedRun]:
        reader = ListReader(self._glanced)
        found = [
            ListedRun(self._outlined(known_entry(self._index, known[:5])), known[5], reader)
            for known in self._index.rows(condition)
        ]
        return sorted(found, key=lambda run: newest_first(run.entry))

    def _summarise(self, budget_s: float) -> None:
        """Read runs whose senders have sent no summary, for about so many seconds."""
        until = time.monotonic() + budget_s
        for entry in known_entries(self._index, is_unsettled=True):
            if time.monotonic() > until:
                return
            row = self._held.guard.run(entry.place, self._server.run, entry.place)
            if row is not None:
                self._put(entry.place, row, entry.signature or "")

    def _put(self, run_id: str, row: RunRow, signature: str) -> None:
        # Of a run that is not settled more could be known.
        self._index.put(run_id, row, None, signature=signature, is_settled=row.is_summarised)

    def usage(self, runs: Sequence[RunRow | TrashedRun]) -> Sequence[Counter[str]]:
        sizes = self._runs.stored_bytes([run.id for run in runs])
        kinds = [TRASH if isinstance(run, TrashedRun) else RUNS for run in runs]
        return [
            Counter({kind: sizes.get(run.id, 0)}) for run, kind in zip(runs, kinds, strict=True)
        ]

    # -- single runs ------------------------------------------------------------------------------

    def find(self, run_id: str) -> RunView | None:
        self._look_once()
        with self._lock:
            known = self._opened.get(run_id)
        row = self._index.row(run_id) if known is None else known[1].row
        return None if row is None else self._view(row)

    def has(self, stored: StoredRun) -> bool:
        """Whether a run belongs to this part."""
        is_of_projects = self._projects is None or stored.project in self._projects
        return is_of_projects and (self._only is None or stored.id in self._only)

    def _glanced(self, entry: Entry) -> RunView:
        """A run for one question of a list, which is nearly always answered by its metrics.json."""
        with self._lock:
            is_opened = entry.place in self._opened
        row = None if is_opened else self._index.row(entry.place)
        if row is None or not row.is_summarised:
            return self._open(entry)
        return self._made(row)[0]

    def _open(self, entry: Entry) -> RunView:
        with self._lock:
            known = self._opened.get(entry.place)
        if known is not None:
            if known[1].is_behind:
                known[0].refresh()
            return known[0]
        row = self._index.row(entry.place)
        if row is None:
            raise RunNotFoundError(f"the run {entry.place} is no longer here.")
        return self._view(row)

    def _view(self, row: RunRow) -> RunView:
        row = msgspec.structs.replace(row, status=status_of(row, now=time.time()))
        with self._lock:
            known = self._opened.get(row.id)
            if known is None:
                known = self._opened[row.id] = self._made(row)
            known[1].row = row
            self._opened.move_to_end(row.id)
            while len(self._opened) > _MOST_OPEN:
                self._opened.popitem(last=False)
            return known[0]

    def _made(self, row: RunRow) -> tuple[RunView, Mirror]:
        mirror = Mirror(row, self._server, self._folder)
        source = FolderSource(mirror.folder.path, origin=mirror, bounds=self._bounds)
        return RunView(source, held=self._held), mirror

    def forget(self, run: RunView) -> None:
        with self._lock:
            _, mirror = self._opened.pop(run.id, (run, None))
        self._index.forget([run.id])
        if mirror is not None:
            mirror.erase()

    # -- changes ----------------------------------------------------------------------------------

    def _look_once(self) -> None:
        with self._lock:
            if self._seen is None:
                self._look()

    def _board_projects(self) -> Collection[str]:
        """The projects whose boards are shown; none to those who were sent a link to some runs."""
        if self._only is not None:
            return ()
        self._look_once()
        return self._index.projects()

    def refresh(self, *, budget_s: float = math.inf) -> Set[str]:
        with self._lock:
            self._look()
            opened = [run_id for run_id, (_, mirror) in self._opened.items() if mirror.is_in_use]
            # Lines that were appended change no row of the table of runs.
            before, self._sizes = self._sizes, self._runs.sizes(opened) if opened else {}
            news, self._news = self._news, set()
        return news | {run_id for run_id, _ in self._sizes.items() - before.items()}

    def _look(self) -> None:
        """Bring what has changed into the index."""
        news = self._runs.news(self._seen, self._known)
        self._index.forget(news.gone)
        self._news.update(news.gone)
        with self._index.batch():
            for stored in news.changed:
                self._note(stored)
                self._news.add(stored.id)
        self._seen = news.number

    def _known(self) -> dict[str, int]:
        """The runs of the index, each with the number of its last change."""
        return {run_id: int(signature) for run_id, signature, *_ in self._index.known()}

    def _note(self, stored: StoredRun) -> None:
        if stored.removed is not None or not self.has(stored):
            self._index.forget([stored.id])
            with self._lock:
                self._opened.pop(stored.id, None)
            return
        row = row_of(stored)
        self._put(stored.id, row, str(stored.changed))
        with self._lock:
            if stored.id in self._opened:
                self._opened[stored.id][1].row = row

    # -- the trash --------------------------------------------------------------------------------

    def removed(self) -> list[StoredRun]:
        """The runs of this part that are in the trash, the newest deletion first."""
        return [stored for stored in self._runs.removed() if self.has(stored)]

    @property
    def runs(self) -> StoredRuns:
        """The runs of all parts."""
        return self._runs


class ClusterServer:
    """A cluster, as a copy of a run asks it (``epochal.store.remote.mirror``)."""

    def __init__(self, runs: StoredRuns, copies: Path) -> None:
        self._runs = runs
        self._copies = copies

    @contextlib.contextmanager
    def reading(self, run_id: str) -> Iterator[RunReader]:
        yield self._runs

    def run(self, run_id: str) -> RunRow:
        stored = self._runs.find(run_id)
        if stored is None:
            raise RunNotFoundError(f"there is no run with the id {run_id!r} here.")
        row = row_of(stored)
        return row if row.is_summarised else self._summarised(stored, row)

    def _summarised(self, stored: StoredRun, row: RunRow) -> RunRow:
        """The row of a run whose sender has sent no summary, made of its records."""
        mirror = Mirror(row, self, self._copies)
        mirror.fetch()
        made = HeldRun(FolderSource(mirror.folder.path)).read_row()
        summary = summary_bytes(made)
        if made.is_ended:
            self._runs.put_summary(stored.id, summary)
        return row_of(stored._replace(summary=summary))

    def metrics(self, run_id: str) -> bytes | None:
        return self._runs.metrics(run_id)

    def relabel(self, run_id: str, edit: LabelsEdit) -> None:
        def change(before: Mapping[str, Any]) -> dict[str, Any]:
            after = asdict(edit(_labels(before)))
            return {name: value for name, value in after.items() if value not in (None, False)}

        self._runs.edit_labels(run_id, change)


class ClusterTrash:
    """The deleted runs of a part of a cluster; see ``epochal.store.catalog.Trash``."""

    def __init__(self, catalog: ClusterCatalog) -> None:
        self._catalog = catalog

    def runs(self) -> Sequence[TrashedRun]:
        return [_trashed(stored) for stored in self._catalog.removed()]

    def find(self, key: str) -> TrashedRun:
        stored = self._catalog.removed()
        return _trashed(stored[choose(key, [row_of(run) for run in stored])])

    def put(self, run: RunView) -> TrashedRun:
        check_ended(run.info)
        self._catalog.runs.remove(run.id)
        stored = self._catalog.runs.find(run.id, is_removed=True)
        if stored is None:
            raise RunNotFoundError(f"the run {run.id} is no longer here.")
        return _trashed(stored)

    def restore(self, run: TrashedRun) -> str:
        self._catalog.runs.restore(run.id)
        return run.origin

    def erase(self, run: TrashedRun) -> None:
        self._catalog.runs.erase(run.id)


def row_of(stored: StoredRun) -> RunRow:
    """The row of a run: what its sender said of it, else who it is."""
    identity: dict[str, Any] = msgspec.json.decode(stored.identity)
    labels = _labels(msgspec.json.decode(stored.labels))
    row = _summary_of(stored) or _identity_row(stored, identity)
    name = names_of(identity.get, stored.folder)["name"]
    row = msgspec.structs.replace(
        row,
        id=stored.id,
        folder=stored.folder,
        name=labels.name or name,
        project=str(identity.get("project", stored.project)),
        tags=row.tags if labels.tags is None else labels.tags,
        notes=row.notes if labels.notes is None else labels.notes,
        hidden=labels.hidden,
        labels=labels,
        written=stored.received,
    )
    return msgspec.structs.replace(row, status=status_of(row, now=time.time()))


def _summary_of(stored: StoredRun) -> RunRow | None:
    if stored.summary is None:
        return None
    try:
        return msgspec.json.decode(stored.summary, type=RunRow)
    except msgspec.DecodeError:  # of a newer version
        return None


def _identity_row(stored: StoredRun, identity: Mapping[str, Any]) -> RunRow:
    totals, config = identity.get("totals"), identity.get("config")
    totals = totals if isinstance(totals, dict) else {}
    return RunRow(
        **names_of(identity.get, stored.folder),
        id=stored.id,
        created=unix_time(identity.get("created")),
        updated=stored.received,
        total_steps=whole_number(totals.get("steps")),
        num_epochs=whole_number(totals.get("epochs")),
        config=config if isinstance(config, dict) else {},
        fork=fork_of(identity),
        process=chosen_fields(identity, PROCESS_FIELDS) or None,
        is_summarised=False,
    )


def _labels(stored: Mapping[str, Any]) -> Labels:
    try:
        return msgspec.convert(stored, Labels)
    except msgspec.ValidationError:
        return NO_LABELS


def _trashed(stored: StoredRun) -> TrashedRun:
    row = row_of(stored)
    return TrashedRun(
        id=row.id,
        name=row.name,
        project=row.project,
        folder=stored.folder,
        origin=stored.folder,
        deleted=stored.removed or 0.0,
    )


def _sorted(names: Set[str] | None) -> list[str] | None:
    return None if names is None else sorted(names)
