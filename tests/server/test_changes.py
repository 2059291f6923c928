"""Changes of many runs at once: labels, the trash, and what an undo needs."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from epochal.store.local.catalog import folder_store
from tests.server.live import Answer, Server, serving
from tests.store.journals import Journal

JSON = {"Content-Type": "application/json"}


def post(server: Server, path: str, body: Any, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return server.ask(
        path, method="POST", body=json.dumps(body).encode(), headers={**JSON, **named}
    )


def names(server: Server) -> set[str]:
    return {row["name"] for row in server.ask("/api/runs").json["rows"]}


def test_many_runs_are_tagged_and_the_answer_says_what_they_had(
    tmp_path: Path, server: Server
) -> None:
    Journal(tmp_path, "a", tags=["old"]).finish()
    Journal(tmp_path, "b").finish()
    change = {"add_tags": ["new"], "remove_tags": ["old"], "hidden": True}
    answer = server.patch("/api/labels", {"runs": ["id-a", "id-b", "gone"], "change": change})
    assert [(one["id"], one["labels"]["tags"]) for one in answer.json["changed"]] == [
        ("id-a", ["old"]),
        ("id-b", []),
    ]
    assert [one["id"] for one in answer.json["refused"]] == ["gone"]
    rows = {row["name"]: row for row in server.ask("/api/runs").json["rows"]}
    assert all(row["tags"] == ["new"] and row["hidden"] for row in rows.values())


def test_each_run_may_have_a_change_of_its_own(tmp_path: Path, server: Server) -> None:
    Journal(tmp_path, "a").finish()
    Journal(tmp_path, "b").finish()
    server.patch("/api/labels", {"changes": {"id-a": {"notes": "1"}, "id-b": {"notes": "2"}}})
    rows = {row["name"]: row["notes"] for row in server.ask("/api/runs").json["rows"]}
    assert rows == {"a": "1", "b": "2"}


def test_a_query_chooses_the_runs(tmp_path: Path, server: Server) -> None:
    for name, lr in (("a", 1), ("b", 2), ("c", 3)):
        Journal(tmp_path, name, config={"lr": lr}).metrics(1, a=1).finish()
    answer = server.patch("/api/labels", {"query": "config.lr > 1", "change": {"add_tags": ["t"]}})
    assert {one["id"] for one in answer.json["changed"]} == {"id-b", "id-c"}


def test_a_query_chooses_all_runs_but_those_excluded(tmp_path: Path, server: Server) -> None:
    for name in "abcd":
        Journal(tmp_path, name).metrics(1, a=1).finish()
    body = {"query": "step >= 1", "exclude": ["id-b", "gone"]}
    answer = server.patch("/api/labels", {**body, "change": {"add_tags": ["t"]}})
    assert {one["id"] for one in answer.json["changed"]} == {"id-a", "id-c", "id-d"}
    removed = post(server, "/api/trash", body).json["removed"]
    assert {one["id"] for one in removed} == {"id-a", "id-c", "id-d"}
    assert names(server) == {"b"}


def test_a_deleted_run_comes_back_with_an_undo(tmp_path: Path, server: Server) -> None:
    Journal(tmp_path, "a").metrics(1, loss=2.0).finish()
    Journal(tmp_path, "b").finish()
    removed = post(server, "/api/trash", {"runs": ["id-a"]}).json["removed"]
    assert names(server) == {"b"}
    assert [run["name"] for run in server.ask("/api/trash").json["runs"]] == ["a"]
    answer = post(server, "/api/trash/restore", {"keys": [run["key"] for run in removed]})
    assert answer.json == {"restored": ["id-a"], "refused": []}
    assert names(server) == {"a", "b"}
    again = post(server, "/api/trash/restore", {"keys": [removed[0]["key"]]}).json
    assert again["refused"][0]["reason"] == "it is no longer in the trash."


def test_a_live_run_is_refused_and_the_others_go(tmp_path: Path, server: Server) -> None:
    Journal(tmp_path, "live").metrics(1, loss=2.0)
    Journal(tmp_path, "done").finish()
    answer = post(server, "/api/trash", {"runs": ["id-live", "id-done"]}).json
    assert [run["id"] for run in answer["removed"]] == ["id-done"]
    assert "a live run cannot be deleted" in answer["refused"][0]["reason"]
    assert names(server) == {"live"}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/trash", {}),
        ("/api/trash", {"runs": ["x"], "query": "step > 0"}),
        ("/api/trash", {"runs": ["x"], "exclude": ["y"]}),
        ("/api/trash", {"folder": "/"}),
        ("/api/trash/restore", {"keys": 5}),
    ],
)
def test_a_body_that_names_no_runs_is_refused(
    tmp_path: Path, server: Server, path: str, body: object
) -> None:
    Journal(tmp_path).finish()
    assert post(server, path, body).status == 400
    assert names(server) == {"x"}


def test_a_page_of_another_site_cannot_delete_or_change(tmp_path: Path, server: Server) -> None:
    Journal(tmp_path).finish()
    evil = {"Origin": "http://evil.example", "Sec_Fetch_Site": "cross-site"}
    assert post(server, "/api/trash", {"runs": ["id-x"]}, **evil).status == 403
    assert post(server, "/api/trash/restore", {"keys": []}, **evil).status == 403
    body = {"runs": ["id-x"], "change": {"hidden": True}}
    assert server.patch("/api/labels", body, **evil).status == 403
    plain = server.ask("/api/trash", method="POST", body=b"{}", headers={"Origin": "null"})
    assert plain.status == 403
    form = server.ask(
        "/api/trash", method="POST", body=b"{}", headers={"Content-Type": "text/plain"}
    )
    assert form.status == 415
    assert names(server) == {"x"}


def test_changes_need_the_token(tmp_path: Path) -> None:
    Journal(tmp_path).finish()
    with serving(tmp_path, token="a-token-of-some-length") as server:
        assert post(server, "/api/trash", {"runs": ["id-x"]}).status == 401
        assert server.patch("/api/labels", {"runs": [], "change": {}}).status == 401
        assert server.ask("/api/trash").status == 401
    assert [run.info.name for run in folder_store(tmp_path).runs()] == ["x"]


def test_a_note_that_somebody_changed_meanwhile_is_kept(tmp_path: Path, server: Server) -> None:
    Journal(tmp_path, notes="first").finish()
    path = "/api/runs/id-x/labels"
    assert server.patch(path, {"notes": "mine", "notes_before": "first"}).status == 200
    late = server.patch(path, {"notes": "yours", "notes_before": "first"})
    assert late.status == 409
    assert "somebody else has changed the note" in late.json["error"]
    assert server.ask("/api/runs/id-x").json["labels"]["notes"] == "mine"


def test_the_overview_counts_runs_and_finds_the_best(tmp_path: Path, server: Server) -> None:
    Journal(tmp_path, "a", owner="ann").metrics(1, loss=2.0).metrics(2, loss=3.0).finish()
    Journal(tmp_path, "b", owner="bob").metrics(1, loss=2.5).finish("failed")
    Journal(tmp_path, "live").metrics(1, loss=7.0)
    Journal(tmp_path, "other", project="q").finish()
    projects = {row["name"]: row for row in server.ask("/api/projects").json["projects"]}
    assert set(projects) == {"p", "q"}
    row = projects["p"]
    assert (row["runs"], row["running"], row["owners"]) == (3, ["id-live"], ["ann", "bob"])
    assert row["states"] == {"finished": 1, "failed": 1, "running": 1}
    assert row["best"] == {"role": "loss", "value": 2.0, "run": "id-a", "name": "a"}
    assert projects["q"]["best"] is None


def test_a_live_run_says_where_it_runs_and_what_it_does(tmp_path: Path, server: Server) -> None:
    journal = Journal(tmp_path, host="node7").metrics(1, loss=2.0)
    for phase in ("warm-up", "converging"):
        journal.add({"log": "event", "name": "phase", "phase": phase}, writer="findings")
    Journal(tmp_path, "done", host="node8").finish()
    rows = {row["name"]: row for row in server.ask("/api/runs").json["rows"]}
    assert (rows["x"]["host"], rows["x"]["phase"]) == ("node7", "converging")
    assert (rows["done"]["host"], rows["done"]["phase"]) == (None, None)


def test_of_phases_that_are_written_at_one_time_the_last_counts(
    tmp_path: Path, server: Server
) -> None:
    journal, now = Journal(tmp_path).metrics(1, loss=2.0), time.time()
    said = [{"log": "event", "t": now, "name": "phase", "phase": one} for one in ("a", "b", "c")]
    journal.add(*said, writer="findings")
    assert server.ask("/api/runs").json["rows"][0]["phase"] == "c"
