"""What ClickHouse returns of a series and its records is what the folder returns."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
import numpy as np
import pytest

from epochal.hub.clickhouse_inbox import ClickHouseInbox
from epochal.journal.layout import read_json
from epochal.records import Axis
from epochal.store.clickhouse.connection import ClickHouseError, Server
from epochal.store.clickhouse.store import ClickHouseStore
from epochal.store.clickhouse.tables import Database
from epochal.store.local.store import LocalStore
from tests.hub.clickhouse import ENGINES, new_database
from tests.hub.filled_database import fill
from tests.store.journals import Journal


@pytest.fixture(params=ENGINES)
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    with contextlib.closing(Database(new_database(request.param))) as opened:
        yield opened


def assert_alike(database: Database, root: Path, name: str, *, axis: Axis = "step") -> None:
    with LocalStore(root) as store:
        here, there = store.run("x"), ClickHouseStore(database).run("x")
        wanted, found = here.series(name, axis=axis), there.series(name, axis=axis)
        np.testing.assert_array_equal(found.at, wanted.at)
        np.testing.assert_array_equal(found.values, wanted.values)
        assert found.hidden == wanted.hidden
        assert list(there.records()) == list(here.records())
        of_all, of_parts = here.summary(name, axis=axis), there.summary(name, axis=axis)
        assert msgspec.structs.replace(of_parts, mean=None) == msgspec.structs.replace(
            of_all, mean=None
        )
        assert of_parts.mean == pytest.approx(of_all.mean)


def test_steps_in_any_order_with_gaps_and_values_that_are_no_numbers(
    database: Database, tmp_path: Path
) -> None:
    journal = Journal(tmp_path)
    for step in [*range(200, 400, 2), *range(100), 5000]:
        loss = {7: math.nan, 8: math.inf, 300: -math.inf}.get(step, 1 / (step + 1))
        journal.metrics(step, loss=loss)
    fill(database, tmp_path)
    assert_alike(database, tmp_path, "loss")


def test_attempts_that_took_over_and_steps_that_were_logged_twice(
    database: Database, tmp_path: Path
) -> None:
    journal = Journal(tmp_path)
    for step in range(200):
        journal.metrics(step, loss=float(step)).metrics(step, loss=step / 2)
        journal.metrics(step, writer="child-7", loss=-1.0)
    journal.add({"log": "resume", "step": 150}, attempt=2)
    for step in range(150, 300):
        journal.metrics(step, attempt=2, loss=-float(step))
    fill(database, tmp_path)
    assert_alike(database, tmp_path, "loss")


def test_readings_of_machines_are_along_the_time(database: Database, tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for number in range(200):
        journal.add({"log": "system", "cpu_pct": float(number % 17)}, writer="telemetry-node")
    fill(database, tmp_path)
    assert_alike(database, tmp_path, "system/cpu_pct", axis="time")


class FailingAt:
    """A server whose next insert into a table fails, as when the hub is killed before it."""

    def __init__(self, server: Server, table: str) -> None:
        self._server, self._table = server, table
        self.version = server.version

    def query(self, statement: str) -> bytes:
        return self._server.query(statement)

    def insert(self, table: str, columns: Mapping[str, str], rows: bytes) -> None:
        if table.endswith(f".{self._table}"):
            self._table = ""
            raise ClickHouseError("the server went away")
        self._server.insert(table, columns, rows)

    def close(self) -> None:
        self._server.close()


@pytest.mark.parametrize("table", ["records", "series", "parts"])
def test_a_batch_that_was_stored_twice_counts_once(
    database: Database, tmp_path: Path, table: str
) -> None:
    journal = Journal(tmp_path)
    for step in range(200):
        journal.metrics(step, loss=step / 7)
    server = database.server
    database.tables.server = FailingAt(server, table)
    with pytest.raises(ClickHouseError):
        fill(database, tmp_path)
    database.tables.server = server
    fill(database, tmp_path)  # by another hub
    assert_alike(database, tmp_path, "loss")


def test_two_hubs_that_receive_the_same_lines_store_each_once(
    database: Database, tmp_path: Path
) -> None:
    journal = Journal(tmp_path)
    for step in range(200):
        journal.metrics(step, loss=step / 7)
    lines = journal.path().read_bytes()
    with (
        contextlib.closing(ClickHouseInbox(database)) as one,
        contextlib.closing(ClickHouseInbox(database)) as other,
    ):
        one.register(journal.id, read_json(journal.folder.identity))
        for inbox in (one, other):  # neither knows of the other's lines yet
            assert inbox.append(journal.id, "loop.0001.0000", first=0, lines=b"") == 0
        for inbox in (one, other):
            assert inbox.append(journal.id, "loop.0001.0000", first=0, lines=lines) == 201
    assert_alike(database, tmp_path, "loss")


def test_a_run_is_read_on_as_it_grows(database: Database, tmp_path: Path) -> None:
    journal = Journal(tmp_path).metrics(0, loss=1.0)
    fill(database, tmp_path)
    run = ClickHouseStore(database).run("x")
    assert run.summary("loss").count == 1
    for step in range(1, 100):
        journal.metrics(step, loss=1.0 / step)
    seen = run.end()
    fill(database, tmp_path)
    assert run.refresh()
    found, wanted = run.summary("loss"), LocalStore(tmp_path).run("x").summary("loss")
    assert msgspec.structs.replace(found, mean=None) == msgspec.structs.replace(wanted, mean=None)
    assert found.mean == pytest.approx(wanted.mean)
    assert [record["step"] for _, record in run.records(seen)] == list(range(1, 100))
