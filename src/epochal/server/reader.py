"""Asks the store from a pool of threads, by ids and never by paths; the event loop stays free.

The first look at a large run takes seconds. Questions about one run wait for each other in the
event loop, not in a thread, so that such a run keeps one thread busy and nobody else waiting.
Questions about all runs have threads of their own.
"""

from __future__ import annotations

import asyncio
import errno
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar
from weakref import WeakValueDictionary

from epochal.errors import EpochalError, RunNotFoundError
from epochal.journal.layout import parse_part_name
from epochal.server.pool import ThreadPool
from epochal.store.store import RunView, Store

T = TypeVar("T")

LOOK_EVERY_S = 1.0
RUN_THREADS = 16
LIST_THREADS = 4
# Looking for runs takes at most a tenth of the time, however many there are.
_LOOK_SHARE = 0.1
# A thread waits this long for a run that others hold; then it is free for other runs for a while.
_HELD_WITHIN_S = 0.05
_TRY_AGAIN_S = 0.05
_CLOSED_WITHIN_S = 0.5
# What a failing or vanished disk says where a file is already open, without the file's name.
_DISK_ERRORS = frozenset(
    {errno.EIO, errno.ESTALE, errno.ENXIO, errno.ENODEV, errno.ETIMEDOUT, errno.ENOTCONN}
)


class RunBusyError(Exception):
    """Another thread reads the run at this moment."""


class UnreadableRunError(EpochalError):
    """Files of a run cannot be read."""


class Reader:
    """Threads that ask a store; ``Catalog`` is what they ask."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.catalog = Catalog(store)
        self._runs = ThreadPool("epochal-run", RUN_THREADS)
        self._lists = ThreadPool("epochal-list", LIST_THREADS)
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def ask(self, question: Callable[[], T]) -> T:
        """The answer to a question about all runs."""
        return await self._lists.call(question)

    async def ask_run(self, run_id: str, question: Callable[[RunView], T]) -> T:
        """The answer to a question about one run, which is read up to now and held meanwhile.

        Raises ``RunNotFoundError``, and ``UnreadableRunError`` where its files cannot be read.
        """
        turn = self._turns.get(run_id)
        if turn is None:
            turn = self._turns[run_id] = asyncio.Lock()
        async with turn:
            while True:
                try:
                    return await self._runs.call(lambda: self._in_run(run_id, question))
                except RunBusyError:
                    await asyncio.sleep(_TRY_AGAIN_S)

    async def work(self, call: Callable[[], T]) -> T:
        """What a call returns that takes long and asks no run of this store."""
        return await self._runs.call(call)

    def _in_run(self, run_id: str, question: Callable[[RunView], T]) -> T:
        run = self.catalog.known(run_id)
        hold(run, within_s=_HELD_WITHIN_S)
        try:
            run.refresh()
            return question(run)
        except OSError as error:
            sentence = reading_failure(run, error)
            if sentence is None:
                raise
            raise UnreadableRunError(sentence) from error
        finally:
            run.lock.release()

    def close(self) -> None:
        """Ask nothing that still waits, and close the store.

        A question that does not end soon is left behind, and the store with it: the process ends.
        """
        runs_ended = self._runs.close(within_s=_CLOSED_WITHIN_S)
        lists_ended = self._lists.close(within_s=_CLOSED_WITHIN_S)
        if runs_ended and lists_ended:
            self._store.close()


class Catalog:
    """The runs of a store by their ids."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._look_after = 0.0
        self._looking = threading.Lock()
        self._changed: set[str] = set()

    def look(self) -> bool:
        """Look for new and vanished runs, unless that was done just now; True when it was done."""
        with self._looking:
            started = time.monotonic()
            if started < self._look_after:
                return False
            self._changed |= self._store.refresh()
            ended = time.monotonic()
            self._look_after = ended + max(LOOK_EVERY_S, (ended - started) / _LOOK_SHARE)
            return True

    def changed(self) -> set[str]:
        """The ids of runs that were new, changed or gone since this was asked last."""
        with self._looking:
            changed, self._changed = self._changed, set()
            return changed

    def runs(self, query: str | None = None, *, order: str | None = None) -> Sequence[RunView]:
        """The runs there are, as of the last look."""
        return self._store.runs(query, order=order)

    def find(self, run_id: str) -> RunView | None:
        """The run of an id as of the last look."""
        return self._store.find(run_id)

    def known(self, run_id: str) -> RunView:
        """The run of an id as far as it has been read; ``RunNotFoundError`` for anything else."""
        run = self._store.find(run_id)
        if run is None:
            self.look()  # it may have been made since
            run = self._store.find(run_id)
        if run is None:
            raise RunNotFoundError(f"there is no run with the id {run_id!r}.")
        return run

    def current(self) -> str:
        """The id of the newest run that is running, else of the newest; ``RunNotFoundError``."""
        self.look()
        runs = self._store.runs()
        if not runs:
            raise RunNotFoundError("there are no runs here yet.")
        return next((run for run in runs if run.status.state == "running"), runs[0]).id


def hold(run: RunView, *, within_s: float) -> None:
    """Take the lock of a run; ``RunBusyError`` when others have it for so long."""
    if not run.lock.acquire(timeout=within_s):
        raise RunBusyError


def reading_failure(run: RunView, error: OSError) -> str | None:
    """A sentence about files of the run that cannot be read; None for any other error.

    Any other error is a fault of ours, which must not pass for an unreadable disk.
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
