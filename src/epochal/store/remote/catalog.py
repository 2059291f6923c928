"""The catalog of a hub or a server on another machine.

Lists are made there. A run that is queried in depth is copied into the cache folder, each time only
what is new, and a run answers over that copy as over any folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import shutil
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence, Set
from pathlib import Path
from typing import Any

import msgspec

from epochal.errors import RunNotFoundError, UsageError
from epochal.health.rule_settings import RuleSettings
from epochal.journal.boards import Board, StoredBoard
from epochal.journal.layout import SearchBounds
from epochal.journal.row import RunRow
from epochal.settings import cache_folder, read_settings
from epochal.shipping.client import check_url, hub_token, linked_token
from epochal.store.cache import MemoryBudget
from epochal.store.catalog import SUMMARISE_S, KnownRuns, Versions
from epochal.store.folder import FolderSource
from epochal.store.remote.mirror import Mirror, version
from epochal.store.remote.server import RemoteServer
from epochal.store.row import TrashedRun
from epochal.store.run import RunView
from epochal.store.selection import Selection
from epochal.store.store import Store


class RemoteTrash:
    """The trash of a server; ``folder`` of a run is what names it there."""

    def __init__(self, server: RemoteServer) -> None:
        self._server = server

    def runs(self) -> Sequence[TrashedRun]:
        return [_trashed(row) for row in self._server.send("GET", "/api/trash")["runs"]]

    def find(self, key: str) -> TrashedRun:
        for run in self.runs():
            if key in (run.id, run.name, f"{run.project}/{run.name}", run.folder):
                return run
        raise RunNotFoundError(f"there is no run {key!r} in the trash of {self._server.url}.")

    def put(self, run: RunView) -> TrashedRun:
        """Move a run to the trash; raises ``UsageError`` for a live one."""
        answer = self._server.send("POST", "/api/trash", {"runs": [run.id]})
        if answer["refused"]:
            raise UsageError(answer["refused"][0]["reason"])
        return _trashed(answer["removed"][0])

    def restore(self, run: TrashedRun) -> str:
        answer = self._server.send("POST", "/api/trash/restore", {"keys": [run.folder]})
        if answer["refused"]:
            raise RunNotFoundError(answer["refused"][0]["reason"])
        return f"{run.project}/{run.name}"

    def erase(self, run: TrashedRun) -> None:
        """Refused: only the server's own machine erases runs."""
        raise UsageError(
            f"{run.name!r} can be erased on the machine of {self._server.url} only:"
            " 'epochal manage trash empty' does so there."
        )


def _trashed(row: dict[str, Any]) -> TrashedRun:
    return msgspec.convert({**row, "folder": row["key"], "origin": ""}, TrashedRun)


class RemoteBoards:
    """The boards of a server; see ``epochal.journal.boards.Boards``."""

    def __init__(self, server: RemoteServer) -> None:
        self._server = server

    def list(self, project: str | None = None) -> Sequence[StoredBoard]:
        answer = self._server.send("GET", "/api/boards")["boards"]
        found = msgspec.convert(answer, list[StoredBoard])
        return [stored for stored in found if project in (None, stored.project)]

    def save(self, project: str, board: Board, revision: str | None) -> StoredBoard:
        """Refused: boards of a server are changed on its page."""
        raise UsageError(f"boards of {self._server.url} are changed on its page.")

    def remove(self, project: str, name: str, revision: str | None) -> None:
        """Refused, as ``save`` is."""
        raise UsageError(f"boards of {self._server.url} are changed on its page.")


_MIRRORS = "mirrors"
_KEPT_S = 30 * 86_400.0


class HttpCatalog:
    """Every run that a server shows; see ``epochal.store.catalog``.

    Copies of runs are kept below ``cache``.
    """

    def __init__(
        self, url: str, *, token: str | None = None, cache: Path, rules: RuleSettings | None = None
    ) -> None:
        self._server = RemoteServer(url, token)
        digest = hashlib.sha256(self._server.url.encode()).hexdigest()[:16]
        self._folder = cache / _MIRRORS / digest
        self._bounds = SearchBounds(self._folder)
        self._held = MemoryBudget(rules=rules or RuleSettings())
        self._lock = threading.Lock()
        self._versions = Versions()
        self._runs: dict[str, tuple[RunView, Mirror]] = {}
        self.trash = RemoteTrash(self._server)
        self.boards = RemoteBoards(self._server)

    def close(self) -> None:
        """Close connections, and erase copies that were not read for a month."""
        self._server.close()
        before = time.time() - _KEPT_S
        with contextlib.suppress(FileNotFoundError):
            for place in list(self._folder.iterdir()):
                if place.stat().st_mtime < before:
                    shutil.rmtree(place, ignore_errors=True)

    def select(
        self, selection: Selection, *, limit: int | None = None, budget_s: float = SUMMARISE_S
    ) -> KnownRuns:
        if selection.group is not None:
            raise UsageError("group= cannot be asked of a store on another machine.")
        query, order, is_patient = selection.query, selection.order, budget_s == math.inf
        rows, unsummarised = self._server.listed(query, order, limit=limit, is_patient=is_patient)
        projects = sorted({row.project for row in rows})
        return KnownRuns(self._taken(rows), unsummarised, stored=len(rows), projects=projects)

    def rows(self, *, budget_s: float | None = None) -> list[RunRow]:
        return self._server.listed(is_patient=False)[0]

    def find(self, run_id: str) -> RunView | None:
        if not run_id:
            return None
        try:
            return self._taken([self._server.run(run_id)])[0]
        except RunNotFoundError:
            return None

    def refresh(self, *, budget_s: float = math.inf) -> Set[str]:
        """Ask for new runs and records; copies that are in use fetch what is new."""
        rows, _ = self._server.listed(is_fresh=True, is_patient=False)
        self._taken(rows)
        told = {row.id: version(row) for row in rows}
        with self._lock:
            for run_id in self._runs.keys() - told.keys():
                del self._runs[run_id]
            behind = [run for run, mirror in self._runs.values() if mirror.is_behind]
        for run in behind:
            run.refresh()
        return self._versions.changed(told)

    def usage(self, runs: Sequence[RunRow | TrashedRun]) -> Sequence[Counter[str]]:
        raise UsageError(f"{self._server.url} does not say how many bytes its runs take.")

    def forget(self, run: RunView) -> None:
        with self._lock:
            _, mirror = self._runs.pop(run.id, (run, None))
        if mirror is not None:
            mirror.erase()

    def _taken(self, rows: Iterable[RunRow]) -> list[RunView]:
        """The runs of a list; one that was listed before is the same object."""
        with self._lock:
            return [self._run_of(row) for row in rows]

    def _run_of(self, row: RunRow) -> RunView:
        known = self._runs.get(row.id)
        if known is not None:
            known[1].row = row
            return known[0]
        mirror = Mirror(row, self._server, self._folder)
        source = FolderSource(mirror.folder.path, origin=mirror, bounds=self._bounds)
        run = RunView(source, held=self._held)
        self._runs[row.id] = run, mirror
        return run


def http_store(
    url: str, *, token: str | None = None, cache: Path, rules: RuleSettings | None = None
) -> Store:
    """The store over the runs of a server; see ``HttpCatalog``."""
    return Store(HttpCatalog(url, token=token, cache=cache, rules=rules))


def open_remote(
    address: str, *, token: str | None = None, rules: RuleSettings | None = None
) -> Store:
    """The runs behind an address; no request is sent yet.

    Without a token, it is the one of a link (``?token=…``), else the one that the settings have
    for their hub. It is not sent to any other server.
    """
    url = check_url(address)
    if token is None:
        token = linked_token(address) or _own_token(url)
    return http_store(url, token=token, cache=cache_folder(), rules=rules)


def hub_address(given: str | None) -> str:
    """The address of ``--hub URL``; of ``--hub`` alone, the one that the settings have."""
    found = given or read_settings().hub
    if found is None:
        raise UsageError("no hub is known: give its address, or set EPOCHAL_HUB.")
    return found


def _own_token(url: str) -> str | None:
    settings = read_settings()
    is_other = settings.hub is not None and check_url(settings.hub) != url
    return None if is_other else hub_token(settings)
