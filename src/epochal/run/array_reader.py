"""Reads arrays of JAX that are still being computed, in a thread, while the program goes on.

JAX computes asynchronously on every device, and asking for a value waits for it. The record waits
in a queue instead. Arrays never change, so the value is the one that was logged; one that was
donated to a later computation is lost, and the run says so.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

from epochal.guard import attempt, describe
from epochal.values import pending_arrays, plain_number

MAX_PENDING = 4096  # one more waits until the oldest is read


class ArrayReader:
    """Hands records on when their arrays are computed; safe to use from several threads."""

    def __init__(
        self, then: Callable[[dict[str, Any]], None], lost: Callable[[int, str], None]
    ) -> None:
        self._then = then
        self._lost = lost
        self._records: queue.Queue[dict[str, Any]] = queue.Queue(MAX_PENDING)
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def defer(self, record: dict[str, Any]) -> None:
        """Hand the record on when the arrays it holds are computed."""
        for _, _, value in pending_arrays(record):
            attempt(value.copy_to_host_async)
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._read, name="epochal-array-values", daemon=True
                )
                self._thread.start()
        self._records.put(record)

    def flush(self) -> None:
        """Wait until every record has been handed on."""
        self._records.join()

    def _read(self) -> None:
        while True:
            record = self._records.get()
            _, error = attempt(self._hand_on, record)
            if error is not None:
                attempt(self._lost, 1, describe(error).partition("\n")[0])
            self._records.task_done()

    def _hand_on(self, record: dict[str, Any]) -> None:
        filled = dict(record)
        for inner, name, value in pending_arrays(record):
            if inner is not None and filled[inner] is record[inner]:
                filled[inner] = dict(record[inner])
            target = filled if inner is None else filled[inner]
            target[name] = plain_number(value, name=name)
        self._then(filled)
