"""Hubs without the lines of runs: lists from rows that any hub derived, copies when asked for."""

from __future__ import annotations

import contextlib
import struct
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from benchmarks.hub.faults import Wire
from epochal.cli.main import main
from epochal.hub.cluster import Cluster
from epochal.hub.inbox import Inbox
from epochal.hub.limits import size_of
from epochal.journal.layout import run_folders
from epochal.shipping.offering import PartCounts
from epochal.store.answers import Labels, RunInfo
from epochal.store.clickhouse import copies as copies_module
from epochal.store.clickhouse import schema
from epochal.store.clickhouse.connection import Address, parse_address
from epochal.store.clickhouse.copies import Copies
from epochal.store.clickhouse.store import ClickHouseStore
from epochal.store.clickhouse.tables import StoredRow, Tables
from epochal.store.clickhouse.transfer import send_run
from epochal.store.clickhouse.upstream import ClickHouseUpstream
from epochal.store.local.store import LocalStore
from tests.hub.clickhouse import ENGINES, new_database, running_shards
from tests.hub.test_inbox import IDENTITY, STEM, lines
from tests.store.journals import Journal

pytestmark = pytest.mark.slow


@pytest.fixture(params=ENGINES)
def address(request: pytest.FixtureRequest) -> Address:
    return new_database(request.param)


@pytest.fixture
def tables(address: Address) -> Iterator[Tables]:
    with contextlib.closing(Tables(address, every_s=0.0)) as tables:
        yield tables


def record(root: Path, number: int = 3) -> None:
    """Runs that have ended, each with a few values, one with labels."""
    for n in range(number):
        journal = Journal(root, f"run{n}", id=f"id{n}", config={"lr": n}, created=1000.0 + n)
        for step in range(20):
            journal.metrics(step, loss=n + 1 / (step + 1), acc=0.5)
        journal.finish()


def send(tables: Tables, root: Path) -> None:
    for folder in run_folders(root):
        send_run(tables, folder, PartCounts())


def derive(tables: Tables, place: Path) -> None:
    """What a hub does by and by: derive the row of each run and store it."""
    copies = Copies(tables, place)
    copies.fetch_changed()
    with ClickHouseStore(copies, is_followed=True) as store:
        for run in store.runs():
            copies.want_row(run.own_id)
        store.derive_rows()


def empty_hub(tables: Tables, place: Path) -> tuple[Copies, ClickHouseStore]:
    copies = Copies(tables, place)
    copies.fetch_changed()
    return copies, ClickHouseStore(copies, is_followed=True)


def has_lines(place: Path) -> bool:
    return any(path.suffix in (".jsonl", ".parquet") for path in place.rglob("*"))


def test_a_hub_with_an_empty_disk_lists_filters_and_sorts_without_lines(
    tables: Tables, tmp_path: Path
) -> None:
    record(tmp_path / "runs")
    send(tables, tmp_path / "runs")
    derive(tables, tmp_path / "one")
    copies, store = empty_hub(tables, tmp_path / "other")
    with store, LocalStore(tmp_path / "runs") as local:
        for query, order in (
            (None, None),
            ("summary.loss < 2", "summary.loss"),
            ("config.lr > 0", "-summary.acc"),
        ):
            known = store.known_runs(query, order=order)
            expected = local.known_runs(query, order=order)
            assert [run.id for run in known.runs] == [run.id for run in expected.runs]
            assert known.pending == 0
        for here, there in zip(store.runs(), local.runs(), strict=True):
            assert replace_folder(here.info) == replace_folder(there.info)
            assert here.latest("loss") == there.latest("loss")
            assert here.summary("loss") == there.summary("loss")
        assert not has_lines(tmp_path / "other")
        series = store.run("run1").series("loss")
        assert series.values.tolist() == local.run("run1").series("loss").values.tolist()
        assert copies.is_held("id1")
        assert not copies.is_held("id0")


def replace_folder(info: RunInfo) -> dict[str, object]:
    return {**msgspec.structs.asdict(info), "folder": ""}


def test_labels_of_a_run_that_is_not_here_show_at_once(tables: Tables, tmp_path: Path) -> None:
    record(tmp_path / "runs", 2)
    send(tables, tmp_path / "runs")
    derive(tables, tmp_path / "one")
    one, here = empty_hub(tables, tmp_path / "here")
    other, there = empty_hub(tables, tmp_path / "there")
    with here, there:
        here.run("run0").relabel(lambda labels: Labels(name="better", tags=("t",)))
        other.fetch_changed()
        there.refresh()
        for store in (here, there):
            assert (store.run("id0").info.name, store.run("id0").info.tags) == ("better", ("t",))
        assert [run.id for run in there.runs("'t' in tags")] == ["id0"]
        assert not one.is_held("id0")
        assert not other.is_held("id0")
        moved = there.remove(there.run("id0"))
        one.fetch_changed()
        here.refresh()
        assert [run.id for run in here.runs()] == ["id1"]
        there.trash.restore(moved)
        one.fetch_changed()
        here.refresh()
        assert {run.id for run in here.runs()} == {"id0", "id1"}
        assert here.run("id0").info.name == "better"


def test_a_run_without_a_row_is_listed_and_its_row_is_derived(
    tables: Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(tmp_path / "runs", 2)
    send(tables, tmp_path / "runs")
    # The hub that received them is gone: no row was stored.
    _, store = empty_hub(tables, tmp_path / "hub")
    with store:
        known = store.known_runs()
        assert {run.outline().name for run in known.runs} == {"run0", "run1"}
        assert known.pending == 2
        assert store.derive_rows() == 0  # another hub may do it
        later_s = time.monotonic() + 2 * copies_module._DERIVE_FOR_OTHERS_S
        monkeypatch.setattr(time, "monotonic", lambda: later_s)
        assert store.derive_rows() == 2
        store.refresh()
        assert store.known_runs().pending == 0
    _, other = empty_hub(tables, tmp_path / "other")
    with other:
        assert other.known_runs().pending == 0
        assert other.run("run0").summary("loss").last == 1 / 20


def test_a_row_follows_a_run_that_grows(tables: Tables, tmp_path: Path) -> None:
    receiving = Copies(tables, tmp_path / "one")
    inbox = Inbox(tmp_path / "one", upstream=ClickHouseUpstream(receiving))
    inbox.register("one", IDENTITY)
    copies, store = empty_hub(tables, tmp_path / "other")
    with ClickHouseStore(receiving, is_followed=True) as here, store:
        for end in (3, 8):
            inbox.append("one", STEM, first=0, lines=lines(0, end))
            receiving.want_row("one")
            assert here.derive_rows() == 1
            assert here.derive_rows() == 0
            copies.fetch_changed()
            store.refresh()
            assert store.run("one").info.records == end
        assert not copies.is_held("one")
        # Somebody looks at it: its lines are followed from then on.
        assert len(list(store.run("one").records())) == 8
        inbox.append("one", STEM, first=8, lines=lines(8, 9))
        copies.fetch_changed()
        store.refresh()
        assert len(list(store.run("one").records())) == 9


def test_a_fork_is_copied_with_the_run_that_it_continues(tables: Tables, tmp_path: Path) -> None:
    Journal(tmp_path / "runs", "parent", project="p", id="parent").metrics(1, a=1).metrics(
        2, a=2
    ).finish()
    fork = {"id": "parent", "name": "parent", "project": "p", "step": 1}
    child = Journal(tmp_path / "runs", "child", project="p", id="child", fork=fork)
    child.metrics(2, a=5).finish()
    send(tables, tmp_path / "runs")
    derive(tables, tmp_path / "one")
    copies, store = empty_hub(tables, tmp_path / "other")
    with store:
        assert store.run("child").series("a").values.tolist() == [1, 5]
        assert copies.is_held("parent")
        after_s = time.time() + 3600
        assert set(unused_at(copies, after_s)) == {"child"}


def unused_at(copies: Copies, now_s: float) -> list[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time", lambda: now_s)
        return copies.unused()


def test_copies_beyond_the_limit_are_deleted_and_come_back(
    address: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(tmp_path / "runs")
    with contextlib.closing(Tables(address, every_s=0.0)) as tables:
        send(tables, tmp_path / "runs")
        derive(tables, tmp_path / "one")
    hub = tmp_path / "hub"
    most = 1.5 * size_of(tmp_path / "runs/p/run0")
    told: list[str] = []
    cluster = Cluster(str(address), hub, most_bytes=most, tell=told.append)
    cluster.copies.fetch_changed()
    inbox = Inbox(hub, upstream=cluster.upstream)
    with cluster.open_store([hub], cluster.ledger) as store:
        for run in store.runs():
            assert len(run.series("loss")) == 20
        assert cluster.make_room() == 0  # all were used just now
        assert "all of it is in use" in " ".join(store.notices)
        later_s = time.time() + 3600
        monkeypatch.setattr(time, "time", lambda: later_s)
        cluster.copies.note_use("id2")
        num_deleted = cluster.make_room()
        assert num_deleted == 2
        assert "the copies of 2 runs were deleted" in told[0]
        assert [run_id for run_id in ("id0", "id1", "id2") if cluster.copies.is_held(run_id)] == [
            "id2"
        ]
        store.refresh()
        known = store.known_runs("summary.loss < 3", order="summary.loss")
        assert [run.id for run in known.runs] == ["id0", "id1", "id2"]
        assert not has_lines(cluster.copies.folders.all()["id0"])
        assert store.run("run0").series("loss").values.tolist()[-1] == 1 / 20
        # Shippers meet a hub that has everything.
        assert inbox.state("id1").parts[STEM].lines == 22
        assert cluster.copies.is_held("id1")
    cluster.ledger.close()
    cluster.copies.tables.close()


def test_reindex_derives_the_rows_again(address: Address, tmp_path: Path) -> None:
    record(tmp_path / "runs")
    with contextlib.closing(Tables(address, every_s=0.0)) as tables:
        send(tables, tmp_path / "runs")
        assert main(["hub", "reindex", str(address)]) == 0
        _, store = empty_hub(tables, tmp_path / "hub")
        with store:
            assert store.known_runs("summary.loss < 2").pending == 0
            assert len(store.known_runs("summary.loss < 1").runs) == 1
        assert not has_lines(tmp_path / "hub")


def test_tables_of_the_version_before_are_brought_up_to_date(
    address: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(tmp_path / "runs")
    with monkeypatch.context() as before:
        before.setattr(schema, "_STEPS", schema._STEPS[:1])
        before.setattr(schema, "VERSION", 1)
        with contextlib.closing(Tables(address, every_s=0.0)) as tables:
            send(tables, tmp_path / "runs")
            assert not table_exists(tables, "runs")
    with contextlib.closing(Tables(address, every_s=0.0)) as tables:
        assert table_exists(tables, "runs")
        derive(tables, tmp_path / "one")
        _, store = empty_hub(tables, tmp_path / "hub")
        with store, LocalStore(tmp_path / "runs") as local:
            for name in ("run0", "run1", "run2"):
                there = local.run(name).series("loss")
                assert store.run(name).series("loss").values.tolist() == there.values.tolist()
                assert store.run(name).info.config == local.run(name).info.config


def table_exists(tables: Tables, name: str) -> bool:
    database = tables.address.database
    answer = tables.ask(
        f"SELECT count() FROM system.tables WHERE database = '{database}' AND name = '{name}'"
        " FORMAT TabSeparatedRaw"
    )
    return int(answer) == 1


@pytest.mark.parametrize("skew_s", [-3600.0, 3600.0])
def test_what_a_hub_with_a_wrong_clock_stores_shows_at_the_next_look(
    address: Address, tables: Tables, tmp_path: Path, skew_s: float
) -> None:
    record(tmp_path / "runs", 2)
    send(tables, tmp_path / "runs")
    copies, store = empty_hub(tables, tmp_path / "copy")
    with (
        store,
        contextlib.closing(
            Tables(address, every_s=0.0, clock=lambda: time.time() + skew_s)
        ) as wrong,
    ):
        derive(wrong, tmp_path / "other")
        version = wrong.put_fact("id1", "labels", '{"name":"renamed"}')
        assert abs(version / 1e6 - time.time()) < 600
        store.refresh()
        assert not copies.is_current("id0")
        copies.fetch_changed()  # not one of those looks that read everything
        store.refresh()
        assert copies.is_current("id0")
        assert {run.info.name for run in store.runs()} == {"run0", "renamed"}
        tables.put_fact("id1", "labels", '{"name":"again"}', after=version)
        copies.fetch_changed()
        store.refresh()
        assert {run.info.name for run in store.runs()} == {"run0", "again"}


def test_lines_that_come_late_do_not_make_a_run_shorter(
    tables: Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(tmp_path / "runs", 1)
    send(tables, tmp_path / "runs")
    derive(tables, tmp_path / "other")
    copies, store = empty_hub(tables, tmp_path / "copy")
    (part,) = tables.parts("id0")
    assert copies.num_lines("id0", part.part) == part.lines
    # An insert of another hub was on its way for longer than looks go back.
    monkeypatch.setattr(copies_module, "_SLACK_S", -5)
    names = b"".join(bytes([len(one)]) + one.encode() for one in ("id0", part.part))
    late = struct.pack("<QI", 3, part.changed + 100)
    tables.insert(schema.PARTS, "id0", names + late)
    with store:
        copies.fetch_changed()
        assert copies.num_lines("id0", part.part) == part.lines
        assert copies.is_current("id0")
        assert len(store.run("id0").series("loss")) == 20


def test_rows_are_derived_as_soon_as_the_cluster_is_back(tmp_path: Path) -> None:
    database = new_database("two shards").database
    shards = running_shards()
    wires = [Wire(port) for port in shards.http_ports]
    address = parse_address(shards.address(database, ports=[wire.port for wire in wires]))
    record(tmp_path / "runs")
    with contextlib.closing(Tables(address, every_s=0.0)) as tables:
        send(tables, tmp_path / "runs")
        copies, store = empty_hub(tables, tmp_path / "hub")
        with store:
            for run in store.runs():
                copies.want_row(run.own_id)
            for wire in wires:
                wire.cut()
            assert store.derive_rows() == 0
            for wire in wires:
                wire.is_cut = False
            assert store.derive_rows() == 3
    for wire in wires:
        wire.close()


def test_connections_that_the_server_has_closed_are_no_fault() -> None:
    database = new_database("two shards").database
    shards = running_shards()
    wires = [Wire(port) for port in shards.http_ports]
    address = parse_address(shards.address(database, ports=[wire.port for wire in wires]))
    with contextlib.closing(Tables(address, every_s=0.0)) as tables:
        with ThreadPoolExecutor(12) as pool:  # so many connections wait afterwards
            list(pool.map(tables.ask, ["SELECT sleep(0.5)"] * 12))
        for wire in wires:
            wire.cut()
            wire.is_cut = False
        assert tables.ask("SELECT 7 FORMAT TabSeparatedRaw") == b"7\n"
        wires[0].cut()  # one host is away: the other answers
        assert tables.ask("SELECT 7 FORMAT TabSeparatedRaw") == b"7\n"
    for wire in wires:
        wire.close()


def test_an_empty_disk_shows_the_newest_runs_before_it_knows_the_others(
    tables: Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(tmp_path / "runs", 5)
    send(tables, tmp_path / "runs")
    derive(tables, tmp_path / "first")
    changed = {f"id{n}": n for n in (2, 0, 3, 1, 4)}
    monkeypatch.setattr(copies_module, "_FIRST_RUNS", 2)
    copies = Copies(tables, tmp_path / "second")
    for run_id, when in changed.items():
        copies._run(run_id).changed = 2**31 + when  # later than any clock says
    shown: list[list[str]] = []
    rows = tables.rows

    def counted(kind: str, run_ids: Sequence[str]) -> Iterator[StoredRow]:
        with ClickHouseStore(copies, is_followed=True) as store:
            shown.append(sorted(run.id for run in store.known_runs().runs))
        return rows(kind, run_ids)

    monkeypatch.setattr(tables, "rows", counted)
    copies.fetch_changed()
    assert shown[:2] == [[], ["id3", "id4"]]
    with ClickHouseStore(copies, is_followed=True) as store:
        assert {run.id for run in store.known_runs().runs} == set(changed)
