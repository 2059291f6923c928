"""A hub that has too much to do says so at once, and goes on with what it has taken on."""

from __future__ import annotations

import contextlib
import json
import socket
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from epochal.hub.admission import MOST_WAIT_S, Admission
from epochal.hub.inbox import BusyError
from epochal.hub.ledger import Ledger
from epochal.hub.serving import FolderRuns, HubRuns, SharedRuns
from epochal.journal.layout import RunFolder, write_json
from epochal.shipping import protocol
from epochal.shipping.client import HubClient, HubError
from epochal.shipping.worker import ShippingWorker
from epochal.store.bucket import open_bucket
from epochal.store.cluster.database import Database
from epochal.store.cluster.documents import ClusterDocuments
from epochal.store.cluster.runs import ClusterRuns
from tests.hub.hub_process import serving_hub
from tests.hub.test_inbox import IDENTITY, STEM, lines
from tests.hub.test_shipping import wait_until
from tests.server.live import Server
from tests.servers.postgres import new_database


@dataclass
class Clock:
    now_s: float = 100.0

    def __call__(self) -> float:
        return self.now_s


def refused(admission: Admission, num_bytes: int = 0) -> bool:
    try:
        with admission.admitted(num_bytes):
            return False
    except BusyError:
        return True


def test_requests_are_bounded_by_their_number_and_their_bytes() -> None:
    admission = Admission(1, most_requests=3, most_bytes=100)
    with admission.admitted(60):
        assert refused(admission, 50)
        with admission.admitted(40), admission.admitted(0):
            assert refused(admission)
        assert not refused(admission, 40)


def test_a_request_that_would_wait_for_too_long_is_refused() -> None:
    clock = Clock()
    admission = Admission(2, clock=clock)
    with contextlib.ExitStack() as working:
        for _ in range(50):
            working.enter_context(admission.working())
        assert not refused(admission)
        for _ in range(200):  # one is done each second, and another one comes
            with admission.working():
                clock.now_s += 1.0
        assert admission.wait_s == pytest.approx(49, rel=0.1)
        assert refused(admission)
    assert not refused(admission)


def test_requests_are_refused_while_nothing_is_done_at_all() -> None:
    clock = Clock()
    admission = Admission(1, clock=clock)
    clock.now_s += 1000.0
    with admission.working():
        assert not refused(admission)
        clock.now_s += MOST_WAIT_S + 1.0
        assert refused(admission)
    assert not refused(admission)


def test_the_more_are_refused_the_later_they_come_back() -> None:
    clock = Clock()
    admission = Admission(1, most_requests=1, clock=clock)
    with admission.admitted(0), admission.working():
        for _ in range(100):
            with admission.working():
                clock.now_s += 0.1
        few = {admission.retry_after_s() for _ in range(100)}
        for _ in range(150):
            assert refused(admission)
        many = {admission.retry_after_s() for _ in range(100)}
    assert min(few) >= 2
    assert max(few) <= 4
    assert min(many) > 10
    assert max(many) <= 60
    assert len(many) > 5  # not all in the same second


@dataclass(frozen=True)
class World:
    """The runs of a hub, and a lock in what it stores in."""

    runs: HubRuns
    ledger: Ledger
    locked: Callable[[], AbstractContextManager[object]]


@contextlib.contextmanager
def folder_world(root: Path) -> Iterator[World]:
    with contextlib.closing(Ledger(root)) as ledger:

        @contextlib.contextmanager
        def locked() -> Iterator[None]:
            path = root / ".hub" / "hub.sqlite"
            other = sqlite3.connect(path, isolation_level=None)
            with contextlib.closing(other):
                other.execute("begin immediate")
                yield

        yield World(FolderRuns(root), ledger, locked)


@contextlib.contextmanager
def shared_world(postgres: str, root: Path) -> Iterator[World]:
    import psycopg

    address = new_database(postgres)
    with contextlib.closing(Database(address)) as database:
        database.prepare()

        @contextlib.contextmanager
        def locked() -> Iterator[None]:
            with psycopg.connect(address) as other:
                other.execute("lock table epochal.runs in exclusive mode")
                yield

        runs = ClusterRuns(database, open_bucket(str(root / "bucket")))
        ledger = Ledger(ClusterDocuments(database))
        yield World(SharedRuns(runs, cache=root / "cache"), ledger, locked)


@pytest.fixture(params=["folder", "cluster"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    if request.param == "folder":
        opened = folder_world(tmp_path / "hub")
    else:
        opened = shared_world(request.getfixturevalue("postgres"), tmp_path)
    with opened as world:
        yield world


def num_requests(world: World, outcome: str) -> int:
    start = f'epochal_hub_requests_total{{outcome="{outcome}"}} '
    text = world.runs.counters.text().splitlines()
    return sum(int(line.removeprefix(start)) for line in text if line.startswith(start))


def written(root: Path, number: int) -> RunFolder:
    folder = RunFolder(root / f"run{number}")
    folder.journal.mkdir(parents=True)
    identity = {"id": f"run{number}", "name": f"run{number}", "project": "p"}
    write_json(folder.identity, identity)
    (folder.journal / f"{STEM}.jsonl").write_bytes(lines(0, 3))
    return folder


NUM_SENDERS = 100


def test_many_senders_are_told_to_wait_and_all_are_acknowledged(
    world: World, tmp_path: Path
) -> None:
    token = world.ledger.add_token("machine", "write")
    folders = [written(tmp_path / "runs", number) for number in range(NUM_SENDERS)]
    admission = Admission(4, most_requests=32)
    sentences: set[str] = set()
    with serving_hub(world.runs, world.ledger, admission=admission) as server:
        url = f"http://127.0.0.1:{server.port}"
        workers = [
            ShippingWorker(folder, HubClient(url, token), on_error=sentences.add)
            for folder in folders
        ]
        with world.locked():
            for worker in workers:
                worker.start()
            wait_until(lambda: num_requests(world, "busy") >= NUM_SENDERS // 2)
        for worker in workers:
            worker.finish()
        for worker in workers:
            assert worker.join(120.0)
        with contextlib.closing(HubClient(url, token)) as client:
            have = [client.state(folder.path.name).parts[STEM].lines for folder in folders]
    assert have == [3] * NUM_SENDERS
    assert all(worker.is_complete for worker in workers)
    assert any("answered 503: the hub has more to do than it can" in one for one in sentences)


def post(server: Server, token: str, run_id: str, *, is_whole: bool = True) -> socket.socket:
    """Send lines of a run and do not wait for the answer."""
    body = lines(0, 3)
    head = (
        f"POST /api/hub/runs/{run_id}/parts/{STEM}?first=0 HTTP/1.1\r\n"
        f"Host: localhost\r\nAuthorization: Bearer {token}\r\n"
        f"{protocol.SIZE_HEADER}: {len(body)}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    connection = socket.create_connection(("127.0.0.1", server.port))
    connection.sendall(head.encode() + (body if is_whole else b""))
    return connection


def answer(connection: socket.socket) -> tuple[int, dict[str, str], Any]:
    with connection:
        text = b""
        while b"\r\n\r\n" not in text or not text.endswith(b"}"):
            piece = connection.recv(65536)
            assert piece
            text += piece
    head, _, body = text.decode().partition("\r\n\r\n")
    first, *rest = head.split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in rest)
    return int(first.split()[1]), headers, json.loads(body)


@pytest.fixture
def runs(tmp_path: Path) -> FolderRuns:
    runs = FolderRuns(tmp_path / "hub")
    for run_id in ("one", "two"):
        runs.inbox.register(run_id, {**IDENTITY, "id": run_id, "name": run_id})
    return runs


def test_nothing_is_done_for_a_sender_that_has_gone(runs: FolderRuns) -> None:
    admission = Admission(1)
    with contextlib.closing(Ledger(runs.root)) as ledger:
        world = World(runs, ledger, contextlib.nullcontext)
        token = ledger.add_token("machine", "write")
        with serving_hub(runs, ledger, admission=admission) as server:
            with runs.inbox.locked("one"):
                first = post(server, token, "one")
                wait_until(lambda: admission.is_waiting)
                post(server, token, "two").close()
                wait_until(lambda: num_requests(world, "gone") == 1)
            assert answer(first)[2] == {"have": 3}
    assert runs.inbox.state("two").parts == {}


def test_a_refusal_does_not_wait_for_the_body(runs: FolderRuns) -> None:
    with contextlib.closing(Ledger(runs.root)) as ledger:
        token = ledger.add_token("machine", "write")
        with serving_hub(runs, ledger, admission=Admission(1, most_bytes=10)) as server:
            status, headers, body = answer(post(server, token, "one", is_whole=False))
    assert status == 503
    assert 2 <= int(headers["retry-after"]) <= 4
    assert "more to do than it can" in body["error"]


def test_a_database_that_is_away_is_no_full_disk(postgres: str, tmp_path: Path) -> None:
    import psycopg

    address = new_database(postgres)
    with contextlib.closing(Database(address)) as database:
        database.prepare()
        runs = SharedRuns(
            ClusterRuns(database, open_bucket(str(tmp_path / "bucket"))), cache=tmp_path / "cache"
        )
        runs.inbox.register("one", IDENTITY)
        with contextlib.closing(Ledger(tmp_path / "ledger")) as ledger:
            token = ledger.add_token("machine", "write")
            with serving_hub(runs, ledger) as server:
                client = HubClient(f"http://127.0.0.1:{server.port}", token)
                with contextlib.closing(client):
                    client.append("one", STEM, first=0, lines=lines(0, 3))
                    name = psycopg.conninfo.conninfo_to_dict(address)["dbname"]
                    with psycopg.connect(postgres, autocommit=True) as other:
                        other.execute(f"alter database {name} allow_connections false")
                        other.execute(
                            "select pg_terminate_backend(pid) from pg_stat_activity"
                            f" where datname = '{name}'"
                        )
                        with pytest.raises(HubError) as caught:
                            client.append("one", STEM, first=3, lines=lines(3, 4))
                        other.execute(f"alter database {name} allow_connections true")
                    assert (caught.value.status, caught.value.is_busy) == (503, True)
                    assert client.append("one", STEM, first=3, lines=lines(3, 4)) == 4
