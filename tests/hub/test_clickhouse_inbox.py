"""What hubs store in ClickHouse: each line once, in order, whoever receives it how often."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from epochal.hub.inbox import Inbox
from epochal.journal.layout import RunFolder
from epochal.shipping.offering import PartCounts
from epochal.store.answers import Labels
from epochal.store.clickhouse.connection import ClickHouseError
from epochal.store.clickhouse.copies import Copies
from epochal.store.clickhouse.schema import FACTS, stored
from epochal.store.clickhouse.store import ClickHouseStore
from epochal.store.clickhouse.tables import Tables
from epochal.store.clickhouse.transfer import send_run
from epochal.store.clickhouse.upstream import ClickHouseUpstream
from tests.hub.clickhouse import ENGINES, new_database
from tests.hub.test_inbox import IDENTITY, STEM, lines
from tests.store.journals import Journal
from tests.store.sealing import seal

pytestmark = pytest.mark.slow

sends = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.integers(0, 40),
        st.integers(0, 12),
        st.sampled_from(["", "look", "restart", "new disk"]),
    ),
    max_size=12,
)


class _Hub:
    """A hub without its server: an inbox over a working copy."""

    def __init__(self, tables: Tables, place: Path) -> None:
        self.copies = Copies(tables, place)
        self.inbox = Inbox(place, upstream=ClickHouseUpstream(self.copies))


@pytest.mark.parametrize("engine", ["two shards"])
@given(sends)
@settings(suppress_health_check=list(HealthCheck))
def test_two_hubs_store_lines_once_and_in_order(
    engine: str, sent: list[tuple[int, int, int, str]]
) -> None:
    tables = Tables(new_database(engine), every_s=0.0)
    with tempfile.TemporaryDirectory() as folder:
        places = [Path(folder) / "hub0", Path(folder) / "hub1"]
        hubs = [_Hub(tables, place) for place in places]
        hubs[0].inbox.register("one", IDENTITY)
        acknowledged = 0
        for number, first, count, what in sent:
            if what == "new disk":
                places[number] = Path(tempfile.mkdtemp(dir=folder))
            if what in ("restart", "new disk"):
                hubs[number] = _Hub(tables, places[number])
            if what == "look":
                hubs[number].copies.fetch_changed()
            have = hubs[number].inbox.append(
                "one", STEM, first=first, lines=lines(first, first + count)
            )
            acknowledged = max(acknowledged, have)
        stored = {part.part: part.lines for part in tables.parts("one")}.get(STEM, 0)
        assert stored == acknowledged
        assert b"".join(tables.lines("one", STEM, first=0, end=stored)) == lines(0, stored)
        for hub in hubs:
            place = hub.copies.fetch("one")
            assert place is not None
            part = RunFolder(place).journal / f"{STEM}.jsonl"
            assert (part.read_bytes() if stored else b"") == lines(0, stored)
    tables.close()


@pytest.mark.parametrize("engine", ENGINES)
def test_labels_and_the_trash_are_those_of_all_hubs(engine: str, tmp_path: Path) -> None:
    tables = Tables(new_database(engine), every_s=0.0)
    one, other = (_Hub(tables, tmp_path / name) for name in ("one", "other"))
    one.inbox.register("one", IDENTITY)
    one.inbox.append("one", STEM, first=0, lines=b'{"log":"run","t":1,"v":1,"id":"one"}\n')
    finish = b'{"log":"finish","t":2,"status":"finished"}\n'
    one.inbox.append("one", STEM, first=1, lines=finish)
    with ClickHouseStore(one.copies) as here, ClickHouseStore(other.copies) as there:
        here.run("one").relabel(lambda labels: Labels(name="better", tags=("t",)))
        there.refresh()
        assert (there.run("one").info.name, there.run("one").info.tags) == ("better", ("t",))
        there.remove(there.run("one"))
        here.refresh()
        assert list(here.runs()) == []
        assert [run.id for run in here.trash.runs()] == ["one"]
        here.trash.restore(here.trash.find("one"))
        there.refresh()
        assert [run.id for run in there.runs()] == ["one"]
        here.refresh()
        moved = here.remove(here.run("one"))
        here.trash.erase(moved)
        there.refresh()
        assert list(there.runs()) == []
        assert list(there.trash.runs()) == []
        assert tables.num_rows() == 0
    # Sent again, it is a new run.
    assert other.inbox.register("one", IDENTITY).parts == {}
    assert other.inbox.append("one", STEM, first=0, lines=lines(0, 3)) == 3
    tables.close()


def test_what_cannot_be_stored_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*args: object, **named: object) -> int:
        raise ClickHouseError("the server is away.", code=210)

    journal = Journal(tmp_path / "runs", "run", id="one", project="p").metrics(1, a=1.5)
    with contextlib.closing(Tables(new_database("two shards"), every_s=0.0)) as tables:
        send_run(tables, journal.finish().folder, PartCounts())
        hub = _Hub(tables, tmp_path / "hub")
        hub.copies.fetch("one")
        with ClickHouseStore(hub.copies, is_followed=True) as store:
            with monkeypatch.context() as patch:
                patch.setattr(tables, "put_fact", away)
                with pytest.raises(ClickHouseError, match="away"):
                    store.run("one").relabel(lambda labels: Labels(name="better"))
                assert store.run("one").info.name == "run"
                with pytest.raises(ClickHouseError, match="away"):
                    store.remove(store.run("one"))
            hub.copies.fetch_changed()
            store.refresh()
            assert [run.info.name for run in store.runs()] == ["run"]
            with monkeypatch.context() as patch:
                moved = store.remove(store.run("one"))
                patch.setattr(tables, "put_fact", away)
                with pytest.raises(ClickHouseError, match="away"):
                    store.trash.restore(moved)
            hub.copies.fetch_changed()
            store.refresh()
            assert list(store.runs()) == []
            assert [run.id for run in store.trash.runs()] == ["one"]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_run_that_was_erased_here_can_be_sent_here_again(engine: str, tmp_path: Path) -> None:
    whole = lines(0, 8) + b'{"log":"finish","t":2,"status":"finished"}\n'
    with contextlib.closing(Tables(new_database(engine), every_s=0.0)) as tables:
        hub = _Hub(tables, tmp_path / "hub")
        hub.inbox.register("one", IDENTITY)
        assert hub.inbox.append("one", STEM, first=0, lines=whole) == 9
        with ClickHouseStore(hub.copies, is_followed=True) as store:
            store.trash.erase(store.remove(store.run("one")))
        hub.inbox.look_again()  # as after each change of a person
        hub.copies.fetch_changed()
        assert hub.inbox.register("one", IDENTITY).parts == {}
        assert hub.inbox.append("one", STEM, first=0, lines=lines(0, 3)) == 3
        hub.copies.fetch_changed()
        hub.copies.fetch("one")
        assert hub.copies.num_lines("one", STEM) == 3
        assert hub.copies.problems == {}
        assert b"".join(tables.lines("one", STEM, first=0, end=3)) == lines(0, 3)


@pytest.mark.parametrize("is_sealed", [False, True])
def test_a_run_that_restored_tables_do_not_know_is_stored_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_sealed: bool
) -> None:
    journal = Journal(tmp_path / "runs", "one", id="one", project="p").metrics(1, a=1.5)
    journal.metrics(2, a=2.5).finish()
    if is_sealed:
        seal(journal.folder)
    with contextlib.closing(Tables(new_database("two shards"), every_s=0.0)) as tables:
        send_run(tables, journal.folder, PartCounts())
        tables.put_fact("one", "labels", '{"name":"better"}')
        (part,) = tables.parts("one")
        sent = b"".join(tables.lines("one", part.part, first=0, end=part.lines))
        hub = _Hub(tables, tmp_path / "hub")
        place = hub.copies.fetch("one")
        assert place is not None
        assert bool(RunFolder(place).sealed_parts()) is is_sealed
        hub.copies.fetch_changed()
        tables.erase("one")
        for server in tables._each_server():
            server.query(f"ALTER TABLE {stored(FACTS, tables.address)} DELETE WHERE run = 'one'")
            tables._wait_for_deletions(server)
        assert (tables.parts("one"), tables.facts("one")) == ([], [])
        hub.copies.fetch_changed()  # looks only at what is new
        monkeypatch.setattr(hub.copies, "_whole_s", 0.0)
        hub.copies.fetch_changed()
        assert b"".join(tables.lines("one", part.part, first=0, end=part.lines)) == sent
        with ClickHouseStore(Copies(tables, tmp_path / "other")) as store:
            assert store.run("one").info.name == "better"
            assert store.run("one").series("a").values.tolist() == [1.5, 2.5]


def test_a_copy_gives_back_what_restored_tables_have_lost(tmp_path: Path) -> None:
    tables = Tables(new_database("two shards"), every_s=0.0)
    hub = _Hub(tables, tmp_path / "hub")
    hub.inbox.register("one", IDENTITY)
    assert hub.inbox.append("one", STEM, first=0, lines=lines(0, 9)) == 9
    tables.erase("one")
    assert tables.parts("one") == []
    again = _Hub(tables, tmp_path / "hub")
    assert again.inbox.append("one", STEM, first=9, lines=lines(9, 12)) == 12
    assert b"".join(tables.lines("one", STEM, first=0, end=12)) == lines(0, 12)
    tables.close()
