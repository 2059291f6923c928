"""Hubs that share one ClickHouse store, and what is copied into it and out of it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import epochal
from epochal.cli.main import main
from epochal.hub.ledger import Ledger
from epochal.hub.links import Links
from epochal.hub.retention import Retention, RetentionRule, RetentionRules
from epochal.hub.serving import create_hub, open_noting, runs_in_database
from epochal.journal.layout import RunFolder, run_folders, write_json
from epochal.media.types import Image
from epochal.segments.seal import seal_part
from epochal.server.access import LOOPBACK
from epochal.server.app import App
from epochal.serving import ServerAddress
from epochal.shipping.client import HubClient, HubError
from epochal.shipping.worker import ship_now
from epochal.store.clickhouse.connection import Address
from epochal.store.clickhouse.tables import Database
from tests.hub.clickhouse import new_database
from tests.hub.test_shipping import record
from tests.server.live import Server, serving_app

Client = Callable[[Server, str], HubClient]


@pytest.fixture
def address() -> Address:
    return new_database("chdb")


@contextlib.contextmanager
def serving(address: Address) -> Iterator[tuple[Server, Ledger]]:
    """One hub over a database, in a thread of this process."""
    with (
        contextlib.closing(Database(str(address))) as database,
        contextlib.closing(Ledger(database.documents)) as ledger,
    ):
        runs = runs_in_database(database)

        def create(port: int) -> App:
            url = f"http://127.0.0.1:{port}"
            return create_hub(
                runs, ledger, ServerAddress(url, "127.0.0.1", port, None, names=LOOPBACK)
            )

        with serving_app(create) as server:
            yield server, ledger


@pytest.fixture
def client() -> Iterator[Client]:
    with contextlib.ExitStack() as stack:

        def create(server: Server, token: str) -> HubClient:
            client = HubClient(f"http://127.0.0.1:{server.port}", token)
            return stack.enter_context(contextlib.closing(client))

        yield create


@pytest.fixture
def two(address: Address) -> Iterator[list[tuple[Server, Ledger]]]:
    with serving(address) as one, serving(address) as other:
        yield [one, other]


def names(client: HubClient) -> list[str]:
    return sorted(row["name"] for row in client.get_json("/api/runs")["rows"])


def test_what_one_hub_receives_the_other_shows(
    two: list[tuple[Server, Ledger]], client: Client, tmp_path: Path
) -> None:
    (here, ledger), (there, other) = two
    token = ledger.add_token("machine", "write")
    folders = [record(tmp_path / "runs", name, project=name) for name in ("a", "b")]
    senders = [client(server, token) for server in (here, there)]
    for folder, sender in zip(folders, senders, strict=True):
        ship_now(folder, sender)
    time.sleep(1.1)
    for sender in senders:
        assert names(sender) == ["a", "b"]
    only_b = other.add_token("only b", "read", ["b"])
    run_id = epochal.load(folders[0].path).info.id
    link = Links(other.documents).make([run_id], until=time.time() + 60)
    time.sleep(1.1)
    for server in (here, there):
        assert names(client(server, only_b)) == ["b"]
        assert names(client(server, link)) == ["a"]
    registered = [line["details"] for line in ledger.audit() if line["what"] == "register"]
    assert sorted(registered) == ["a/a", "b/b"]


def test_what_was_deleted_at_one_hub_is_refused_by_the_other(
    two: list[tuple[Server, Ledger]], client: Client, tmp_path: Path
) -> None:
    (here, ledger), (there, _) = two
    token = ledger.add_token("machine", "write")
    folder = record(tmp_path / "runs", "a")
    ship_now(folder, client(here, token))
    body = b'{"runs": ["%s"]}' % epochal.load(folder.path).info.id.encode()
    change = {"content-type": "application/json"}
    client(here, token).request("POST", "/api/trash", body=body, headers=change)
    sender = client(there, token)
    with pytest.raises(HubError, match="was deleted on this hub") as refused:
        ship_now(folder, sender, unless_removed=True)
    assert refused.value.status == 410
    ship_now(folder, sender)  # a person sends it again
    time.sleep(1.1)
    assert names(sender) == ["a"]


def test_retention_by_the_time_of_arrival(address: Address, tmp_path: Path) -> None:
    told: list[str] = []
    with (
        contextlib.closing(Database(str(address))) as database,
        contextlib.closing(Ledger(database.documents)) as ledger,
    ):
        runs = runs_in_database(database)
        root = tmp_path / "runs"
        for name in ("a", "b"):
            record(root, name)
        write_json(root / "p" / "b" / "labels.json", {"tags": ["keep"]})
        assert main(["hub", "migrate", str(root), str(address)]) == 0

        def retention(age_s: float) -> Retention:
            rules = RetentionRules(RetentionRule(age_s, None, keep_tags=True))
            return Retention(
                rules,
                lambda: open_noting(runs, ledger, runs.whole),
                ledger,
                None,
                locked=runs.inbox.locked,
                tell=told.append,
            )

        time.sleep(2.1)
        retention(3600.0).apply()
        assert told == []
        retention(1.0).announce()
        assert told[-1] == "Retention would move or erase now: to the trash: 1 run: p/a."
        retention(1.0).apply()
        assert told[-1].startswith("Retention: p/a was moved to the trash: nothing was received")
        with contextlib.closing(runs.open(runs.whole)) as store:
            assert [run.info.name for run in store.runs()] == ["b"]
            assert [run.name for run in store.trash.runs()] == ["a"]
        runs.inbox.close()


def content(root: Path) -> dict[str, Any]:
    """The records, labels and blobs of each run."""
    found: dict[str, Any] = {}
    for folder in run_folders(root):
        view = epochal.load(folder.path).view
        blobs = {path.name: path.read_bytes() for path in folder.blobs.glob("*")}
        records = [record for _, record in view.records()]
        found[view.info.id] = (records, view.info.name, view.labels, blobs)
    return found


def test_a_hub_is_copied_into_a_store_and_out_of_it(
    address: Address, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for name in ("a", "b"):
        record(one, name, steps=20)
    with epochal.init("p", "picture", dir=one, companion=False) as run:
        run.log({"x": Image([[0, 1], [2, 3]])}, step=0)
        run.log({"loss": float("nan")}, step=1)
    write_json(one / "p" / "b" / "labels.json", {"tags": ["keep"], "name": "renamed"})
    packed = RunFolder(one / "p" / "b")
    for part in packed.parts():
        seal_part(packed, part)
    with contextlib.closing(Ledger(one)) as ledger:
        token = ledger.add_token("machine", "write")
        ledger.claim("run", "p", "machine")
        ledger.note("alice", "something")
    for _ in range(2):  # the second time nothing is left to do
        assert main(["hub", "migrate", str(one), str(address)]) == 0
        assert main(["hub", "migrate", str(address), str(other)]) == 0
        assert capsys.readouterr().out == "Everything is copied.\n" * 2
        assert content(other) == content(one)
        assert len(content(other)) == 3
    with contextlib.closing(Ledger(other)) as ledger:
        assert ledger.principal(token) is not None
        assert ledger.writer_of("run") == "machine"
        assert [line["what"] for line in ledger.audit()] == ["something"]
    assert main(["hub", "audit", "--hub", str(address)]) == 0
    assert "something" in capsys.readouterr().out
    assert main(["hub", "migrate", str(one), str(other)]) == 2
    assert "one of FROM and TO is a folder" in capsys.readouterr().err


def test_a_share_of_a_store(
    address: Address, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record(tmp_path / "runs", "a")
    assert main(["hub", "migrate", str(tmp_path / "runs"), str(address)]) == 0
    assert main(["hub", "token", "add", "machine", "--hub", str(address)]) == 0
    assert main(["hub", "share", "a", "--hub", str(address)]) == 0
    said = capsys.readouterr()
    token = said.out.split("?token=")[1].strip()
    with contextlib.closing(Database(str(address))) as database:
        principal = Links(database.documents).principal(token)
    assert principal is not None
    assert principal.runs is not None
    assert len(principal.runs) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--store", "chdb:///x", "--max-size", "1GB"], "--max-size and --quota measure a folder"),
        ([], "name the folder DIR of the hub, or a --store"),
        (["--store", "/data"], "write the store as clickhouse://"),
    ],
)
def test_a_mistake_at_the_start_is_named(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["hub", "serve", *words]) == 2
    assert said in capsys.readouterr().err
