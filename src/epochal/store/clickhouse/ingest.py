"""Stores lines that hubs receive: those of all senders together, one insert for each table.

A sender waits until ClickHouse has answered the inserts of its lines. Points are stored first, then
records, then the row of ``parts`` that counts them. After a fault in between, the sender sends its
lines again; what was stored by then is stored twice until a merge.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from dataclasses import dataclass, field

from epochal.journal.layout import PartName
from epochal.store.clickhouse.connection import ClickHouseError
from epochal.store.clickhouse.rows import Split, split_lines, text, whole
from epochal.store.clickhouse.schema import PARTS, POINTS, RECORDS
from epochal.store.clickhouse.tables import Received, Tables

# Rows of more senders wait for the next insert.
_MOST_BYTES = 64 << 20


@dataclass(slots=True)
class _Waiting:
    """The rows of one sender, and the answer that it waits for."""

    split: Split
    part: bytes
    stored: Future[None] = field(default_factory=Future)


class Ingest:
    """Stores lines; several threads use it, and their rows are stored together."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._waiting: list[_Waiting] = []
        self._changed = threading.Condition()
        self._is_closed = False
        self._thread = threading.Thread(target=self._work, name="epochal-ingest", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Store what waits, and end."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._thread.join()

    def append(self, run_id: str, name: PartName, lines: bytes, known: Received) -> Received:
        """Store whole lines behind those that are known; returns when they are stored.

        Raises ``ClickHouseError`` when they are not, and ``FormatError`` for lines of a part that
        has no place in the tables.
        """
        split = split_lines(run_id, name, lines, first=known.lines, ordinal=known.records)
        now = Received(
            known.lines + split.num_lines,
            known.records + split.num_records,
            known.damaged + split.num_damaged,
            known.size + len(lines),
        )
        part = text(run_id) + text(name.writer) + whole(name.attempt, name.part, bits=32)
        waiting = _Waiting(split, part + whole(*now[:4]))
        with self._changed:
            if self._is_closed:
                raise ClickHouseError("the hub is stopping: send the lines again.")
            self._waiting.append(waiting)
            self._changed.notify_all()
        waiting.stored.result()
        return now

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._is_closed)
                if not self._waiting:
                    return
                some, size = list[_Waiting](), 0
                while self._waiting and size < _MOST_BYTES:
                    some.append(self._waiting.pop(0))
                    size += len(some[-1].split.points) + len(some[-1].split.records)
            error = self._store(some)
            for one in some:
                # Rows that ClickHouse refuses concern their sender, and no other.
                is_shared = error is not None and error.code and len(some) > 1
                own = self._store([one]) if is_shared else error
                if own is None:
                    one.stored.set_result(None)
                else:
                    one.stored.set_exception(own)

    def _store(self, some: list[_Waiting]) -> ClickHouseError | None:
        server, name = self._tables.server, self._tables.name
        try:
            if points := b"".join(one.split.points for one in some):
                server.insert(name(POINTS), POINTS.columns, points)
            if records := b"".join(one.split.records for one in some):
                server.insert(name(RECORDS), RECORDS.columns, records)
            server.insert(name(PARTS), PARTS.columns, b"".join(one.part for one in some))
        except ClickHouseError as error:
            return error
        return None
