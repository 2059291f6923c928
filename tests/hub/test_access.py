"""What a token or a link of a hub may do, and what it may not."""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from epochal.hub.ledger import Ledger
from epochal.hub.links import Links
from epochal.shipping.client import HubClient, HubError
from epochal.shipping.worker import ship_now
from tests.hub.hub_process import HubProcess
from tests.hub.test_shipping import record


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubProcess]:
    """A hub with the projects p and q, a run in each."""
    folder = tmp_path_factory.mktemp("team")
    hub = HubProcess(folder / "hub")
    client = hub.client()
    ship_now(record(folder / "runs", "secret", project="q"), client)
    ship_now(record(folder / "runs", "open", project="p"), client)
    yield hub
    hub.stop()


def token(hub: HubProcess, role: str, *projects: str) -> str:
    ledger = Ledger(hub.root)
    made = ledger.add_token(f"{role} {projects} {time.time()}", role, projects or None)  # type: ignore[arg-type]
    ledger.close()
    time.sleep(1.1)  # the hub reads its tokens every second
    return made


def id_of(hub: HubProcess, name: str) -> str:
    rows = hub.client().get_json("/api/runs")["rows"]
    return next(str(row["id"]) for row in rows if row["name"] == name)


def names(client: HubClient) -> list[str]:
    return sorted(row["name"] for row in client.get_json("/api/runs")["rows"])


def refused(call: object) -> int:
    assert callable(call)
    with pytest.raises(HubError) as error:
        call()
    return error.value.status


def test_a_token_is_stored_as_a_digest(team: HubProcess) -> None:
    stored = b"".join(path.read_bytes() for path in (team.root / ".hub").iterdir())
    assert team.token.encode() not in stored


def test_nothing_without_a_token(team: HubProcess) -> None:
    client = team.client("")
    for path in ("/", "/api/runs", "/api/hub/runs/x", "/metrics"):
        assert refused(lambda path=path: client.request("GET", path)) == 401
    assert refused(lambda: client.register("x", {"id": "x"})) == 401


def test_a_revoked_token_is_refused(team: HubProcess) -> None:
    ledger = Ledger(team.root)
    made = ledger.add_token("gone", "admin")
    time.sleep(1.1)
    client = team.client(made)
    assert names(client) == ["open", "secret"]
    ledger.revoke_token("gone")
    ledger.close()
    time.sleep(1.1)
    assert refused(lambda: client.get_json("/api/runs")) == 401


def test_a_token_of_one_project_sees_no_other(team: HubProcess) -> None:
    client = team.client(token(team, "write", "p"))
    secret = id_of(team, "secret")
    assert names(client) == ["open"]
    assert client.get_json("/api/runs?query=project%20%3D%3D%20%22q%22")["rows"] == []
    for path in (
        f"/api/runs/{secret}",
        f"/api/runs/{secret}/config",
        f"/api/runs/{secret}/findings",
        f"/api/hub/runs/{secret}",
        f"/api/hub/runs/{secret}/parts/loop.0001.0000",
        f"/api/hub/runs/{secret}/blobs/uncommitted.patch",
    ):
        assert refused(lambda path=path: client.request("GET", path)) == 404, path


def test_a_writer_cannot_change_another_project(team: HubProcess, tmp_path: Path) -> None:
    client = team.client(token(team, "write", "p"))
    secret = id_of(team, "secret")
    before = journal_of(team, "q", "secret")
    line = b'{"log":"metrics","t":1,"step":999,"m":{"loss":0}}\n'
    stem = "loop.0001.0000"
    assert refused(lambda: client.append(secret, stem, first=0, lines=line)) == 404
    assert refused(lambda: client.merge_labels(secret, {"name": "mine"}, {})) == 404
    # Neither by claiming its id for a project of one's own, nor by naming its project.
    mine = {"id": secret, "name": "x", "project": "p"}
    assert refused(lambda: client.register(secret, mine)) == 403
    theirs = {"id": "new-id", "name": "x", "project": "q"}
    assert refused(lambda: client.register("new-id", theirs)) == 403
    assert refused(lambda: client.register("new-id", {**theirs, "project": "Q"})) == 403
    assert journal_of(team, "q", "secret") == before


def test_a_reader_changes_nothing(team: HubProcess) -> None:
    client = team.client(token(team, "read"))
    run = id_of(team, "open")
    assert names(client) == ["open", "secret"]
    assert refused(lambda: client.register("n", {"id": "n", "name": "n", "project": "p"})) == 403
    change = {"content-type": "application/json"}
    path, body = f"/api/runs/{run}/labels", b'{"name":"mine"}'
    assert refused(lambda: client.request("PATCH", path, body=body, headers=change)) == 403


@pytest.mark.parametrize("stem", ["../../q/secret/journal/loop.0001.0000", "loop", "a.b.c", ".."])
def test_parts_stay_in_their_folder(team: HubProcess, stem: str) -> None:
    client = team.client()
    run = id_of(team, "open")
    assert refused(lambda: client.append(run, stem, first=0, lines=b"{}\n")) in (400, 404, 405)


@pytest.mark.parametrize("name", ["..", ".hidden", "a/b", "x" * 200, "%2e%2e", "a\x00b"])
def test_blobs_stay_in_their_folder(team: HubProcess, name: str) -> None:
    client = team.client()
    run = id_of(team, "open")
    sent = {"size": 1, "sha256": "0" * 64}
    assert refused(lambda: client.put_file(run, "blobs", name, b"x", **sent)) in (400, 404, 405)  # type: ignore[arg-type]


def test_a_fork_leads_into_no_other_project(team: HubProcess) -> None:
    client = team.client()
    fork = {"id": "x", "name": "x", "project": "q", "step": 5, "path": "../../q/secret"}
    identity = {"id": "forked", "name": "forked", "project": "p", "fork": fork}
    client.register("forked", identity)
    assert "path" not in client.state("forked").identity["fork"]


def test_a_body_that_expands_without_end_is_refused(team: HubProcess) -> None:
    client = team.client()
    run = id_of(team, "open")
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = b"".join(packer.compress(b"\n" * (1 << 20)) for _ in range(200)) + packer.flush()
    path = f"/api/hub/runs/{run}/parts/loop.0002.0000?first=0"
    for size in (1 << 10, 200 << 20):
        sent = {"content-encoding": "gzip", "x-epochal-size": str(size)}
        assert (
            refused(lambda sent=sent: client.request("POST", path, body=bomb, headers=sent)) == 400
        )


def test_a_link_shows_its_run_and_nothing_else(team: HubProcess) -> None:
    run, secret = id_of(team, "open"), id_of(team, "secret")
    link = Links(team.root).make([run], until=time.time() + 60)
    client = team.client(link)
    assert names(client) == ["open"]
    assert client.get_json(f"/api/runs/{run}/config") == {}
    assert refused(lambda: client.request("GET", f"/api/runs/{secret}")) == 404
    assert refused(lambda: client.request("GET", f"/api/hub/runs/{secret}")) == 404
    assert refused(lambda: client.append(run, "loop.0001.0000", first=0, lines=b"{}\n")) == 403


def test_a_forged_or_ended_link_is_refused(team: HubProcess) -> None:
    run = id_of(team, "open")
    links = Links(team.root)
    good = links.make([run], until=time.time() + 60)
    ended = Links(team.root, clock=lambda: time.time() - 1000).make([run], until=time.time() - 500)
    body, _, signature = good.partition(".")
    forged = links.make([run, id_of(team, "secret")], until=time.time() + 60).partition(".")[0]
    for bad in (
        ended,
        f"{forged}.{signature}",
        body,
        good + "x",
        "share_",
        "share_x.y",
        "share_é.é",
    ):
        assert refused(lambda bad=bad: team.client(bad).request("GET", "/api/runs")) == 401
    links.revoke_all()
    assert refused(lambda: team.client(good).request("GET", "/api/runs")) == 401


def journal_of(hub: HubProcess, project: str, name: str) -> dict[str, bytes]:
    folder = hub.root / project / name / "journal"
    return {path.name: path.read_bytes() for path in folder.iterdir()}
