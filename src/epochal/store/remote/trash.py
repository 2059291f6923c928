"""The deleted runs of a server."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from epochal.errors import RunNotFoundError, UsageError
from epochal.store.answers import TrashedRun
from epochal.store.remote.server import RemoteServer


class RemoteTrash:
    """The trash of a server; ``folder`` of a run is what names it there."""

    def __init__(self, server: RemoteServer) -> None:
        self._server = server

    def runs(self, *, older_s: float = 0.0) -> Sequence[TrashedRun]:
        """Those that were deleted at least so many seconds ago, the newest deletion first."""
        rows = self._server.send("GET", "/api/trash")["runs"]
        found = [_trashed(row) for row in rows]
        return [run for run in found if run.deleted <= time.time() - older_s]

    def find(self, key: str) -> TrashedRun:
        """The one that a key names; of several the one deleted last."""
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
        """Move a run back; its project and name."""
        answer = self._server.send("POST", "/api/trash/restore", {"keys": [run.folder]})
        if answer["refused"]:
            raise RunNotFoundError(answer["refused"][0]["reason"])
        return f"{run.project}/{run.name}"

    def erase(self, run: TrashedRun) -> None:
        """Refused: only the server's own machine erases runs."""
        raise UsageError(
            f"{run.name!r} can be erased on the machine of {self._server.url} only:"
            " 'epochal trash erase' does so there."
        )


def _trashed(row: dict[str, Any]) -> TrashedRun:
    return TrashedRun(
        id=row["id"],
        name=row["name"],
        project=row["project"],
        folder=row["key"],
        origin="",
        deleted=row["deleted"],
    )
