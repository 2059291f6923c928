"""Every acknowledged record is found exactly once, whichever write of a hub was its last.

Each operation runs again and again, with a fault at its first, second, … n-th write to the servers.
Then a fresh hub reads what is stored, and the operation is repeated.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

import pytest

from epochal.errors import UsageError
from epochal.hub.clickhouse_inbox import ClickHouseInbox
from epochal.hub.inbox import UnknownRunError
from epochal.journal.layout import RunFolder, read_json, write_json
from epochal.shipping.protocol import RunState
from epochal.shipping.shipper import HUB_FILE
from epochal.shipping.worker import ship_now
from epochal.store.clickhouse.connection import (
    Address,
    ClickHouseError,
    HttpServer,
    Server,
    parse_address,
)
from epochal.store.clickhouse.store import ClickHouseStore
from epochal.store.clickhouse.tables import Database
from epochal.store.local.store import LocalStore
from tests.doubles.companions import wait_for
from tests.hub.clickhouse import new_database
from tests.hub.filled_database import InboxClient
from tests.store.journals import Journal
from tests.store.sealing import LOOP

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        "EPOCHAL_LONG_TESTS" not in os.environ, reason="It takes minutes: 'make test-hub' runs it."
    ),
]

RUN = "id-x"
FILE = "weights.bin"
LABELS = {"notes": "the best so far"}
Result = TypeVar("Result")


class Fault(NamedTuple):
    """What happens at the n-th write: it is not done, or only its answer is lost.

    The hub is killed with it, or goes on.
    """

    is_done: bool
    is_killed: bool


# A hub that is killed after a write leaves what one leaves that is killed before the next.
FAULTS = [Fault(False, True), Fault(False, False), Fault(True, False)]


class FaultyServer:
    """Fails at the n-th write after ``number`` was set to n; 0 for no fault."""

    def __init__(self, server: Server, fault: Fault) -> None:
        self._server, self._fault = server, fault
        self.version = server.version
        self.number = 0
        self._is_dead = False

    def query(self, statement: str) -> bytes:
        if statement.startswith(("ALTER", "DELETE")):
            return self._write(lambda: self._server.query(statement))
        return self._server.query(statement)

    def insert(self, table: str, columns: Mapping[str, str], rows: bytes) -> None:
        self._write(lambda: self._server.insert(table, columns, rows))

    def close(self) -> None:
        self._server.close()

    def _write(self, write: Callable[[], Result]) -> Result:
        is_it, self.number = self.number == 1, max(self.number - 1, 0)
        if is_it and self._fault.is_done:
            write()
        if is_it or self._is_dead:
            self._is_dead = self._fault.is_killed
            raise ClickHouseError("the server went away")
        return write()


class Hub(InboxClient):
    """A hub and its client; it notes how many lines and bytes were acknowledged."""

    def __init__(self, address: Address, fault: Fault = FAULTS[0]) -> None:
        self.database = Database(address)
        self.server = FaultyServer(self.database.server, fault)
        self.database.tables.server = self.database.documents._server = self.server
        self.database.server = self.server
        super().__init__(ClickHouseInbox(self.database))
        self.store = ClickHouseStore(self.database)
        self.acknowledged: dict[str, int] = {}

    def append(self, *args: Any, **named: Any) -> int:
        have = super().append(*args, **named)
        self.acknowledged[args[1]] = have
        return have

    def put_file(self, run_id: str, kind: Any, name: str, *args: Any, **named: Any) -> int:
        have = super().put_file(run_id, kind, name, *args, **named)
        if have == named["size"]:
            self.acknowledged[name] = have
        return have

    def close(self) -> None:
        self.inbox.close()
        self.database.close()


Operation = Callable[[Hub], object]


@dataclass(slots=True)
class Crash:
    """One try: where the fault was, and the hub that goes on."""

    address: Address
    number: int
    hub: Hub
    acknowledged: dict[str, int] = field(default_factory=dict)
    is_complete: bool = False


def crashes(fault: Fault, prepare: Operation, operation: Operation) -> Iterator[Crash]:
    """Yield what each fault left, at last what the operation leaves without one."""
    for number in itertools.count(1):
        address = new_database("chdb")
        with contextlib.ExitStack() as stack:
            with contextlib.closing(Hub(address)) as first:
                prepare(first)
            hub = stack.enter_context(contextlib.closing(Hub(address, fault)))
            hub.server.number = number
            with contextlib.suppress(ClickHouseError):
                operation(hub)
            is_complete, hub.server.number = hub.server.number > 0, 0
            acknowledged = hub.acknowledged
            if fault.is_killed and not is_complete:
                hub = stack.enter_context(contextlib.closing(Hub(address)))
            yield Crash(address, number, hub, acknowledged, is_complete)
            hub.database.server.query(f"DROP DATABASE {address.database}")
        if is_complete:
            return


class Found(NamedTuple):
    """What a fresh hub finds of the run."""

    records: list[Any]
    state: RunState | None
    file: bytes
    # Of the series: its points as a chart and as the list of runs count them.
    num_points: int = 0
    in_summary: int = 0


def found(address: Address, run_id: str = RUN) -> Found:
    with contextlib.closing(Hub(address)) as hub:
        try:
            state = hub.state(run_id)
        except UnknownRunError:
            return Found([], None, b"")
        run, data = hub.store.run(run_id), b""
        if FILE in state.blobs:
            while piece := hub.inbox.file(run_id, "blobs", FILE, offset=len(data)):
                data += piece
        records = [record for _, record in run.records()]
        if not run.metrics():
            return Found(records, state, data)
        return Found(records, state, data, len(run.series("loss")), run.summary("loss").count)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A run that is sent in several batches and pieces."""
    monkeypatch.setattr("epochal.shipping.shipper.BATCH_BYTES", 4000)
    monkeypatch.setattr("epochal.store.clickhouse.store.NOTICED_S", 0.0)
    monkeypatch.setattr("epochal.shipping.shipper.CHUNK_BYTES", 3000)
    journal = Journal(tmp_path)
    for step in range(60):
        journal.metrics(step, loss=step / 7)
    journal.finish().folder.blobs.mkdir()
    (journal.folder.blobs / FILE).write_bytes(bytes(range(250)) * 20)
    write_json(journal.folder.labels, LABELS)
    return journal.folder


def push(run: RunFolder, hub: Hub) -> None:
    (run.path / HUB_FILE).unlink(missing_ok=True)  # each try is a hub that the run does not know
    ship_now(run, hub, tries=1)


def delete(hub: Hub) -> None:
    hub.store.remove(hub.store.run(RUN))


def restore(hub: Hub) -> None:
    trash = hub.store.trash
    trash.restore(trash.find(RUN))


def erase(hub: Hub) -> None:
    trash = hub.store.trash
    trash.erase(trash.find(RUN))


def check_whole(address: Address, run: RunFolder) -> None:
    """The run is there, once."""
    there = found(address)
    with LocalStore(run.path) as store:
        assert there.records == [record for _, record in store.run("x").records()]
    assert (there.num_points, there.in_summary) == (60, 60)
    assert there.file == (run.blobs / FILE).read_bytes()
    assert there.state is not None
    assert there.state.labels == LABELS


def check_acknowledged(crash: Crash, expected: list[Any]) -> None:
    """What was acknowledged is there, and nothing twice."""
    there = found(crash.address)
    assert there.records == expected[: len(there.records)]
    assert there.in_summary == sum(record["log"] == "metrics" for record in there.records)
    assert there.num_points in (0, there.in_summary)
    for name, have in crash.acknowledged.items():
        assert there.state is not None
        assert have <= (len(there.file) if name == FILE else there.state.parts[name].lines)


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_run_that_is_pushed(run: RunFolder, fault: Fault) -> None:
    with LocalStore(run.path) as store:
        expected = [record for _, record in store.run("x").records()]
    for crash in crashes(fault, lambda _: None, lambda hub: push(run, hub)):
        check_acknowledged(crash, expected)
        push(run, crash.hub)
        check_whole(crash.address, run)


@pytest.mark.parametrize("fault", FAULTS[::2], ids=str)
def test_a_run_that_is_deleted_and_restored(run: RunFolder, fault: Fault) -> None:
    def delete_and_restore(hub: Hub) -> None:
        delete(hub)
        restore(hub)

    for crash in crashes(fault, lambda hub: push(run, hub), delete_and_restore):
        store = crash.hub.store
        store.refresh()
        assert len(store.runs()) + len(store.trash.runs()) == 1
        if store.trash.runs():
            restore(crash.hub)
        check_whole(crash.address, run)


def test_a_run_that_is_erased(run: RunFolder) -> None:
    def prepare(hub: Hub) -> None:
        push(run, hub)
        delete(hub)

    for crash in crashes(FAULTS[0], prepare, erase):
        assert crash.hub.inbox.project_of(RUN) is None
        if trashed := crash.hub.store.trash.runs():
            assert [one.name for one in trashed] == ["x"]
            with contextlib.suppress(UsageError):
                restore(crash.hub)  # nobody may see what is left of it
                check_whole(crash.address, run)
                delete(crash.hub)
            erase(crash.hub)
        assert not crash.hub.store.trash.runs()
        assert crash.hub.inbox.project_of(RUN) is None
        push(run, crash.hub)
        check_whole(crash.address, run)


def test_a_run_that_is_pushed_again_after_it_was_erased(run: RunFolder) -> None:
    def prepare(hub: Hub) -> None:
        push(run, hub)
        delete(hub)
        erase(hub)

    with LocalStore(run.path) as store:
        expected = [record for _, record in store.run("x").records()]
    for crash in crashes(FAULTS[0], prepare, lambda hub: push(run, hub)):
        check_acknowledged(crash, expected)
        push(run, crash.hub)
        check_whole(crash.address, run)
        if crash.number == 6:  # in the second batch; all that follows is as for a new run
            break


class RefusingServer(FaultyServer):
    """Waits with inserts until it is open, and refuses the second one into ``records``."""

    def __init__(self, server: Server) -> None:
        super().__init__(server, FAULTS[0])
        self.is_asked, self.is_open = threading.Event(), threading.Event()
        self._num_records = 0

    def insert(self, table: str, columns: Mapping[str, str], rows: bytes) -> None:
        self.is_asked.set()
        self.is_open.wait()
        self._num_records += table.endswith(".records")
        if self._num_records == 2 and table.endswith(".records"):
            raise ClickHouseError("a server of the cluster is away", code=210)
        super().insert(table, columns, rows)


def test_rows_of_several_senders_that_are_stored_again_after_a_refusal(tmp_path: Path) -> None:
    names = ["first", "second", "third"]
    journals = [Journal(tmp_path, name) for name in names]
    with contextlib.closing(Hub(new_database("chdb"))) as hub, ThreadPoolExecutor() as pool:
        for journal in journals:
            for step in range(60):
                journal.metrics(step, loss=step / 7)
            hub.register(journal.id, read_json(journal.folder.identity))
        server = hub.database.tables.server = RefusingServer(hub.server)
        answers = []
        for journal in journals:
            lines = journal.path().read_bytes()
            args = (journal.id, LOOP.stem)
            answers.append(pool.submit(hub.append, *args, first=0, lines=lines))
            server.is_asked.wait()
        wait_for(lambda: len(hub.inbox._ingest._waiting) == 2)  # while the first is stored
        server.is_open.set()
        assert [answer.result() for answer in answers] == [61, 61, 61]
        for journal in journals:
            there = found(hub.database.address, journal.id)
            assert (there.num_points, there.in_summary) == (60, 60)


class LosingAnswers(BaseHTTPRequestHandler):
    """A server that stores rows and does not answer, and ends within one answer."""

    protocol_version = "HTTP/1.1"
    stored: ClassVar[list[bytes]] = []
    has_ended = False

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if "INSERT" in self.path:
            self.stored.append(body)
            self.close_connection = True
            return
        self.send_response(200)
        if body == b"SELECT 1" and not LosingAnswers.has_ended:
            LosingAnswers.has_ended = self.close_connection = True
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            return
        self.send_header("content-length", "5")
        self.end_headers()
        self.wfile.write(b"18.16")

    def log_message(self, *_: Any) -> None:
        pass


def test_queries_are_sent_again_where_no_answer_came_and_rows_are_not() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), LosingAnswers) as listening:
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        host = f"127.0.0.1:{listening.server_port}"
        address = parse_address(f"clickhouse://{host},{host}/epochal")
        with contextlib.closing(HttpServer(address)) as server:
            assert server.query("SELECT 1") == b"18.16"  # asked again
            for number in range(2):  # over a connection that was open, and over a new one
                with pytest.raises(ClickHouseError, match="without an answer"):
                    server.insert("points", {"run": "String"}, b"%d" % number)
        listening.shutdown()
    assert LosingAnswers.stored == [b"0", b"1"]
