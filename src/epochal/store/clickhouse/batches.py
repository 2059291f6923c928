"""Inserts the rows of several requests together: ClickHouse wants few inserts of many rows.

Who waits longest inserts for all who wait. Each waits until its own rows are stored.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from epochal.store.clickhouse.connection import ClickHouseError
from epochal.store.clickhouse.schema import Table

# At most so often, unless so much waits; a single insert after a pause does not wait at all.
INSERT_EVERY_S = 0.2
_MANY_BYTES = 512 << 10
# One insert is one block on the server, which is stored whole or not at all.
_MOST_BYTES = 32 << 20


@dataclass(slots=True, eq=False)
class _Waiting:
    run: str
    rows: bytes
    called: threading.Event = field(default_factory=threading.Event)
    is_done: bool = False
    error: ClickHouseError | None = None


class Batches:
    """Collects rows by table; ``insert`` stores them and returns when they are stored."""

    def __init__(
        self, insert: Callable[[Table, bytes], None], *, every_s: float = INSERT_EVERY_S
    ) -> None:
        self._insert = insert
        self._every_s = every_s
        self._lock = threading.Lock()
        self._waiting: dict[str, list[_Waiting]] = {}
        self._is_busy: set[str] = set()
        self._started_s: dict[str, float] = {}

    def put(self, table: Table, run_id: str, rows: bytes) -> None:
        """Store rows of a run; raises ``ClickHouseError`` when that failed."""
        mine = _Waiting(run_id, rows)
        with self._lock:
            self._waiting.setdefault(table.name, []).append(mine)
            if table.name not in self._is_busy:
                self._is_busy.add(table.name)
                mine.called.set()
        mine.called.wait()
        if not mine.is_done:
            self._lead(table)
        if mine.error is not None:
            # Each who waits has an error of its own: a traceback belongs to one thread.
            raise ClickHouseError(str(mine.error), code=mine.error.code)

    def _lead(self, table: Table) -> None:
        """Insert what waits, then call the next who waits to do the same."""
        self._pause(table)
        with self._lock:
            batch = self._taken(table)
            self._started_s[table.name] = time.monotonic()
        try:
            self._store(table, batch)
        finally:
            for one in batch:
                if not one.is_done:  # a fault that nobody foresaw: it is raised here
                    one.error = ClickHouseError("the insert failed for a reason of the hub's own.")
            _wake(batch)
            with self._lock:
                waiting = self._waiting.get(table.name)
                if waiting:
                    waiting[0].called.set()
                else:
                    self._is_busy.discard(table.name)

    def _pause(self, table: Table) -> None:
        due_s = self._started_s.get(table.name, 0.0) + self._every_s
        with self._lock:
            waiting = self._waiting.get(table.name, ())
            is_large = sum(len(one.rows) for one in waiting) >= _MANY_BYTES
        if waiting and not is_large:
            time.sleep(max(0.0, due_s - time.monotonic()))

    def _taken(self, table: Table) -> list[_Waiting]:
        waiting = self._waiting.pop(table.name, [])
        batch: list[_Waiting] = []
        size = 0
        while waiting and (not batch or size + len(waiting[0].rows) <= _MOST_BYTES):
            size += len(waiting[0].rows)
            batch.append(waiting.pop(0))
        if waiting:
            self._waiting[table.name] = waiting
        return batch

    def _store(self, table: Table, batch: list[_Waiting]) -> None:
        error = self._try(table, batch)
        if error is not None and len({one.run for one in batch}) > 1:
            # Another run's shard may be away: each run stands for itself.
            for run_id in dict.fromkeys(one.run for one in batch):
                mine = [one for one in batch if one.run == run_id]
                _tell(mine, self._try(table, mine))
        else:
            _tell(batch, error)

    def _try(self, table: Table, batch: Iterable[_Waiting]) -> ClickHouseError | None:
        try:
            self._insert(table, b"".join([one.rows for one in batch]))
        except ClickHouseError as error:
            return error
        return None


def _tell(batch: Iterable[_Waiting], error: ClickHouseError | None) -> None:
    for one in batch:
        one.error, one.is_done = error, True


def _wake(batch: Iterable[_Waiting]) -> None:
    for one in batch:
        one.is_done = True
        one.called.set()
