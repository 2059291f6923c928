"""Two replicas of one shard, kept equal through ZooKeeper: either may go, and comes back whole."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from epochal.shipping.offering import PartCounts
from epochal.store.clickhouse.connection import ClickHouseError, parse_address
from epochal.store.clickhouse.copies import Copies
from epochal.store.clickhouse.store import ClickHouseStore
from epochal.store.clickhouse.tables import Tables
from epochal.store.clickhouse.transfer import send_run
from tests.hub.test_clickhouse import STEM, lines
from tests.store.journals import Journal
from tools.clickhouse_shards import Shards, ZooKeeper, has_zookeeper, is_fetched

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def replicas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shards]:
    if not is_fetched() or not has_zookeeper():
        pytest.skip("ClickHouse, ZooKeeper or Java is not here: 'make test-hub' fetches the first")
    place = tmp_path_factory.mktemp("replicas")
    with contextlib.ExitStack() as stack:
        zookeeper = ZooKeeper(place / "zookeeper")
        stack.callback(zookeeper.stop)
        shards = Shards(place, zookeeper)
        stack.callback(shards.stop)
        shards.start()
        yield shards


def _lines_of(shards: Shards, number: int, database: str) -> int:
    """How many lines one replica has itself."""
    address = parse_address(shards.address_of_one(number, "default"))
    with contextlib.closing(Tables(address)) as tables:
        answer = tables.ask(f"SELECT count() FROM {database}.lines_local FORMAT TabSeparatedRaw")
    return int(answer)


def _wait_for(shards: Shards, number: int, database: str, num_lines: int) -> None:
    deadline_s = time.monotonic() + 120
    while True:
        with contextlib.suppress(ClickHouseError):
            if _lines_of(shards, number, database) == num_lines:
                return
        assert time.monotonic() < deadline_s
        time.sleep(0.2)


def test_a_replica_that_was_away_has_everything_again(replicas: Shards) -> None:
    with contextlib.closing(Tables(parse_address(replicas.address("a")), every_s=0.0)) as tables:
        engine = tables.ask(
            "SELECT engine FROM system.tables WHERE database = 'a' AND name = 'lines_local'"
            " FORMAT TabSeparatedRaw"
        )
        assert engine.strip() == b"ReplicatedReplacingMergeTree"
        tables.append("one", STEM, first=0, lines=lines(0, 50))
        for number in range(2):
            _wait_for(replicas, number, "a", 50)
        replicas.kill_one(0)
        try:
            deadline_s = time.monotonic() + 120
            while True:  # the server that is left sees that the other is gone
                try:
                    tables.append("one", STEM, first=50, lines=lines(50, 90))
                    break
                except ClickHouseError:
                    assert time.monotonic() < deadline_s
                    time.sleep(0.5)
            assert {part.part: part.lines for part in tables.parts("one")} == {STEM: 90}
        finally:
            replicas.start_one(0)
        _wait_for(replicas, 0, "a", 90)
        replicas.kill_one(1)
        try:
            stored = b"".join(tables.lines("one", STEM, first=0, end=90))
            assert stored == lines(0, 90)
        finally:
            replicas.start_one(1)


def test_a_store_over_replicas_answers_as_a_folder(replicas: Shards, tmp_path: Path) -> None:
    journal = Journal(tmp_path / "runs", "x", id="x").metrics(1, a=1).metrics(1, a=2)
    journal.metrics(2, a=3).finish()
    with contextlib.closing(Tables(parse_address(replicas.address("b")), every_s=0.0)) as tables:
        send_run(tables, journal.folder, PartCounts())
        send_run(tables, journal.folder, PartCounts())
        with ClickHouseStore(Copies(tables, tmp_path / "copy")) as store:
            series = store.run("x").series("a")
            assert (series.values.tolist(), series.duplicates) == ([2, 3], 1)
            store.trash.erase(store.remove(store.run("x")))
        assert tables.num_rows() == 0


def test_what_was_erased_can_be_stored_again(replicas: Shards, tmp_path: Path) -> None:
    blob = tmp_path / "picture.png"
    blob.write_bytes(b"the same bytes")
    with contextlib.closing(Tables(parse_address(replicas.address("c")), every_s=0.0)) as tables:
        for _ in range(2):  # a replicated table drops a block that it has had lately
            tables.blobs.put("one", blob.name, blob)
            tables.append("one", STEM, first=0, lines=lines(0, 50))
            assert tables.blobs.sizes("one") == {blob.name: 14}
            assert b"".join(tables.lines("one", STEM, first=0, end=50)) == lines(0, 50)
            tables.erase("one")
            deadline_s = time.monotonic() + 120
            while tables.blobs.sizes("one") or tables.num_rows():
                assert time.monotonic() < deadline_s
                time.sleep(0.2)
