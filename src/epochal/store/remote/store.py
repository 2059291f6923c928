"""The store over the runs of a hub or a server on another machine.

Lists are made there. A run that is queried in depth is copied into the cache folder, each time only
what is new. The local store answers over that copy, so results are the same.
"""

from __future__ import annotations

import hashlib
import math
import shutil
import threading
from collections.abc import Iterable, Sequence, Set
from pathlib import Path
from typing import Any

import msgspec

from epochal.errors import RunNotFoundError, UsageError
from epochal.health.rule_settings import RuleSettings
from epochal.journal.boards import Board, StoredBoard
from epochal.journal.row import RunRow
from epochal.settings import cache_folder, read_settings
from epochal.shipping.client import check_url, hub_token, linked_token
from epochal.store.answers import TrashedRun
from epochal.store.lookup import choose
from epochal.store.projects import ProjectList
from epochal.store.remote.run import Mirrors, RemoteRun, version
from epochal.store.remote.server import RemoteServer
from epochal.store.selection import parse_order, parse_query
from epochal.store.store import SUMMARISE_S, KnownRuns, RunView

# The deleted runs of a server.


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

    def put(self, run_id: str) -> TrashedRun:
        """Move a run to the trash; raises ``UsageError`` for a live one."""
        answer = self._server.send("POST", "/api/trash", {"runs": [run_id]})
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


class RemoteStore:
    """Every run that a server shows; see ``epochal.store.store`` for what may be asked.

    Copies of runs are kept below ``cache``.
    """

    def __init__(
        self, url: str, *, token: str | None = None, cache: Path, rules: RuleSettings | None = None
    ) -> None:
        self._server = RemoteServer(url, token)
        self.url = self._server.url
        digest = hashlib.sha256(self.url.encode()).hexdigest()[:16]
        self._mirrors = Mirrors(self._server, cache / _MIRRORS / digest, rules=rules)
        self._lock = threading.Lock()
        self._runs: dict[str, RemoteRun] = {}
        self._told: dict[str, object] = {}

    def __enter__(self) -> RemoteStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._server.close()
        self._mirrors.close()

    def runs(
        self,
        query: str | None = None,
        *,
        order: str | None = None,
        offset: int = 0,
        limit: int | None = None,
    ) -> Sequence[RemoteRun]:
        if offset < 0 or (limit is not None and limit < 0):
            raise UsageError(f"offset={offset} and limit={limit} must be 0 or more.")
        _check(query, order)
        return self._taken(self._server.listed(query, order, offset=offset, limit=limit)[0])

    def known_runs(
        self,
        query: str | None = None,
        *,
        order: str | None = None,
        group: str | None = None,
        budget_s: float = SUMMARISE_S,
    ) -> KnownRuns:
        """Runs as the server knows them now; see ``epochal.store.store``."""
        _check(query, order)
        if group is not None:
            raise UsageError("group= cannot be asked of a store on another machine.")
        listed, unsummarised = self._server.listed(query, order, is_patient=False)
        runs = self._taken(listed)
        projects = sorted({run.outline().project for run in runs})
        return KnownRuns(runs, unsummarised, stored=len(runs), projects=projects)

    def projects(self, *, budget_s: float = SUMMARISE_S) -> ProjectList:
        """Every project in one row, as the server knows it now."""
        return msgspec.convert(self._server.send("GET", "/api/projects"), ProjectList)

    def run(self, key: str) -> RemoteRun:
        known = self.find(key)
        if known is not None:
            return known
        runs = self._taken(self._server.listed(is_patient=False)[0])
        return runs[choose(key, [run.outline() for run in runs])]

    def find(self, run_id: str) -> RemoteRun | None:
        if not run_id:
            return None
        try:
            return self._taken([self._server.run(run_id)])[0]
        except RunNotFoundError:
            return None

    def refresh(self, *, budget_s: float = math.inf) -> Set[str]:
        """Ask for new runs and records; copies that are in use fetch what is new."""
        listed, _ = self._server.listed(is_fresh=True, is_patient=False)
        told = {one.id: version(one) for one in listed}
        before, self._told = self._told, told
        changed = {run_id for run_id, _ in told.items() ^ before.items()}
        for run in self._taken(listed):
            if run.is_copied and run.id in changed:
                run.refresh()
        with self._lock:
            for run_id in before.keys() - told.keys():
                self._runs.pop(run_id, None)
        return changed

    def remove(self, run: RunView) -> TrashedRun:
        moved = self.trash.put(run.id)
        with self._lock:
            self._runs.pop(run.id, None)
        shutil.rmtree(self._mirrors.place(run.id), ignore_errors=True)
        return moved

    @property
    def trash(self) -> RemoteTrash:
        return RemoteTrash(self._server)

    @property
    def boards(self) -> RemoteBoards:
        return RemoteBoards(self._server)

    def _taken(self, listed: Iterable[RunRow]) -> list[RemoteRun]:
        """The runs of a list; one that was listed before is the same object."""
        found: list[RemoteRun] = []
        with self._lock:
            for one in listed:
                run = self._runs.get(one.id)
                if run is None:
                    run = self._runs[one.id] = RemoteRun(one, self._server, self._mirrors)
                else:
                    run.row = one
                found.append(run)
        return found


def _check(query: str | None, order: str | None) -> None:
    """Raise ``UsageError`` for a mistake here, where the place in the text can be shown."""
    if query is not None:
        parse_query(query)
    if order is not None:
        parse_order(order)


# Opens the runs behind the address of a hub or a server, such as ``https://host``.


def open_remote(
    address: str, *, token: str | None = None, rules: RuleSettings | None = None
) -> RemoteStore:
    """The runs behind an address; no request is sent yet.

    Without a token, it is the one of a link (``?token=…``), else the one that the settings have
    for their hub. It is not sent to any other server.
    """
    url = check_url(address)
    if token is None:
        token = linked_token(address) or _own_token(url)
    return RemoteStore(url, token=token, cache=cache_folder(), rules=rules)


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
