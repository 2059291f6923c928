"""A hub knows a run by its id: who is given its folder, or a link to it, sees nothing of others."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from epochal.hub.documents import FolderDocuments
from epochal.hub.ledger import Ledger, Links
from epochal.journal.layout import read_json
from epochal.store.local.catalog import folder_store
from tests.hub.hub_process import serving_hub
from tests.server.live import Answer, Server, until

SECRET = "of-another-run"
END = 4_000_000_000.0
STEM = "loop.0001.0000"


@dataclass
class Hub:
    """A hub in this process, and the tokens of people."""

    root: Path
    ledger: Ledger
    server: Server
    tokens: dict[str, str] = field(default_factory=dict)

    def ask(self, who: str, method: str, path: str, body: Any = None, **query: Any) -> Answer:
        raw = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"authorization": f"Bearer {self.tokens[who]}"}
        headers |= {} if raw is None else {"content-type": "application/json"}
        return self.server.ask(path, method=method, body=raw, headers=headers, **query)

    def register(self, run: str, name: str, *, project: str = "alpha", who: str = "alpha") -> int:
        identity = {"id": run, "name": name, "project": project, "config": {"key": SECRET}}
        return self.ask(who, "PUT", f"/api/hub/runs/{run}", identity).status

    def link(self, run: str) -> None:
        self.tokens["link"] = Links(FolderDocuments(self.root)).make([run], until=END)

    def delete(self, run: str, *, who: str = "alpha") -> str:
        (removed,) = self.ask(who, "POST", "/api/trash", {"runs": [run]}).json["removed"]
        return str(removed["key"])

    def restore(self, key: str, *, who: str = "alpha") -> None:
        assert self.ask(who, "POST", "/api/trash/restore", {"keys": [key]}).json["restored"]


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    root = tmp_path / "hub"
    with contextlib.closing(Ledger(root)) as ledger:
        tokens = {name: ledger.add_token(name, "write", [name]) for name in ("alpha", "beta")}
        tokens["admin"] = ledger.add_token("admin", "admin")
        with serving_hub(root, ledger) as server:
            yield Hub(root, ledger, server, tokens)


def test_a_link_and_a_sender_never_reach_the_run_that_has_their_folder_now(hub: Hub) -> None:
    assert hub.register("first", "same") == 200
    first = hub.delete("first")
    assert hub.register("second", "same") == 200
    hub.link("second")
    assert hub.ask("link", "GET", "/api/runs/second/config").status == 200
    hub.delete("second")
    hub.restore(first)
    before = (hub.root / "alpha" / "same" / "run.json").read_bytes()
    assert b'"first"' in before
    for path in ("/api/runs", "/api/runs/first/config", "/api/runs/second/config"):
        assert hub.ask("link", "GET", path).status == 404
    assert hub.ask("link", "GET", "/api/hub/runs/second").status == 404
    again = {"id": "second", "name": "same", "project": "alpha"}
    sent = hub.ask("alpha", "PUT", "/api/hub/runs/second", again, unless_removed="1")
    assert sent.status == 410
    line = b'{"log":"message","t":1,"text":"x"}\n'
    parts = f"/api/hub/runs/second/parts/{STEM}"
    assert hub.ask("alpha", "POST", parts, line, first="0").status == 404
    assert (hub.root / "alpha" / "same" / "run.json").read_bytes() == before
    assert hub.ask("alpha", "GET", "/api/hub/runs/first").status == 200  # it was restored


def test_a_stream_of_a_link_says_nothing_of_the_run_that_has_its_folder_now(hub: Hub) -> None:
    assert hub.register("first", "same") == 200
    hub.link("first")
    headers = {"authorization": f"Bearer {hub.tokens['link']}"}
    with hub.server.listen("/api/events", headers=headers) as events:
        until(events, "ready")
        hub.delete("first")
        assert hub.register("second", "same") == 200
        told = until(events, "runs", lambda data: "first" in json.dumps(data))
        assert "second" not in json.dumps(told.data)
        beat = next(event for event in events if event.name in ("heartbeat", "runs", "status"))
        assert "second" not in json.dumps(beat.data)


def test_a_store_of_some_runs_shows_no_other_in_their_folders(tmp_path: Path) -> None:
    place = tmp_path / "p" / "a"
    place.mkdir(parents=True)
    (place / "journal").mkdir()
    identity = {"id": "mine", "name": "a", "project": "p", "created": "2026-01-01T00:00:00Z"}
    (place / "run.json").write_text(json.dumps(identity))
    with folder_store(place, only={"mine"}) as store:
        assert [run.id for run in store.runs()] == ["mine"]
        (place / "run.json").write_text(json.dumps({**identity, "id": "other"}))
        assert store.find("mine") is None
        assert store.find("other") is None
        store.refresh()
        assert list(store.runs()) == []


def test_an_id_stays_with_its_project_while_its_run_is_in_the_trash(hub: Hub) -> None:
    assert hub.register("theirs", "one", project="beta", who="beta") == 200
    key = hub.delete("theirs", who="beta")
    assert hub.register("theirs", "mine") == 403
    hub.restore(key, who="beta")
    assert hub.ask("beta", "GET", "/api/hub/runs/theirs").status == 200
    assert hub.ask("alpha", "GET", "/api/hub/runs/theirs").status == 404


def test_the_folder_of_a_project_decides_on_the_page_and_for_senders(hub: Hub) -> None:
    moved = hub.root / "beta" / "one"  # a person moved it there
    (moved / "journal").mkdir(parents=True)
    identity = {"id": "moved", "name": "one", "project": "alpha"}
    (moved / "run.json").write_text(json.dumps(identity))
    for who, status in (("alpha", 404), ("beta", 200)):
        for path in ("/api/hub/runs/moved", "/api/runs/moved/config"):
            assert hub.ask(who, "GET", path).status == status, (who, path)
    assert hub.register("moved", "one") == 403


@pytest.mark.parametrize("what", ["run", "project"])
def test_links_out_of_the_folder_of_a_hub_are_not_followed(
    hub: Hub, tmp_path: Path, what: str
) -> None:
    outside = tmp_path / "outside"
    (outside / "run" / "journal").mkdir(parents=True)
    identity = {"id": "outside", "name": "run", "project": "alpha", "config": {"key": SECRET}}
    (outside / "run" / "run.json").write_text(json.dumps(identity))
    if what == "run":
        (hub.root / "alpha").mkdir()
        (hub.root / "alpha" / "link").symlink_to(outside / "run")
    else:
        (hub.root / "alpha").symlink_to(outside)
    for who in ("alpha", "admin"):
        for path in ("/api/hub/runs/outside", "/api/runs/outside/config", "/api/runs"):
            assert SECRET not in hub.ask(who, "GET", path, config="1").body.decode()
    assert hub.ask("admin", "GET", "/api/hub/runs/outside").status == 404
    assert read_json(outside / "run" / "run.json") == identity


def test_odd_names_are_refused_with_a_sentence(hub: Hub) -> None:
    assert hub.register("run", "one") == 200
    stem = f"loop.{'1' * 5000}.0001"
    assert hub.ask("alpha", "GET", f"/api/hub/runs/run/parts/{stem}").status == 400
    assert hub.register("latest", "two") == 400  # else it would stand for the newest run
    token = hub.tokens["alpha"]
    answer = hub.server.ask(
        f"/%E2%82%AC%0D%0Ax:y?token={token}", headers={"sec-fetch-dest": "document"}
    )
    assert answer.status in (303, 404)
    assert "x" not in answer.headers
