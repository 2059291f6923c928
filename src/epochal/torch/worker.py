"""One thread for what need not be waited for, such as writing a checkpoint."""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from typing import ParamSpec

from epochal.errors import UsageError
from epochal.torch.checks import check_whole

P = ParamSpec("P")


class CpuWorker:
    """Runs tasks on one background thread, in order.

    At most `max_queued` tasks wait; `submit` blocks while there is no room. What a task raised is
    raised by the next call here, and later tasks run all the same. Tasks still queued are finished
    before the worker goes, at the end of the program at the latest. A context manager.
    """

    def __init__(self, *, max_queued: int = 4) -> None:
        check_whole(max_queued, name="max_queued", least=1)
        self._queue = _TaskQueue(max_queued)
        # Runs when the worker is given up, too, or when the program ends.
        self._end = weakref.finalize(self, self._queue.drain)

    def submit(self, task: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
        """Queue a call, after what is queued already; blocks while the queue is full.

        Args:
            task: The function.
            args: Its arguments.
            kwargs: Its named arguments.
        """
        self._queue.raise_failure()
        if not self._end.alive:
            raise UsageError("the worker has finished: make another.")
        self._queue.add(lambda: task(*args, **kwargs))

    def is_idle(self) -> bool:
        """Return whether nothing runs and nothing is queued."""
        self._queue.raise_failure()
        return self._queue.is_empty()

    def finish(self) -> None:
        """Wait for every task and end the thread; calling it again does nothing."""
        self._end()

    def __enter__(self) -> CpuWorker:
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()


class _TaskQueue:
    """The tasks that are queued, running, or over and not yet looked at."""

    def __init__(self, max_queued: int) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="epochal-worker")
        self._room = threading.BoundedSemaphore(max_queued + 1)
        self._tasks: deque[Future[object]] = deque()
        self._pid = os.getpid()

    def add(self, task: Callable[[], object]) -> None:
        self._room.acquire()
        future = self._pool.submit(task)
        self._tasks.append(future)
        future.add_done_callback(lambda _: self._room.release())

    def is_empty(self) -> bool:
        return all(task.done() for task in tuple(self._tasks))

    def raise_failure(self) -> None:
        failures = []
        while self._tasks and self._tasks[0].done():
            if (failure := self._tasks.popleft().exception()) is not None:
                failures.append(failure)
        # The first is raised; a traceback shows the others as its context.
        for failure, later in pairwise(failures):
            failure.__context__ = later
        if failures:
            raise failures[0]

    def drain(self) -> None:
        """Finish what is queued; a forked child has neither the thread nor its tasks."""
        if os.getpid() == self._pid:
            self._pool.shutdown(wait=True)
            self.raise_failure()
