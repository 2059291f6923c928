"""A thread pool whose threads do not keep the process from exiting, and turns of requests.

The interpreter waits for the standard library's executors when it exits, so a SIGTERM would take as
long as the read in progress. These threads are daemons and end with the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, wait
from contextlib import asynccontextmanager
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
        self._results: _Results | None = None

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
        loop = asyncio.get_running_loop()
        if self._results is None or self._results.loop is not loop:
            self._results = _Results(loop)
        return await self._results.of(future)

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


class _Results:
    """Brings results from threads to an event loop: one wake-up takes all that are there.

    A loop that is woken for each of hundreds of results a second hardly does anything else.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._done: deque[tuple[Future[Any], asyncio.Future[Any]]] = deque()
        self._lock = threading.Lock()
        self._is_waking = False

    def of(self, future: Future[T]) -> asyncio.Future[T]:
        """The result as the loop waits for it; whoever no longer waits cancels the call."""
        waiter: asyncio.Future[T] = self.loop.create_future()
        waiter.add_done_callback(lambda ended: future.cancel() if ended.cancelled() else None)
        future.add_done_callback(lambda _: self._bring(future, waiter))
        return waiter

    def _bring(self, future: Future[Any], waiter: asyncio.Future[Any]) -> None:
        with self._lock:
            self._done.append((future, waiter))
            if self._is_waking:
                return
            self._is_waking = True
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            self.loop.call_soon_threadsafe(self._settle)

    def _settle(self) -> None:
        with self._lock:
            done, self._done = self._done, deque()
            self._is_waking = False
        for future, waiter in done:
            if waiter.done():
                continue
            if future.cancelled():
                waiter.cancel()
            elif (error := future.exception()) is not None:
                # asyncio refuses a StopIteration, and everyone after it would wait for ever.
                is_stop = isinstance(error, StopIteration)
                waiter.set_exception(RuntimeError(repr(error)) if is_stop else error)
            else:
                waiter.set_result(future.result())


class Turns:
    """Requests take turns, so that the first is answered while the next is computed.

    Threads that compute at the same time share one interpreter: all their answers would come at
    the end. Whoever takes longer than ``longest_s`` goes on, and no longer delays the others.
    """

    def __init__(self, *, longest_s: float) -> None:
        self._longest_s = longest_s
        self._free = asyncio.Lock()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a turn and have it."""
        await self._free.acquire()
        is_held = True

        def give_back() -> None:
            nonlocal is_held
            if is_held:
                is_held = False
                self._free.release()

        timer = asyncio.get_running_loop().call_later(self._longest_s, give_back)
        try:
            yield
        finally:
            timer.cancel()
            give_back()
