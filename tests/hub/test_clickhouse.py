"""A hub over ClickHouse: real hubs, real servers, real companions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import epochal
from epochal.shipping.client import HubClient, HubError
from epochal.store.clickhouse.connection import Address
from tests.hub.clickhouse import new_database, running_shards
from tests.hub.hub_process import HubProcess
from tests.hub.test_shipping import wait_until

pytestmark = pytest.mark.slow

Start = Callable[[str], HubProcess]


@pytest.fixture
def address() -> Address:
    return new_database("two shards")


@pytest.fixture
def start(tmp_path: Path, address: Address) -> Iterator[Start]:
    """Starts hubs over one database, each with a working copy of its own."""
    hubs: list[HubProcess] = []

    def start(name: str) -> HubProcess:
        hubs.append(HubProcess(tmp_path / name, "--store", str(address)))
        return hubs[-1]

    yield start
    for hub in hubs:
        hub.stop()


def test_a_training_is_shown_by_every_hub(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = start("one"), start("other")
    monkeypatch.setenv("EPOCHAL_HUB", one.url)
    monkeypatch.setenv("EPOCHAL_HUB_TOKEN", one.token)
    run = epochal.init("p", "x", dir=tmp_path / "runs", console=False, companion=True)
    for step in range(200):
        run.log({"loss": 1 / (step + 1)}, step=step)
    run.finish()
    local = epochal.load(tmp_path / "runs" / "p" / "x")
    for hub in (one, other):
        client = hub.client()
        wait_until(lambda: _state(client) == "finished")  # noqa: B023
        with epochal.open(hub.url, token=hub.token) as runs:
            found = runs.run("x")
            assert found.series("loss").values.tolist() == local.series("loss").values.tolist()


def _state(client: HubClient) -> str | None:
    rows = client.get_json("/api/runs")["rows"]
    return rows[0]["status"]["state"] if rows else None


IDENTITY = {"id": "one", "name": "a", "project": "p"}
STEM = "loop.0001.0000"


def lines(first: int, last: int) -> bytes:
    return b"".join(b'{"log":"metrics","t":1,"step":%d}\n' % n for n in range(first, last))


def test_two_hubs_receive_one_part_in_turn(start: Start) -> None:
    one, other = start("one").client(), start("other").client()
    one.register("one", IDENTITY)
    assert one.append("one", STEM, first=0, lines=lines(0, 10)) == 10
    # The other hub has nothing of it, and knows what is stored.
    assert other.append("one", STEM, first=5, lines=lines(5, 20)) == 20
    assert one.append("one", STEM, first=30, lines=lines(30, 31)) == 20
    assert one.append("one", STEM, first=20, lines=lines(20, 25)) == 25
    assert other.state("one").parts[STEM].lines >= 20
    assert one.lines("one", STEM, first=0) == lines(0, 25)


def test_a_hub_without_its_copy_has_everything(start: Start, tmp_path: Path) -> None:
    first = start("first")
    client = first.client()
    client.register("one", IDENTITY)
    client.append("one", STEM, first=0, lines=lines(0, 1000))
    first.kill()
    second = start("second").client()
    state = second.state("one")
    assert state.parts[STEM].lines == 1000
    assert state.identity["name"] == "a"
    assert second.lines("one", STEM, first=0) == lines(0, 1000)


def test_nothing_is_acknowledged_while_the_cluster_is_away(start: Start) -> None:
    hub = start("one")
    client, shards = hub.client(), running_shards()
    client.register("one", IDENTITY)
    assert client.append("one", STEM, first=0, lines=lines(0, 5)) == 5
    for number in range(2):
        shards.kill_one(number)
    try:
        with pytest.raises(HubError, match="cannot reach ClickHouse") as refused:
            client.append("one", STEM, first=5, lines=lines(5, 9))
        assert refused.value.status == 503
    finally:
        shards.start()
    deadline_s = time.monotonic() + 30
    while True:
        try:
            assert client.append("one", STEM, first=5, lines=lines(5, 9)) == 9
            break
        except HubError:
            assert time.monotonic() < deadline_s
            time.sleep(0.2)
    assert client.lines("one", STEM, first=0) == lines(0, 9)
