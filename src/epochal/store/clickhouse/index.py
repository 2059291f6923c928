"""The rows of runs in SQLite, as for folders; a hub gets those that others made from ``runs``."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from epochal.store.clickhouse.connection import literal
from epochal.store.clickhouse.rows import text, unpacked, whole
from epochal.store.clickhouse.schema import RUNS, one_of
from epochal.store.clickhouse.tables import Database
from epochal.store.local.index import VERSION, Index, IndexedRun
from epochal.store.packed import pack, packed_decoder
from epochal.store.row import RowDetails, StoredRow

_ROWS_AT_ONCE = 1024
_decode_row = packed_decoder(StoredRow).decode
_decode_details = packed_decoder(RowDetails).decode


class ClickHouseIndex(Index):
    """An index whose full rows all hubs with the same rules share."""

    def __init__(self, database: Database, *, rules: str) -> None:
        self._server = database.server
        self._table = f"{database.address.database}.{RUNS.name}"
        self._shared_rules = f"{VERSION}-{rules}"
        self._unsent: list[bytes] = []
        super().__init__(database.cache, Path(str(database.address)), rules=rules)

    def known(self) -> Iterator[IndexedRun]:
        """Every run of which there is a row here, or in the table."""
        here = {one.place: one.signature for one in super().known() if one.level == 2}
        columns = "run, argMax(signature, version)"
        answer = self._query(f"SELECT {columns} FROM {self._rows_of('1')} GROUP BY run", "ss")
        other = [run.decode() for run, said in answer if here.get(run.decode()) != said.decode()]
        with self.batch():
            for start in range(0, len(other), _ROWS_AT_ONCE):
                self._fetch(one_of("run", other[start : start + _ROWS_AT_ONCE]))
        return super().known()

    def get(self, place: str, signature: str) -> tuple[StoredRow, RowDetails | None] | None:
        """The row of a run with this signature; None where no hub has made one."""
        found = super().get(place, signature)
        if found is None or found[1] is None:
            self._fetch(f"run = {literal(place)} AND signature = {literal(signature)}")
            found = super().get(place, signature)
        return found

    def put(
        self,
        place: str,
        stored: StoredRow,
        details: RowDetails | None,
        *,
        signature: str,
        stamp: str | None,
    ) -> bool:
        """Keep a row, and send a full one to the table."""
        is_kept = super().put(place, stored, details, signature=signature, stamp=stamp)
        if is_kept and details is not None:
            data = text(place) + text(self._shared_rules) + whole(time.time_ns()) + text(signature)
            with self._lock:
                self._unsent.append(data + text(pack(stored)) + text(pack(details)))
                if not self._depth:
                    self.commit()
        return is_kept

    def forget(self, places: Collection[str]) -> None:
        """Keep the rows: other stores of this machine may still show the runs."""

    def commit(self) -> None:
        """End the transaction, and store what was put in the table."""
        super().commit()
        with self._lock:
            rows, self._unsent = self._unsent, []
            if rows:
                self._server.insert(self._table, RUNS.columns, b"".join(rows))

    def _fetch(self, where: str) -> None:
        """Keep the newest rows of some runs from the table."""
        columns = "run, signature, row, details"
        order = "ORDER BY run, version DESC LIMIT 1 BY run"
        statement = f"SELECT {columns} FROM {self._rows_of(where)} {order}"
        for run, signature, row, details in self._query(statement, "ssss"):
            super().put(
                run.decode(),
                _decode_row(row),
                _decode_details(details),
                signature=signature.decode(),
                stamp=None,
            )

    def _rows_of(self, where: str) -> str:
        return f"{self._table} WHERE rules = {literal(self._shared_rules)} AND ({where})"

    def _query(self, statement: str, types: str) -> Iterator[Any]:
        return unpacked(self._server.query(f"{statement} FORMAT RowBinary"), types)
