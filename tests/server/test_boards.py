"""Boards over HTTP: listed, saved and deleted, and runs saved as one file with them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from epochal.journal.boards import Block, Board, save_board
from tests.server.live import Answer, Server, serving
from tests.store.journals import Journal

JSON = {"Content-Type": "application/json"}


def post(server: Server, path: str, body: Any, **headers: str) -> Answer:
    sent = json.dumps(body).encode()
    return server.ask(path, method="POST", body=sent, headers={**JSON, **headers})


def names(server: Server, project: str = "p") -> list[str]:
    found = server.ask("/api/boards", project=project).json["boards"]
    return [stored["board"]["name"] for stored in found]


def test_a_board_is_saved_changed_and_deleted(tmp_path: Path) -> None:
    Journal(tmp_path).metrics(1, loss=1.0).finish()
    board = {"name": "b", "blocks": [{"kind": "chart", "series": ["loss"], "width": 12}]}
    with serving(tmp_path) as server:
        assert server.ask("/api/boards").json == {"boards": []}
        first = post(server, "/api/boards", {"project": "p", "board": board, "revision": None})
        assert (first.status, first.json["board"]) == (200, board)
        assert server.ask("/api/boards", project="p").json["boards"] == [first.json]
        assert names(server, project="q") == []

        changed = {"project": "p", "board": {**board, "x": "epoch"}, "revision": "old"}
        again = post(server, "/api/boards", changed)
        assert again.status == 409
        assert "copy" in again.json["error"]
        assert post(server, "/api/boards", {**changed, "revision": None}).status == 409
        kept = post(server, "/api/boards", {**changed, "revision": first.json["revision"]}).json

        gone = {"project": "p", "name": "b", "revision": first.json["revision"]}
        assert post(server, "/api/boards/delete", gone).status == 409
        unnamed = post(server, "/api/boards/delete", {**gone, "revision": None})
        assert (unnamed.status, "name the revision" in unnamed.json["error"]) == (400, True)
        gone["revision"] = kept["revision"]
        assert post(server, "/api/boards/delete", gone).status == 200
        assert post(server, "/api/boards/delete", gone).status == 404
        assert names(server) == []


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"project": "nobody", "board": {"name": "b"}}, 404),
        ({"project": "p/../..", "board": {"name": "b"}}, 404),
        ({"project": "p", "board": {"name": "b", "x": "eval/loss"}}, 400),
        ({"project": "p", "board": {"name": ""}}, 400),
        ({"project": "p", "board": {"name": "b", "blocks": [{"kind": "pie"}]}}, 400),
        ({"project": "p", "board": {"name": "b", "query": "x" * 70_000}}, 400),
        ({"project": "p", "board": {"name": "b", "query": "x" * 140_000}}, 413),
    ],
)
def test_a_board_that_cannot_be_saved_is_refused_in_a_sentence(
    tmp_path: Path, change: dict[str, Any], status: int
) -> None:
    Journal(tmp_path).metrics(1, loss=1.0).finish()
    with serving(tmp_path) as server:
        answer = post(server, "/api/boards", change)
        assert (answer.status, answer.json["error"][-1]) == (status, ".")
        assert names(server) == []


def test_changes_need_the_page_of_this_server_and_its_token(tmp_path: Path) -> None:
    Journal(tmp_path).metrics(1, loss=1.0).finish()
    change = {"project": "p", "board": {"name": "b"}}
    with serving(tmp_path) as server:
        assert post(server, "/api/boards", change, Origin="http://evil.example").status == 403
        wrong = {"Content-Type": "text/plain"}
        assert post(server, "/api/boards", change, **wrong).status == 415
    with serving(tmp_path, token="secret-token") as server:
        assert post(server, "/api/boards", change).status == 401
        assert server.ask("/api/boards").status == 401


def archived(answer: Answer) -> dict[str, Any]:
    match = re.search(rb'id="epochal-archive">(.*?)</script>', answer.body, re.DOTALL)
    assert match is not None, answer.body[:200]
    found: dict[str, Any] = json.loads(match[1])
    return found


def run_names(found: dict[str, Any]) -> list[str]:
    return sorted(row["name"] for row in found["runs"]["rows"])


def test_runs_and_boards_are_saved_as_one_page(tmp_path: Path) -> None:
    for name in "abc":
        Journal(tmp_path, name).metrics(1, loss=1.0).finish()
    Journal(tmp_path, "z", project="q").metrics(1, loss=1.0).finish()
    block = Block(kind="chart", series=["loss"])
    save_board(tmp_path / "p", "p", Board("some", [block], query='name != "b"'), None)
    save_board(tmp_path / "p", "p", Board("frozen", [block], runs=["id-b", "id-gone"]), None)
    with serving(tmp_path) as server:
        answer = server.ask("/api/export", board="some")
        assert 'filename="some.html"' in answer.headers["content-disposition"]
        found = archived(answer)
        assert (run_names(found), found["board"]) == (["a", "c"], "some")
        assert run_names(archived(server.ask("/api/export", board="frozen", project="p"))) == ["b"]

        chosen = archived(server.ask("/api/export", run=["id-a", "id-z"]))
        assert (run_names(chosen), chosen["board"]) == (["a", "z"], None)
        assert [one["board"]["name"] for one in chosen["boards"]] == ["frozen", "some"]
        asked = archived(server.ask("/api/export", query='project == "q"', board="some"))
        assert (run_names(asked), asked["board"]) == (["z"], "some")

        assert server.ask("/api/export").status == 400
        assert server.ask("/api/export", board="none").status == 404
        assert server.ask("/api/export", query="nonsense ==").status == 400
        assert server.ask("/api/export", run="nobody").status == 404
