"""What a token or a link of a hub may do, and what it may not."""

from __future__ import annotations

import base64
import contextlib
import functools
import hashlib
import json
import re
import time
import zlib
from collections.abc import Iterator
from hmac import compare_digest
from pathlib import Path

import pytest

from epochal.hub.documents import FolderDocuments
from epochal.hub.folder_inbox import FolderInbox
from epochal.hub.ledger import Ledger, Links
from epochal.journal.layout import read_json, slugify
from epochal.shipping.client import HubClient, HubError
from epochal.shipping.protocol import FileKind
from epochal.shipping.worker import ship_now
from epochal.store.local.trash import folder_bytes
from tests.hub.hub_process import HubProcess
from tests.hub.test_shipping import record, wait_until


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


@functools.cache  # each wrong attempt counts against the limit of an address
def token(hub: HubProcess, role: str, *projects: str) -> str:
    ledger = Ledger(hub.root)
    made = ledger.add_token(f"{role} {projects} {time.time()}", role, projects or None)  # type: ignore[arg-type]
    ledger.close()
    wait_until(lambda: is_known(hub, made), every_s=1.0)  # the hub reads its tokens every second
    return made


def is_known(hub: HubProcess, token: str) -> bool:
    try:
        hub.client(token).get_json("/api/runs")
    except HubError as error:
        return error.status not in (401, 429)
    return True


def id_of(hub: HubProcess, name: str) -> str:
    client = hub.client()

    def ids() -> list[str]:
        rows = client.get_json("/api/runs")["rows"]
        return [str(row["id"]) for row in rows if row["name"] == name]

    wait_until(ids)
    return ids()[0]


def names(client: HubClient) -> list[str]:
    return sorted(row["name"] for row in client.get_json("/api/runs")["rows"])


def refused(call: object) -> int:
    assert callable(call)
    with pytest.raises(HubError) as error:
        call()
    return error.value.status


def save_board(client: HubClient, project: str, name: str = "b") -> object:
    body = json.dumps({"project": project, "board": {"name": name}}).encode()
    headers = {"content-type": "application/json"}
    return client.request("POST", "/api/boards", body=body, headers=headers)


def test_boards_belong_to_the_projects_of_a_token(team: HubProcess) -> None:
    writer, reader = team.client(token(team, "write", "p")), team.client(token(team, "read", "p"))
    save_board(writer, "p")
    assert refused(lambda: save_board(writer, "q")) == 404  # as if there were no such project
    assert refused(lambda: save_board(reader, "p", "other")) == 403
    id_of(team, "secret")  # a hub that has just started knows no project before it has read a run
    save_board(team.client(), "q")
    for client, projects in ((writer, ["p"]), (reader, ["p"]), (team.client(), ["p", "q"])):
        boards = client.get_json("/api/boards")["boards"]
        assert [stored["project"] for stored in boards] == projects
    link = Links(FolderDocuments(team.root)).make([id_of(team, "open")], until=time.time() + 600)
    assert team.client(link).get_json("/api/boards") == {"boards": []}
    assert names(team.client()) == ["open", "secret"]


def test_a_token_is_stored_as_a_digest(team: HubProcess) -> None:
    stored = b"".join(path.read_bytes() for path in (team.root / ".hub").iterdir())
    assert team.token.encode() not in stored


def test_nothing_without_a_token(team: HubProcess) -> None:
    client = team.client("")
    for path in ("/", "/api/runs", "/api/hub/runs/x", "/metrics"):
        assert refused(lambda path=path: client.request("GET", path)) == 401
    assert refused(lambda: client.register("x", {"id": "x"})) == 401


def test_a_token_has_256_random_bits(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    made = [ledger.add_token(f"n{number}", "read") for number in range(3)]
    ledger.close()
    keys = [base64.urlsafe_b64decode(one.removeprefix("ep_") + "=") for one in made]
    assert [len(key) for key in keys] == [32] * 3
    assert len(set(keys)) == 3


def test_every_token_is_compared_in_constant_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(tmp_path)
    made = [ledger.add_token(f"n{number}", "read") for number in range(5)]
    compared = []

    def compare(a: bytes, b: bytes) -> bool:
        compared.append(len(a) == len(b) == 32)  # digests: nothing of a token is compared itself
        return compare_digest(a, b)

    monkeypatch.setattr("hmac.compare_digest", compare)
    for token in (made[0], made[4], "ep_unknown", "", "é"):
        compared.clear()
        found = ledger.principal(token)
        assert (found is not None) == (token in made)
        assert compared == [True] * 5  # the first that fits does not end it
    link = Links(FolderDocuments(tmp_path)).make(["run"], until=time.time() + 60)
    compared.clear()
    assert Links(FolderDocuments(tmp_path)).principal(link) is not None
    assert Links(FolderDocuments(tmp_path)).principal(link[:-3] + "abc") is None
    assert compared == [True, True]
    ledger.close()


def test_a_revoked_token_is_refused(team: HubProcess) -> None:
    ledger = Ledger(team.root)
    made = ledger.add_token("gone", "admin")
    wait_until(lambda: is_known(team, made))
    client = team.client(made)
    assert names(client) == ["open", "secret"]
    ledger.revoke_token("gone")
    ledger.close()
    wait_until(lambda: not is_known(team, made))
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
    with pytest.raises(HubError, match=f"may not write the run {secret}.$") as error:
        client.register(secret, mine)
    assert error.value.status == 403
    theirs = {"id": "new-id", "name": "x", "project": "q"}
    assert refused(lambda: client.register("new-id", theirs)) == 403
    assert refused(lambda: client.register("new-id", {**theirs, "project": "Q"})) == 403
    assert journal_of(team, "q", "secret") == before


def test_a_writer_puts_no_file_into_another_project(team: HubProcess) -> None:
    client = team.client(token(team, "write", "p"))
    secret, there = id_of(team, "secret"), team.root / "q" / "secret"
    before = sorted(path.relative_to(there) for path in there.rglob("*"))
    sent = {"size": 1, "sha256": hashlib.sha256(b"x").hexdigest()}
    files: list[tuple[FileKind, str]] = [
        ("blobs", "x.png"),
        ("segments", "loop.0001.0000.parquet"),
        ("live", "node.json"),
    ]
    for kind, name in files:
        put = functools.partial(client.put_file, secret, kind, name, b"x")
        assert refused(lambda put=put: put(**sent)) == 404
    assert refused(lambda: client.take_requests(secret)) == 404
    assert refused(lambda: client.launched("job-7", "q", age_s=1)) == 403
    assert sorted(path.relative_to(there) for path in there.rglob("*")) == before


def test_a_writer_deletes_nothing_of_another_project(hub: HubProcess, tmp_path: Path) -> None:
    mine, admin = hub.client(token(hub, "write", "p")), hub.client(token(hub, "admin"))
    for name in ("secret", "gone"):
        ship_now(record(tmp_path / "runs", name, project="q"), admin)
    ship_now(record(tmp_path / "runs", "open"), mine)
    secret = id_of(hub, "secret")
    body, sent = b'{"runs":["%s"]}' % secret.encode(), {"content-type": "application/json"}
    mine.request("POST", "/api/trash", body=body, headers=sent)
    assert (hub.root / "q" / "secret").is_dir()
    # Nor does it see or restore what others have deleted.
    gone = b'{"runs":["%s"]}' % id_of(hub, "gone").encode()
    admin.request("POST", "/api/trash", body=gone, headers=sent)
    (row,) = admin.get_json("/api/trash")["runs"]
    assert mine.get_json("/api/trash")["runs"] == []
    keys = json.dumps({"keys": [row["key"]]}).encode()
    mine.request("POST", "/api/trash/restore", body=keys, headers=sent)
    assert not (hub.root / "q" / "gone").exists()


@pytest.mark.parametrize("project", ["..", ".hub", "../q", "/etc", "a/../../q", "q\0"])
def test_the_name_of_a_project_leads_nowhere_else(tmp_path: Path, project: str) -> None:
    root = tmp_path / "hub"
    (root / ".hub").mkdir(parents=True)
    state = FolderInbox(root).register("abc", {"id": "abc", "name": "x", "project": project})
    (found,) = root.glob("[!.]*/x/run.json")
    assert state.project == project
    assert [path.name for path in tmp_path.iterdir()] == ["hub"]
    assert list((root / ".hub").iterdir()) == []
    # Tokens are for folders: that of the project's name, however it is written.
    assert slugify(project) == found.parent.parent.name


def test_a_writer_fills_its_own_quota_and_no_other(tmp_path: Path) -> None:
    hub = HubProcess(tmp_path / "hub", "--quota", "100KB")
    try:
        greedy, other = hub.client(token(hub, "write", "p")), hub.client(token(hub, "write", "q"))
        big = "x" * 60_000
        greedy.register("one", {"id": "one", "name": "one", "project": "p", "config": big})
        other.register("two", {"id": "two", "name": "two", "project": "q"})
        # Not with lines, not with runs, not with labels, not with readings of machines.
        line = b'{"log":"text","text":"%s"}\n' % big.encode()
        more = {"id": "three", "name": "three", "project": "p", "config": big}
        stem, sha256 = "loop.0001.0000", "0" * 64
        live = functools.partial(greedy.put_file, "one", "live", size=60_000, sha256=sha256)
        for attack in (
            lambda: greedy.append("one", stem, first=0, lines=line),
            lambda: greedy.register("three", more),
            lambda: greedy.register("one", {**more, "id": "one", "name": "one", "x": big}),
            lambda: greedy.merge_labels("one", {"of a later version": big}, {}),
            lambda: live("n.json", big.encode()),
            lambda: greedy.put_file("one", "blobs", "b", big.encode(), size=60_000, sha256=sha256),
        ):
            assert refused(attack) == 507
        assert folder_bytes(hub.root / "p") < 100_000
        assert other.append("two", stem, first=0, lines=line) == 1
    finally:
        hub.stop()


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


@pytest.mark.parametrize("first", ["%C2%B2", "-1", "1e3", "9" * 5000])
def test_a_number_that_is_none_is_refused(team: HubProcess, first: str) -> None:
    path = f"/api/hub/runs/{id_of(team, 'open')}/parts/loop.0002.0000?first={first}"
    assert refused(lambda: team.client().request("GET", path)) == 400


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        ({"name": 5, "tags": "x", "hidden": "no"}, "Expected `str | null`, got `int`"),
        ({"tags": "x"}, "Expected `array | null`, got `str`"),
        ({"tags": [["x"]]}, "Expected `str`, got `array`"),
        ({"hidden": "no"}, "Expected `bool`, got `str`"),
        ({"notes": "x" * 20_001}, "a note has at most 20000 characters"),
        ({"name": "two\nlines"}, "a name must not hold a newline"),
    ],
)
def test_labels_that_are_not_valid_are_refused_and_leave_the_stored_ones(
    team: HubProcess, labels: dict[str, object], sentence: str
) -> None:
    client, run = team.client(), id_of(team, "open")
    kept = client.merge_labels(run, {"notes": "kept"}, {})
    with pytest.raises(HubError, match=re.escape(sentence)) as error:
        client.merge_labels(run, labels, kept)
    assert error.value.status == 400
    assert read_json(team.root / "p" / "open" / "labels.json")["notes"] == "kept"


def test_valid_labels_replace_a_damaged_file(team: HubProcess) -> None:
    stored = team.root / "p" / "open" / "labels.json"
    stored.write_text('{"name":5,"tags":[["x"]],"hidden":"no"}')
    team.client().merge_labels(id_of(team, "open"), {"tags": ["best"]}, {})
    assert read_json(stored) == {"tags": ["best"]}


@pytest.mark.parametrize("levels", [101, 900, 2000, 30_000])
def test_json_that_is_nested_too_deeply_is_refused_and_leaves_nothing(
    team: HubProcess, levels: int
) -> None:
    client, run = team.client(), id_of(team, "open")
    deep = b"[" * levels + b"]" * levels
    labels = team.root / "p" / "open" / "labels.json"
    before = labels.exists(), sorted((team.root / "p").iterdir())
    for method, path, body in (
        ("PUT", "/api/hub/runs/deep", b'{"id":"deep","name":"deep","project":"p","x":%s}' % deep),
        ("PUT", f"/api/hub/runs/{run}/labels", b'{"labels":{"x":%s},"base":{}}' % deep),
        ("PUT", f"/api/hub/runs/{run}/control/x", b'{"outcome":"","is_done":true,"x":%s}' % deep),
        ("PATCH", f"/api/runs/{run}/labels", b'{"name":%s}' % deep),
        ("PATCH", "/api/labels", b'{"runs":%s}' % deep),
        ("POST", "/api/trash", b'{"runs":%s}' % deep),
        ("POST", "/api/trash/restore", b'{"keys":%s}' % deep),
        ("POST", f"/api/runs/{run}/control", b'{"action":%s}' % deep),
    ):
        with pytest.raises(HubError) as error:
            client.request(method, path, body=body, headers={"content-type": "application/json"})
        assert error.value.status == 400, path
    assert (labels.exists(), sorted((team.root / "p").iterdir())) == before


def test_json_with_as_many_levels_as_can_be_read_again_is_stored(team: HubProcess) -> None:
    deep: list[object] = []
    for _ in range(98):
        deep = [deep]
    team.client().register("levels", {"id": "levels", "name": "x", "project": "p", "x": deep})
    assert team.client().state("levels").identity["x"] == deep


def test_a_link_shows_its_run_and_nothing_else(team: HubProcess) -> None:
    run, secret = id_of(team, "open"), id_of(team, "secret")
    link = Links(FolderDocuments(team.root)).make([run], until=time.time() + 60)
    client = team.client(link)
    assert names(client) == ["open"]
    assert client.get_json(f"/api/runs/{run}/config") == {}
    assert refused(lambda: client.request("GET", f"/api/runs/{secret}")) == 404
    assert refused(lambda: client.request("GET", f"/api/hub/runs/{secret}")) == 404
    assert refused(lambda: client.append(run, "loop.0001.0000", first=0, lines=b"{}\n")) == 403


def test_a_link_changes_nothing(team: HubProcess) -> None:
    run = id_of(team, "open")
    client = team.client(Links(FolderDocuments(team.root)).make([run], until=time.time() + 60))
    sent = {"content-type": "application/json"}
    chosen = b'{"runs":["%s"]}' % run.encode()
    for method, path, body in (
        ("PATCH", f"/api/runs/{run}/labels", b'{"name":"mine"}'),
        ("POST", "/api/trash", chosen),
        ("POST", "/api/trash/restore", b'{"keys":[]}'),
        ("POST", f"/api/runs/{run}/control", b'{"action":"stop"}'),
        ("POST", f"/api/hub/runs/{run}/control/take", b""),
        ("PUT", f"/api/hub/runs/{run}/labels", b'{"labels":{},"base":{}}'),
        ("PUT", f"/api/hub/runs/{run}", b'{"id":"%s","name":"x","project":"p"}' % run.encode()),
    ):
        ask = functools.partial(client.request, method, path, body=body, headers=sent)
        assert refused(ask) == 403, path
    assert (team.root / "p" / "open").is_dir()


def test_a_link_ends_while_it_is_used(team: HubProcess) -> None:
    run = id_of(team, "open")
    for lasts_s in (3, 30, 120):  # on a busy machine a request may take longer than a short link
        until = time.time() + lasts_s
        client = team.client(Links(FolderDocuments(team.root)).make([run], until=until))
        with contextlib.suppress(HubError):
            assert names(client) == ["open"]
            break
    else:
        pytest.fail("no link was valid")
    time.sleep(max(0.0, until + 0.1 - time.time()))
    assert refused(lambda: client.get_json("/api/runs")) == 401


def test_a_forged_or_ended_link_is_refused(team: HubProcess) -> None:
    team.kill()  # a new process has counted no wrong tokens of this address yet
    team.start()
    run = id_of(team, "open")
    links = Links(FolderDocuments(team.root))
    good = links.make([run], until=time.time() + 60)
    ended = Links(FolderDocuments(team.root), clock=lambda: time.time() - 1000).make(
        [run], until=time.time() - 500
    )
    body, _, signature = good.partition(".")
    forged = links.make([run, id_of(team, "secret")], until=time.time() + 60).partition(".")[0]
    for bad in (ended, f"{forged}.{signature}", body, good + "x", "share_", "share_x.y"):
        assert refused(lambda bad=bad: team.client(bad).request("GET", "/api/runs")) == 401
    odd = {"authorization": "Bearer share_é.é"}  # our own client would not send it
    unnamed = HubClient(team.url)
    with contextlib.closing(unnamed):
        assert refused(lambda: unnamed.request("GET", "/api/runs", headers=odd)) == 401
    links.revoke_all()
    time.sleep(1.1)  # the hub reads its key again every second
    assert refused(lambda: team.client(good).request("GET", "/api/runs")) == 401


def journal_of(hub: HubProcess, project: str, name: str) -> dict[str, bytes]:
    folder = hub.root / project / name / "journal"
    return {path.name: path.read_bytes() for path in folder.iterdir()}
