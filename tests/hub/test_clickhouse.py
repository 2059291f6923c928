"""A hub over ClickHouse: real hubs, real servers, real companions."""

from __future__ import annotations

import contextlib
import http.client
import importlib.util
import math
import re
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

import epochal
from epochal.cli.main import main
from epochal.errors import UsageError
from epochal.hub.ledger import Ledger
from epochal.hub.links import Links
from epochal.hub.shared_ledger import open_ledger
from epochal.journal.layout import RunFolder, write_json
from epochal.shipping.client import HubClient, HubError
from epochal.shipping.shipper import Shipper
from epochal.store.clickhouse.connection import (
    Address,
    ClickHouseError,
    HttpServer,
    _Connection,
    parse_address,
)
from epochal.store.clickhouse.tables import Tables
from epochal.store.clickhouse.transfer import lines_of_segment
from epochal.store.local.store import LocalStore
from tests.hub.clickhouse import new_database, running_shards
from tests.hub.hub_process import HubProcess
from tests.hub.test_shipping import wait_until
from tests.store.journals import Journal
from tests.store.sealing import seal

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


def test_a_segment_becomes_lines_that_other_hubs_seal(start: Start, tmp_path: Path) -> None:
    one, other = start("one"), start("other")
    journal = Journal(tmp_path / "runs", "a", project="p", id="one").metrics(1, loss=2.5).finish()
    sent = journal.path().read_bytes()
    seal(journal.folder)
    shipper = Shipper(journal.folder, one.client())
    while not shipper.ship():
        pass
    name = f"{STEM}.parquet"
    client = other.client()
    wait_until(lambda: name in client.state("one").segments)
    assert not (tmp_path / f"other/p/a/journal/{STEM}.jsonl").exists()
    assert b"".join(lines_of_segment(tmp_path / f"other/p/a/segments/{name}")) == sent


def test_a_hub_with_the_engine_in_its_process_keeps_runs_over_a_restart(tmp_path: Path) -> None:
    if importlib.util.find_spec("chdb") is None:
        pytest.skip("chdb is not installed: 'make test-hub' installs it")
    hub = HubProcess(tmp_path / "hub", "--store", f"chdb://{tmp_path}/engine")
    try:
        hub.client().register("one", IDENTITY)
        assert hub.client().append("one", STEM, first=0, lines=lines(0, 100)) == 100
        hub.kill()
        shutil.rmtree(tmp_path / "hub" / "p")
        hub.start()
        assert hub.client().lines("one", STEM, first=0) == lines(0, 100)
    finally:
        hub.stop()


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


def test_a_token_and_a_link_of_one_hub_are_valid_on_the_others(
    start: Start, tmp_path: Path
) -> None:
    one, other = start("one"), start("other")
    one.client().register("one", IDENTITY)
    with contextlib.closing(open_ledger(tmp_path / "one")) as ledger:
        token = ledger.add_token("later", "write")
    link = Links(tmp_path / "one").make(["one"], until=time.time() + 60)

    def is_valid(token: str) -> bool:
        with contextlib.suppress(HubError):
            return bool(other.client(token).get_json("/api/runs")["total"] == 1)
        return False

    wait_until(lambda: is_valid(token))
    wait_until(lambda: is_valid(link))
    with contextlib.closing(open_ledger(tmp_path / "other")) as ledger:
        ledger.revoke_token("later")
        wait_until(lambda: not _is_accepted(one, token))
        assert "machine" in {row["who"] for row in ledger.audit()}


def _is_accepted(hub: HubProcess, token: str) -> bool:
    try:
        hub.client(token).state("one")
    except HubError as error:
        return error.status != 401
    return True


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
    deadline_s = time.monotonic() + 120
    while True:
        try:
            assert client.append("one", STEM, first=5, lines=lines(5, 9)) == 9
            break
        except HubError:
            assert time.monotonic() < deadline_s
            time.sleep(0.2)
    assert client.lines("one", STEM, first=0) == lines(0, 9)


@pytest.mark.parametrize("away", [(0, 1), (0,), (1,)])
def test_a_hub_that_starts_while_the_cluster_is_away_waits_for_it(
    start: Start, away: tuple[int, ...]
) -> None:
    hub, shards = start("one"), running_shards()
    hub.client().register("one", IDENTITY)
    hub.kill()
    for number in away:
        shards.kill_one(number)
    try:
        waiting = threading.Thread(target=hub.start)
        waiting.start()
        wait_until(lambda: any("The hub waits" in line for line in hub.output))
    finally:
        for number in away:
            shards.start_one(number)
    waiting.join(120)
    assert hub.client().append("one", STEM, first=0, lines=lines(0, 5)) == 5


def test_runs_migrate_to_tables_and_back_without_loss(address: Address, tmp_path: Path) -> None:
    journal = Journal(tmp_path / "from", "a", project="p").metrics(1, loss=math.nan)
    journal.add({"log": "resume", "attempt": 2, "step": 0}, attempt=2).metrics(1, x=2, attempt=2)
    Journal(tmp_path / "from", "sealed", project="p").metrics(1, loss=2.5).finish()
    seal(RunFolder(tmp_path / "from" / "p" / "sealed"))
    Journal(tmp_path / "from", "gone", project="p").finish()
    journal.folder.blobs.mkdir()
    (journal.folder.blobs / "a.png").write_bytes(bytes(range(256)))
    write_json(journal.folder.labels, {"name": "renamed"})
    with LocalStore(tmp_path / "from") as store:
        store.remove(store.run("gone"))
    with contextlib.closing(Ledger(tmp_path / "from")) as ledger:
        token = ledger.add_token("machine", "write")
    command = ("hub", "migrate")
    assert main([*command, str(tmp_path / "from"), str(address)]) == 0
    assert main([*command, str(tmp_path / "from"), str(address)]) == 0  # nothing is sent again
    assert main([*command, str(address), str(tmp_path / "to")]) == 0
    for part in journal.folder.journal.iterdir():
        assert (tmp_path / "to/p/a/journal" / part.name).read_bytes() == part.read_bytes()
    assert (tmp_path / "to/p/a/blobs/a.png").read_bytes() == bytes(range(256))
    with LocalStore(tmp_path / "to") as store:
        assert {run.info.name for run in store.runs()} == {"renamed", "sealed"}
        assert [run.name for run in store.trash.runs()] == ["gone"]
        assert store.run("sealed").summary("loss").last == 2.5
    with contextlib.closing(Ledger(tmp_path / "to")) as ledger:
        assert ledger.principal(token) is not None
    assert main(["hub", "reindex", str(address)]) == 0


def test_reindex_finds_parts_again_and_tells_of_gaps(
    address: Address, capsys: pytest.CaptureFixture[str]
) -> None:
    tables = Tables(address, every_s=0.0)
    tables.append("one", STEM, first=0, lines=lines(0, 5))
    tables.append("two", STEM, first=3, lines=lines(3, 5))
    for number in range(2):
        shard = replace(address, hosts=(address.hosts[number],))
        with contextlib.closing(HttpServer(shard)) as server:
            server.query(f"TRUNCATE TABLE {address.database}.parts_local")
    assert tables.parts() == []
    assert main(["hub", "reindex", str(address)]) == 1
    assert f"{STEM} of the run two has 2 of 5 lines." in capsys.readouterr().out
    assert {part.run: part.lines for part in tables.parts()} == {"one": 5, "two": 5}
    tables.close()


def test_errors_say_what_to_do(address: Address) -> None:
    Tables(address).close()
    for shard in (replace(address, hosts=(one,)) for one in address.hosts):
        with contextlib.closing(HttpServer(shard)) as server:
            server.query(f"INSERT INTO {address.database}.schema (version) VALUES (99)")
    with pytest.raises(ClickHouseError, match=r"have the version 99, .* install a newer Epochal"):
        Tables(address)
    with pytest.raises(ClickHouseError, match=r"refuses the user 'guarded': check .* password"):
        Tables(replace(address, user="guarded", password="wrong"))
    with pytest.raises(ClickHouseError, match=r"cannot reach ClickHouse at 127.0.0.1:1: Connec"):
        Tables(replace(address, hosts=(("127.0.0.1", 1),)))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("postgres://a:secret@b/c", "'postgres://a:…@b/c' is no address of a store"),
        ("clickhouse://host:x/db", "'host:x' is no host"),
        ("clickhouse://host/d-b", "'d-b' is no name of a database"),
        ("clickhouse://host/db?ttl=3", "'ttl' is no option of an address; use cluster"),
        ("chdb:///", "needs a folder"),
    ],
)
def test_an_address_that_cannot_be_used_is_told(text: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=re.escape(sentence)):
        parse_address(text)


def test_an_address_names_hosts_and_never_shows_its_password() -> None:
    address = parse_address("clickhouse://me:p%40ss@h1:1,h2/db?cluster=main")
    assert (address.hosts, address.password) == ((("h1", 1), ("h2", 8123)), "p@ss")
    assert str(address) == "clickhouse://me@h1:1,h2:8123/db?cluster=main"


@pytest.mark.parametrize("engine", ["new server", "two shards"])
def test_an_insert_says_that_it_waits_whatever_the_server_does_by_default(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    request = http.client.HTTPConnection.request

    def noted(self: Any, method: str, url: str, *args: Any, **named: Any) -> None:
        asked.append(url)
        request(self, method, url, *args, **named)

    monkeypatch.setattr(http.client.HTTPConnection, "request", noted)
    with contextlib.closing(Tables(new_database(engine), every_s=0.0)) as tables:
        tables.append("one", STEM, first=0, lines=lines(0, 3))
        sent = dict(parse_qsl(urlsplit(asked[-1]).query))
        assert (sent["insert_distributed_sync"], sent["insert_deduplicate"]) == ("1", "0")
        if tables.server_version >= (26, 0):  # these store inserts later unless told otherwise
            assert (sent["async_insert"], sent["deduplicate_insert"]) == ("0", "disable")
        assert b"".join(tables.lines("one", STEM, first=0, end=3)) == lines(0, 3)


def test_a_server_behind_a_cut_network_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        connection = _Connection("127.0.0.1", listening.getsockname()[1], timeout=300.0)
        connection.connect()
        with contextlib.closing(connection):
            assert connection.sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            if hasattr(socket, "TCP_USER_TIMEOUT"):
                after_ms = connection.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
                assert 0 < after_ms <= 60_000


def test_a_full_disk_of_the_server_is_told() -> None:
    said = b"Code: 243, e.displayText() = DB::Exception: Cannot reserve 1 MiB, e.what() = DB"
    with _answering(500, said) as port, pytest.raises(ClickHouseError, match=r"disk of .* is full"):
        HttpServer(parse_address(f"clickhouse://127.0.0.1:{port}/db"))


@contextlib.contextmanager
def _answering(status: int, body: bytes) -> Iterator[int]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()
