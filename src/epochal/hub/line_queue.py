"""Stores the lines that many senders send at about the same time in one transaction."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial

from epochal.base.guard import settle
from epochal.errors import EpochalError
from epochal.hub.inbox import BusyError
from epochal.store.cluster.lines import Block

Store = Callable[[Sequence[Block]], Sequence[int | EpochalError]]
# Lines wait so long for those of other senders. A sender waits for its answer with the next lines.
COLLECT_S = 0.2
# A transaction with more is not worth the wait, and what waits for it is in memory.
_BATCH_BYTES = 8 << 20
_MOST_BYTES = 64 << 20


class LineQueue:
    """One thread that stores blocks; ``store`` answers for each of them.

    ``on_commit`` is called with the bytes of a transaction, and the seconds that it took.
    """

    def __init__(
        self,
        store: Store,
        *,
        collect_s: float = COLLECT_S,
        on_commit: Callable[[int, float], None] = lambda _num_bytes, _seconds: None,
    ) -> None:
        self._store = store
        self._on_commit = on_commit
        self._collect_s = collect_s
        self._changed = threading.Condition()
        self._waiting: list[tuple[Block, Future[int]]] = []
        self._num_bytes = 0
        self._is_closed = False
        self._thread = threading.Thread(target=self._work, name="epochal-lines", daemon=True)
        self._thread.start()

    def append(self, block: Block) -> int:
        """Store a block; how many lines of its part are stored then.

        Raises ``BusyError`` when too much is waiting, and what ``store`` answers.
        """
        future: Future[int] = Future()
        with self._changed:
            if self._is_closed or self._num_bytes + len(block.lines) > _MOST_BYTES:
                raise BusyError("the hub has more to store than it can: try again soon.")
            self._waiting.append((block, future))
            self._num_bytes += len(block.lines)
            self._changed.notify()
        return future.result()

    @property
    def num_bytes(self) -> int:
        """How many bytes wait, or are being stored."""
        return self._num_bytes

    def close(self) -> None:
        """Store what waits, and end the thread."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join()

    def _work(self) -> None:
        while batch := self._next():
            answers: Future[Sequence[int | EpochalError]] = Future()
            num_bytes, began_s = sum(len(block.lines) for block, _ in batch), time.monotonic()
            settle(answers, partial(self._store, [block for block, _ in batch]))
            if answers.exception() is None:
                self._on_commit(num_bytes, time.monotonic() - began_s)
            with self._changed:
                self._num_bytes -= num_bytes
            _answer([future for _, future in batch], answers)

    def _next(self) -> list[tuple[Block, Future[int]]]:
        """What is stored next; nothing when the queue was closed."""
        with self._changed:
            while not self._waiting and not self._is_closed:
                self._changed.wait()
            self._changed.wait_for(
                lambda: self._is_closed or self._num_bytes >= _BATCH_BYTES, self._collect_s
            )
            batch, self._waiting = self._waiting, []
            return batch


def _answer(waiting: Sequence[Future[int]], answers: Future[Sequence[int | EpochalError]]) -> None:
    error = answers.exception()
    if error is not None:  # nothing was stored: every sender sends its lines again
        for future in waiting:
            future.set_exception(error)
        return
    for future, answer in zip(waiting, answers.result(), strict=True):
        if isinstance(answer, EpochalError):
            future.set_exception(answer)
        else:
            future.set_result(answer)
