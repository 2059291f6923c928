"""Stores lines that hubs receive: those of all senders together, one insert for each table.

A sender waits until ClickHouse has answered the inserts of its lines. Points are stored first, then
records, then the row of ``parts`` that counts them. After a fault in between, the sender sends its
lines again; what was stored by then is stored twice until a merge, and queries count it once.
"""

from __future__ import annotations

import secrets
import struct
import threading
from collections import OrderedDict
from concurrent.futures import Future
from dataclasses import dataclass, field

from epochal.journal.layout import PartName
from epochal.segments.columns import SeriesKey
from epochal.store.clickhouse.connection import ClickHouseError
from epochal.store.clickhouse.rows import AXES, Split, split_lines, text, whole
from epochal.store.clickhouse.schema import PARTS, POINTS, RECORDS, SERIES
from epochal.store.clickhouse.tables import Received, Tables

# Rows of more senders wait for the next insert.
_MOST_BYTES = 64 << 20
_MOST_KNOWN = 20_000


@dataclass(slots=True)
class _Known:
    """A part as far as it was received, and its series."""

    received: Received
    series: set[SeriesKey]


@dataclass(slots=True)
class _Waiting:
    """The rows of one sender, and the answer that it waits for: how much is stored then."""

    split: Split
    series: bytes
    part: bytes
    received: Received
    stored: Future[Received] = field(default_factory=Future)

    def part_row(self) -> bytes:
        """The row of ``parts``."""
        now = self.received
        counts = whole(*now[:4]) + struct.pack("<qd", now.step, now.t)
        return self.part + counts + text(",".join(sorted(now.kinds)))


class Ingest:
    """Stores lines; several threads use it, and their rows are stored together.

    Callers see to it that lines of one part come one after the other.
    """

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._known: OrderedDict[tuple[str, PartName], _Known] = OrderedDict()
        self._hub = whole(secrets.randbits(64))
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

    def received(self, run_id: str, name: PartName, *, expected: int) -> Received:
        """How much of a part is stored.

        The servers are asked where that is not so many lines as expected: another hub may have
        received more.
        """
        known = self._known.get((run_id, name))
        if known is None or known.received.lines != expected:
            received = self._tables.received([run_id]).get(run_id, {}).get(name, Received())
            known = _Known(received, set(self._tables.keys(run_id, [name]).get(name, ())))
            with self._changed:
                self._known[run_id, name] = known
                if len(self._known) > _MOST_KNOWN:
                    self._known.popitem(last=False)
        return known.received

    def append(self, run_id: str, name: PartName, lines: bytes) -> Received:
        """Store whole lines behind those that are ``received``; returns when they are stored.

        Raises ``ClickHouseError`` when they are not, and ``FormatError`` for lines of a part that
        has no place in the tables.
        """
        known = self._known[run_id, name]
        before = known.received
        split = split_lines(run_id, name, lines, first=before.lines, ordinal=before.records)
        now = Received(
            before.lines + split.num_lines,
            before.records + split.num_records,
            before.damaged + split.num_damaged,
            before.size + len(lines),
            max(before.step, split.step),
            max(before.t, split.t),
            before.kinds | split.kinds,
        )
        start = text(run_id) + text(name.writer) + whole(name.attempt, name.part, bits=32)
        series = b"".join(
            start
            + text(key.name)
            + bytes([AXES.index(key.axis)])
            + whole(place)
            + whole(min(number, 0xFFFF), bits=16)
            for number, (key, place) in enumerate(split.series.items())
            if key not in known.series
        )
        waiting = _Waiting(split, series, start + self._hub, now)
        with self._changed:
            if self._is_closed:
                raise ClickHouseError("the hub is stopping: send the lines again.")
            self._waiting.append(waiting)
            self._changed.notify_all()
        known.received = waiting.stored.result()
        known.series |= split.series.keys()
        return known.received

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
                    one.stored.set_result(one.received)
                else:
                    one.stored.set_exception(own)

    def _store(self, some: list[_Waiting]) -> ClickHouseError | None:
        server, name = self._tables.server, self._tables.name
        try:
            if points := b"".join(one.split.points for one in some):
                server.insert(name(POINTS), POINTS.columns, points)
            if records := b"".join(one.split.records for one in some):
                server.insert(name(RECORDS), RECORDS.columns, records)
            if series := b"".join(one.series for one in some):
                server.insert(name(SERIES), SERIES.columns, series)
            server.insert(name(PARTS), PARTS.columns, b"".join(one.part_row() for one in some))
        except ClickHouseError as error:
            return error
        except OSError as error:  # chdb reads rows from a file; senders must get their answer
            reason = error.strerror or error
            return ClickHouseError(f"the rows cannot be written: {reason}.")
        return None
