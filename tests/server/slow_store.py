"""A store whose one run takes as long to read as a test wants, as a very large one does."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, cast

from epochal.store.local.catalog import FolderCatalog
from epochal.store.run import RunView
from epochal.store.store import Store

WAIT_S = 120.0


class SlowStore(Store):
    """``reading`` is set once somebody reads the run of this id; it ends with ``go_on``."""

    def __init__(self, *folders: Path, slow: str) -> None:
        super().__init__(FolderCatalog(*folders))
        self.slow = slow
        self.reading = threading.Event()
        self.go_on = threading.Event()

    def find(self, run_id: str) -> Any:
        run = super().find(run_id)
        return run if run is None or run_id != self.slow else cast(RunView, _SlowRun(run, self))

    def close(self) -> None:
        self.go_on.set()
        super().close()


class _SlowRun:
    def __init__(self, run: RunView, store: SlowStore) -> None:
        self._run = run
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._run, name)

    def refresh(self) -> bool:
        with self._run.lock:
            self._store.reading.set()
            assert self._store.go_on.wait(WAIT_S)
            return self._run.refresh()
