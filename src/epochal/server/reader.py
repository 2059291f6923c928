"""Queries the store in a pool of threads, by run id and never by path; the event loop stays free.

The first read of a large run takes seconds. Queries of one run wait for each other in the event
loop, not in a thread: a slow run occupies one thread and delays no other run. Queries of all runs
have threads of their own.

The interpreter waits for the standard library's executors when it exits, so a SIGTERM would take as
long as the read in progress. The threads of ``ThreadPool`` are daemons and end with the process.
"""

from __future__ import annotations

import asyncio
import errno
import math
import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from epochal.base.guard import settle
from epochal.errors import EpochalError, RunNotFoundError, UsageError
from epochal.journal.layout import parse_part_name
from epochal.store.catalog import KnownRuns
from epochal.store.run import RunView
from epochal.store.store import Store

REFRESH_EVERY_S = 1.0
RUN_THREADS = 16
LIST_THREADS = 4
# So long a list of a page reads runs that carry no summary; the next one goes on.
LIST_BUDGET_S = 0.5
# Searching for runs takes at most a tenth of the time, however many there are.
_REFRESH_SHARE = 0.1
# A thread waits this long for a locked run, then serves other runs before it retries.
_LOCK_TIMEOUT_S = 0.05
_RETRY_S = 0.05
_CLOSE_TIMEOUT_S = 0.5
# Errors of a failing or removed disk on an open file; they carry no file name.
_DISK_ERRORS = frozenset(
    {errno.EIO, errno.ESTALE, errno.ENXIO, errno.ENODEV, errno.ETIMEDOUT, errno.ENOTCONN}
)


class RunBusyError(Exception):
    """Another thread is reading the run, or the search for new runs is not due yet."""


class UnreadableRunError(EpochalError):
    """Files of a run cannot be read."""


class Reader:
    """Runs queries in threads."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.catalog = Catalog(store)
        self._runs = ThreadPool("epochal-run", RUN_THREADS)
        self._lists = ThreadPool("epochal-list", LIST_THREADS)
        self._locks: WeakValueDictionary[tuple[str, bool], asyncio.Lock] = WeakValueDictionary()

    async def query(self, query: Callable[[], T]) -> T:
        """Run a query over all runs."""
        return await self._lists.call(query)

    async def query_run(self, run_id: str, query: Callable[[RunView], T]) -> T:
        """Refresh one run, then query it while its lock is held.

        Raises ``RunNotFoundError``, and ``UnreadableRunError`` where its files cannot be read.
        """
        asked_at = time.monotonic()
        async with self._lock_of(run_id):
            while True:
                try:
                    return await self._runs.call(lambda: self._with_run(run_id, query, asked_at))
                except RunBusyError:
                    await asyncio.sleep(_RETRY_S)

    async def query_runs(
        self, run_ids: Sequence[str], query: Callable[[RunView], T]
    ) -> list[T | EpochalError]:
        """Query many runs one after the other; one that is gone or unreadable gives its error."""
        asked_at = time.monotonic()

        def one(run_id: str) -> T | EpochalError:
            while True:
                try:
                    return self._with_run(run_id, query, asked_at, timeout_s=-1.0)
                except RunBusyError:  # the next search for new runs is not due yet
                    time.sleep(_RETRY_S)
                except UsageError:
                    raise
                except EpochalError as error:
                    return error

        return await self._runs.call(lambda: [one(run_id) for run_id in run_ids])

    async def call(self, call: Callable[[], T]) -> T:
        """Run a slow function that queries no run of this store."""
        return await self._runs.call(call)

    async def encode(self, run_id: str, call: Callable[[], T]) -> T:
        """Run a function that may encode pictures of a run: one at a time, while others query it.

        Whoever waits for the same picture finds it encoded.
        """
        async with self._lock_of(run_id, is_encoding=True):
            return await self._runs.call(call)

    def _lock_of(self, run_id: str, *, is_encoding: bool = False) -> asyncio.Lock:
        lock = self._locks.get((run_id, is_encoding))
        if lock is None:
            lock = self._locks[run_id, is_encoding] = asyncio.Lock()
        return lock

    def _with_run(
        self,
        run_id: str,
        query: Callable[[RunView], T],
        asked_at: float,
        *,
        timeout_s: float = _LOCK_TIMEOUT_S,
    ) -> T:
        run = self.catalog.get(run_id, asked_at)
        if not run.lock.acquire(timeout=timeout_s):
            raise RunBusyError
        try:
            run.refresh()
            return query(run)
        except OSError as error:
            sentence = reading_failure(run, error)
            if sentence is None:
                raise
            raise UnreadableRunError(sentence) from error
        finally:
            run.lock.release()

    def close(self) -> None:
        """Cancel waiting queries and close the store.

        The store stays open where a query does not end soon: the process is about to exit.
        """
        runs_ended = self._runs.close(timeout_s=_CLOSE_TIMEOUT_S)
        lists_ended = self._lists.close(timeout_s=_CLOSE_TIMEOUT_S)
        if runs_ended and lists_ended:
            self.store.close()


class Catalog:
    """The runs of a store by their ids."""

    def __init__(self, store: Store) -> None:
        self.store = store
        # When the last search began and ended, in monotonic seconds.
        self._searched = (-math.inf, -math.inf)
        self._refresh_lock = threading.Lock()
        self._changed: set[str] = set()

    def refresh(self, *, every_s: float = REFRESH_EVERY_S, is_due: bool = False) -> bool:
        """Search for new and removed runs unless that was just done; True when it searched.

        ``is_due``: something has changed for sure, whatever the last search took.
        """
        with self._refresh_lock:
            started, (before, ended) = time.monotonic(), self._searched
            is_early = started < ended + max(every_s, (ended - before) / _REFRESH_SHARE)
            if is_early and not is_due:
                return False
            self._changed |= self.store.refresh(budget_s=LIST_BUDGET_S)
            self._searched = (started, time.monotonic())
            return True

    def search_since(self, asked_at: float) -> bool:
        """Search unless a search began after a monotonic time; False until the next one is due."""
        return self._searched[0] >= asked_at or self.refresh(every_s=0.0)

    def changed(self) -> set[str]:
        """The ids of runs that were added, changed or removed since the last call."""
        with self._refresh_lock:
            changed, self._changed = self._changed, set()
            return changed

    def known_runs(
        self, query: str | None = None, *, order: str | None = None, group: str | None = None
    ) -> KnownRuns:
        """The runs, those that carry no summary as far as there is time to read them."""
        return self.store.known_runs(query, order=order, group=group, budget_s=LIST_BUDGET_S)

    def get(self, run_id: str, asked_at: float) -> RunView:
        """The run with this id; raises ``RunNotFoundError``.

        A run may have been created since the last search. So only a search that began after
        ``asked_at`` says that there is none; raises ``RunBusyError`` until such a search is due.
        """
        run = self.store.find(run_id)
        if run is None and self._searched[0] < asked_at:
            if not self.refresh(every_s=0.0):
                raise RunBusyError
            run = self.store.find(run_id)
        if run is None:
            raise RunNotFoundError(f"there is no run with the id {run_id!r}.")
        return run

    def current(self) -> str:
        """The id of the newest running run, else of the newest; raises ``RunNotFoundError``."""
        self.refresh()
        runs = self.store.runs()
        if not runs:
            raise RunNotFoundError("there are no runs here yet.")
        return next((run for run in runs if run.status.state == "running"), runs[0]).id


def reading_failure(run: RunView, error: OSError) -> str | None:
    """A sentence about files of the run that cannot be read; None for other errors.

    Other errors are faults of the server and must not pass for an unreadable disk.
    """
    folder, reason = run.info.folder, error.strerror or type(error).__name__
    if error.filename is None:
        return f"cannot read {folder}: {reason}." if error.errno in _DISK_ERRORS else None
    if isinstance(error.filename, int):
        return None
    path = Path(os.fsdecode(error.filename))
    # A rank that cannot find rank 0 writes its parts beside the run, and moves them later.
    is_part = parse_part_name(path.name, ".jsonl") is not None
    if is_part or path.is_relative_to(folder):
        return f"cannot read {path}: {reason}."
    return None


T = TypeVar("T")


class ThreadPool:
    """At most ``most`` threads, each started on demand."""

    def __init__(self, name: str, most: int) -> None:
        self._name = name
        self._most = most
        # None ends a thread.
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = (
            queue.SimpleQueue()
        )
        self._idle = threading.Semaphore(0)
        self._num_threads = 0
        self._unfinished: set[Future[Any]] = set()

    async def call(self, call: Callable[[], T]) -> T:
        """Run a function in a thread and return its result."""
        future: Future[T] = Future()
        self._unfinished.add(future)
        future.add_done_callback(self._unfinished.discard)
        self._calls.put((future, call))
        if not self._idle.acquire(blocking=False) and self._num_threads < self._most:
            self._num_threads += 1
            name = f"{self._name}-{self._num_threads}"
            threading.Thread(target=self._work, name=name, daemon=True).start()
        return await asyncio.wrap_future(future)

    def close(self, *, timeout_s: float) -> bool:
        """Cancel waiting calls and end the threads; no call may follow.

        False when a running call has not ended in this time: its thread ends after it.
        """
        running = [future for future in list(self._unfinished) if not future.cancel()]
        for _ in range(self._num_threads):
            self._calls.put(None)
        return not wait(running, timeout=timeout_s).not_done

    def _work(self) -> None:
        while (work := self._calls.get()) is not None:
            future, call = work
            if future.set_running_or_notify_cancel():
                settle(future, call)
            del work, future, call  # or the result is kept until the next call
            self._idle.release()
