"""Asks the store: one question at a time, in a thread of its own, by ids and never by paths.

A store is not made for several threads, and its first look at a large run takes seconds: here the
questions queue, and the event loop stays free.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from epochal.errors import RunNotFoundError
from epochal.store.store import RunView, Store

P = ParamSpec("P")
T = TypeVar("T")

LOOK_EVERY_S = 1.0
# Looking for runs takes at most a tenth of the time, however many there are.
_LOOK_SHARE = 0.1


class Reader:
    """The thread that asks the store; ``Catalog`` is what is asked there."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.catalog = Catalog(store)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="epochal-store")

    async def ask(self, question: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The answer to a question, which is called in the store's thread."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, lambda: question(*args, **kwargs))

    def close(self) -> None:
        """Let the question being asked end, ask none that waits, and close the store."""
        self._thread.shutdown(wait=True, cancel_futures=True)
        self._store.close()


class Catalog:
    """The runs of a store by their ids; everything here belongs to the store's thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._look_after = 0.0
        self._changed: set[str] = set()

    def look(self) -> bool:
        """Look for new and vanished runs, unless that was done just now; True when it was done."""
        started = time.monotonic()
        if started < self._look_after:
            return False
        self._changed |= self._store.refresh()
        ended = time.monotonic()
        self._look_after = ended + max(LOOK_EVERY_S, (ended - started) / _LOOK_SHARE)
        return True

    def changed(self) -> set[str]:
        """The ids of runs that were new, changed or gone since this was asked last."""
        changed, self._changed = self._changed, set()
        return changed

    def runs(self, query: str | None = None, *, order: str | None = None) -> Sequence[RunView]:
        """The runs there are, as of the last look."""
        return self._store.runs(query, order=order)

    def run(self, run_id: str) -> RunView:
        """The run of an id, read up to now; raises ``RunNotFoundError`` for anything else."""
        run = self.known(run_id)
        run.refresh()
        return run

    def known(self, run_id: str) -> RunView:
        """The run of an id as far as it has been read; raises like ``run``."""
        run = self._store.find(run_id)
        if run is None and self.look():  # it may have been made since
            run = self._store.find(run_id)
        if run is None:
            raise RunNotFoundError(f"there is no run with the id {run_id!r}.")
        return run

    def newest(self) -> RunView:
        """The run that started last; raises ``RunNotFoundError`` when there is none."""
        self.look()
        runs = self._store.runs(limit=1)
        if not runs:
            raise RunNotFoundError("there are no runs here yet.")
        runs[0].refresh()
        return runs[0]
