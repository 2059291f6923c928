"""A thread pool whose threads do not keep the process from exiting.

The interpreter waits for the standard library's executors when it exits, so a SIGTERM would take as
long as the read in progress. These threads are daemons and end with the process.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any, TypeVar

from epochal.guard import settle

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
