"""The runs of a ClickHouse store: lists narrow in SQL, and the evaluator of queries decides."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from epochal.boards import (
    MAX_BOARDS,
    Board,
    BoardNotFoundError,
    StoredBoard,
    checked_revision,
    encoded_board,
    revision_of,
)
from epochal.errors import RunNotFoundError, UsageError
from epochal.health.rule_settings import RuleSettings
from epochal.journal.layout import PartName, slugify
from epochal.store.answers import Cursor, Metric, TrashedRun
from epochal.store.clickhouse.documents import Document
from epochal.store.clickhouse.index import ClickHouseIndex
from epochal.store.clickhouse.schema import delete, one_of
from epochal.store.clickhouse.source import LABELS, LIVE, RUN, TRASH, ClickHouseSource, signature_of
from epochal.store.clickhouse.tables import Database, Received
from epochal.store.local.cache import locked
from epochal.store.local.index import IndexedRun
from epochal.store.local.listed import Entry
from epochal.store.local.part import unix_time
from epochal.store.local.row import unread_row
from epochal.store.local.run import LocalRun
from epochal.store.local.state import RunState
from epochal.store.local.store import LocalStore, recall
from epochal.store.local.trash import check_ended
from epochal.store.lookup import choose
from epochal.store.row import StoredRow
from epochal.store.store import RunView

BOARD = "board"
# A hub notices after so long that a run was deleted at another one.
NOTICED_S = 5.0
# Clocks of servers differ by less, and a row that is stored has a time of before.
_OVERLAP_S = 120


class ClickHouseStore(LocalStore):
    """Every run of a database, or of some projects, or some runs; see ``epochal.store.store``.

    ``projects`` are names of folders, as tokens name them.
    """

    def __init__(
        self,
        database: Database,
        *,
        rules: RuleSettings | None = None,
        projects: Collection[str] | None = None,
        runs: Collection[str] | None = None,
    ) -> None:
        rules = RuleSettings() if rules is None else rules
        super().__init__(rules=rules)
        self._database = database
        self._projects, self._run_ids = projects, runs
        self._index = ClickHouseIndex(database, rules=rules.digest)
        self._indexes = [self._index]
        # What was asked last: documents of runs by kind, what was received of each, and when.
        self._documents: dict[str, dict[str, Document]] = {}
        self._received: dict[str, Mapping[PartName, Received]] = {}
        self._asked_s: int | None = None

    # -- scanning ---------------------------------------------------------------------------------

    def _scan(self) -> list[str]:
        """Ask what has changed since the last time; the runs that have."""
        with self._lock:
            tables, now = self._database.tables, self._database.tables.now()
            since = None if self._asked_s is None else self._asked_s - _OVERLAP_S
            found = self._database.documents.find([RUN, LABELS, TRASH], since=since)
            for one in found:
                self._documents.setdefault(one.key, {})[one.kind] = one
            changed = {one.key for one in found}
            if since is not None:
                changed |= tables.changed_since(since)
            self._received.update(tables.received(changed if since is not None else None))
            indexed: dict[str, IndexedRun] = {}
            if not self._is_scanned:
                indexed = {known.place: known for known in self._index.known()}
            told = [one for one in sorted(changed) if self._has_told(one, indexed.get(one))]
            self._asked_s, self._is_scanned = now, True
            return told

    def _has_told(self, run_id: str, indexed: IndexedRun | None) -> bool:
        """Take in what was asked about a run; whether it is listed, and has changed."""
        identity, entry = self._identity(run_id), self._entries.get(run_id)
        if identity is None:
            if entry is not None:
                del self._entries[run_id]
                self._forget(entry)
            return False
        if entry is None:
            entry = self._entries[run_id] = Entry(run_id, self._index, own_id=run_id)
            if indexed is not None:
                recall(entry, indexed)
            entry.created = unix_time(identity.get("created"))
            self._assign_id(entry)
        signature = signature_of(self._received.get(run_id, {}), self._own_documents(run_id))
        if entry.signature == signature:
            return False
        entry.signature, entry.is_current = signature, False
        return True

    def _own_documents(self, run_id: str) -> list[Document]:
        documents = self._documents[run_id].items()
        return [one for kind, one in documents if kind != TRASH]

    def _identity(self, run_id: str) -> dict[str, Any] | None:
        """Who a run is; None for one that is deleted or not to be shown."""
        documents = self._documents.get(run_id, {})
        identity, trash = documents.get(RUN), documents.get(TRASH)
        if identity is None or identity.body is None or (trash is not None and trash.body):
            return None
        if self._run_ids is not None:
            return identity.body if run_id in self._run_ids else None
        project = slugify(str(identity.body.get("project")))
        return identity.body if self._projects is None or project in self._projects else None

    def _run_of(self, entry: Entry, seen: str | None) -> LocalRun:
        source = ClickHouseSource(self._database, entry.place)
        source.see(self._received.get(entry.place, {}), self._own_documents(entry.place))
        return ClickHouseRun(source, held=self._held, index=self._index, signature=seen)

    def _project_names(self) -> list[str]:
        found = map(self._identity, self._entries)
        return sorted({str(identity.get("project")) for identity in found if identity})

    def run(self, key: str) -> LocalRun:
        """The run that an id, its start, a name or project/name stands for."""
        known = self.find(key)
        if known is not None:
            return known
        entries = sorted(self._entries.values(), key=lambda one: one.created or 0.0, reverse=True)
        runs = [self._open(entry) for entry in entries]
        return runs[choose(key, [run.outline() for run in runs])]

    # -- changes ----------------------------------------------------------------------------------

    def remove(self, run: RunView) -> TrashedRun:
        """Note that a run is deleted: lists leave it out from then on."""
        check_ended(run.info)
        self._database.documents.put(TRASH, run.id, {"deleted": time.time()})
        self.refresh()
        return self.trash.find(run.id)

    @property
    def trash(self) -> ClickHouseTrash:
        """The runs that were deleted."""
        # Who was sent a link to some runs sees no trash.
        projects = frozenset[str]() if self._run_ids is not None else self._projects
        return ClickHouseTrash(self._database, projects)

    @property
    def boards(self) -> ClickHouseBoards:
        """The boards of the projects."""
        self._scan_once()
        shown = self._project_names() if self._run_ids is None else []
        return ClickHouseBoards(self._database, shown)


class ClickHouseTrash:
    """The runs that were deleted, of some projects; see ``epochal.store.store.Trash``."""

    def __init__(self, database: Database, projects: Collection[str] | None = None) -> None:
        self._database = database
        self._projects = projects

    def runs(self) -> Sequence[TrashedRun]:
        """All of them, the newest deletion first."""
        deleted = dict(self._database.documents.all(TRASH))
        found: list[TrashedRun] = []
        for one in self._database.documents.find([RUN], list(deleted)):
            at, body = float(deleted[one.key]["deleted"]), one.body
            if body is not None:  # else it has just been erased
                name, project = str(body.get("name")), str(body.get("project"))
                if self._projects is not None and slugify(project) not in self._projects:
                    continue
                place = f"{slugify(project)}/{slugify(name)}"
                about = TrashedRun(
                    id=one.key, name=name, project=project, folder=place, origin=place, deleted=at
                )
                found.append(about)
        return sorted(found, key=lambda run: run.deleted, reverse=True)

    def find(self, key: str) -> TrashedRun:
        """The one that a key names; of several the one deleted last."""
        found = self.runs()
        same = next((run for run in found if key in (run.id, run.folder)), None)
        return same or found[choose(key, found)]

    def restore(self, run: TrashedRun) -> str:
        """Show a run again."""
        trashed = self._database.documents.get(TRASH, run.id)
        if trashed is None:
            raise RunNotFoundError(f"{run.project}/{run.name} is no longer in the trash.")
        if trashed.get("erasing"):
            raise UsageError(
                f"{run.project}/{run.name} is being erased, and some of it is gone: erase it again"
                " if that was interrupted."
            )
        self._database.documents.put(TRASH, run.id, None)
        return run.folder

    def erase(self, run: TrashedRun) -> None:
        """Delete a run for ever; a sender of it waits meanwhile.

        One that was deleted a moment ago is erased when all hubs have noticed that: until then they
        may store more of it.
        """
        time.sleep(min(max(run.deleted + NOTICED_S - time.time(), 0.0), NOTICED_S))
        documents, address = self._database.documents, self._database.address
        documents.put(TRASH, run.id, {"deleted": run.deleted, "erasing": True})
        delete(address, self._database.server, one_of("run", [run.id]))
        for key, _ in documents.all(LIVE, prefix=f"{run.id}/"):
            documents.put(LIVE, key, None)
        for kind in (LABELS, RUN, TRASH):
            documents.put(kind, run.id, None)


class ClickHouseBoards:
    """The boards of some projects; see ``epochal.boards.Boards``."""

    def __init__(self, database: Database, projects: Iterable[str]) -> None:
        self._documents = database.documents
        self._projects = frozenset(projects)

    def list(self, project: str | None = None) -> Sequence[StoredBoard]:
        """The boards of a project, or all of them, by project and name."""
        wanted = self._projects if project is None else self._projects & {project}
        found: list[StoredBoard] = []
        for key, body in self._documents.all(BOARD):
            of_project = key.partition("\n")[0]
            if of_project in wanted:
                with contextlib.suppress(msgspec.ValidationError):  # of another version
                    board = msgspec.convert(body, Board)
                    found.append(StoredBoard(of_project, _revision(board), board))
        return sorted(found, key=lambda stored: (stored.project, stored.board.name))

    def save(self, project: str, board: Board, revision: str | None) -> StoredBoard:
        """Save a board; the project must have runs here."""
        self._check(project)
        encoded_board(board)  # raises for one that is not valid
        with self._documents.lock:
            known = {one.board.name: one.revision for one in self.list(project)}
            checked_revision(board.name, known.get(board.name), revision)
            if board.name not in known and len(known) >= MAX_BOARDS:
                raise UsageError(f"a project has at most {MAX_BOARDS} boards: delete one first.")
            self._documents.put(BOARD, f"{project}\n{board.name}", msgspec.to_builtins(board))
        return StoredBoard(project, _revision(board), board)

    def remove(self, project: str, name: str, revision: str | None) -> None:
        """Delete a board."""
        self._check(project)
        if revision is None:
            raise UsageError(f"name the revision of the board {name!r} that you want to delete.")
        with self._documents.lock:
            known = {one.board.name: one.revision for one in self.list(project)}
            if name not in known:
                raise BoardNotFoundError(f"there is no board {name!r}.")
            checked_revision(name, known[name], revision)
            self._documents.put(BOARD, f"{project}\n{name}", None)

    def _check(self, project: str) -> None:
        if project not in self._projects:
            raise BoardNotFoundError(f"there is no project {project!r} here.")


def _revision(board: Board) -> str:
    return revision_of(encoded_board(board))


class ClickHouseRun(LocalRun):
    """A run whose parts answer from the tables.

    What is known of its metrics does not wait for their summaries, as it does in a folder.
    """

    def _partial_row(self, own_id: str) -> StoredRow:
        return unread_row(self.source, own_id=own_id, updated=self.source.newest_s)

    @property
    @locked
    def config(self) -> Mapping[str, Any]:
        """What the run was configured with, options set later included."""
        given = self.source.run_json.get("config")
        given = given if isinstance(given, dict) else {}
        return {**given, **self._ask(lambda state: state.config)}

    def _own_metrics(self) -> tuple[Sequence[Metric], Sequence[Metric]]:
        return self._ask(lambda state: (state.metrics, state.set_metrics))

    @locked
    def end(self) -> Cursor:
        """The position of the last record of each writer."""
        return self._ask(RunState.end)
