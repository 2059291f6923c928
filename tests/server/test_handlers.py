from __future__ import annotations

import json
import math
import os
import shutil
from pathlib import Path

import pytest

from tests.server.live import Server, serving
from tests.store.journals import Journal
from tests.store.sealing import seal_all


def test_runs_are_listed_newest_first(tmp_path: Path, server: Server) -> None:
    Journal(tmp_path, "a", created=1.0).metrics(5, loss=1.0)
    Journal(tmp_path, "b", created=2.0, config={"lr": 0.1}).metrics(7, loss=1.0).finish()
    answer = server.ask("/api/runs", config=1).json
    assert [(row["id"], row["step"]) for row in answer["rows"]] == [("id-b", 7), ("id-a", 5)]
    assert answer["total"] == 2
    assert answer["rows"][0]["config"] == {"lr": 0.1}
    assert answer["rows"][0]["status"]["state"] == "finished"


def test_a_page_of_runs_can_be_asked_for(tmp_path: Path, server: Server) -> None:
    for number in range(5):
        Journal(tmp_path, f"r{number}", created=float(number)).metrics(1, loss=1.0)
    answer = server.ask("/api/runs", offset=1, limit=2).json
    assert [row["name"] for row in answer["rows"]] == ["r3", "r2"]
    assert (answer["total"], answer["offset"]) == (5, 1)


def test_a_row_carries_the_summaries_asked_for(tmp_path: Path, server: Server) -> None:
    Journal(tmp_path).metrics(1, loss=3.0).metrics(2, loss=1.0).metrics(3, loss=math.nan)
    (row,) = server.ask("/api/runs", summary=["role:loss", "acc"]).json["rows"]
    summary = row["summaries"]["role:loss"]
    assert (summary["best"], summary["best_x"], summary["max"]) == (1.0, 2, 3.0)
    assert (summary["last"], summary["last_nonfinite"]) == (None, "nan")
    assert "acc" not in row["summary"]


def test_a_run_in_detail(tmp_path: Path, server: Server) -> None:
    journal = Journal(tmp_path, config={"lr": 0.1}, command=["train.py"])
    journal.add({"log": "gpu-model", "name": "H200", "id": 0})
    journal.add({"log": "define", "name": "loss", "unit": "nats"}).metrics(1, loss=2.0)
    detail = server.ask("/api/runs/id-x").json
    assert detail["config"] == {"lr": 0.1}
    assert detail["facts"]["command"] == ["train.py"]
    assert detail["hardware"] == [{"name": "H200", "id": 0}]
    assert detail["recorded"] == ["define", "gpu-model", "run"]
    assert detail["roles"] == {"loss": "loss"}
    (metric,) = detail["metrics"]
    assert (metric["name"], metric["unit"], metric["summary"]["last"]) == ("loss", "nats", 2.0)
    assert detail["position"] == "id-x:loop.1.0.3"
    assert server.ask("/api/runs/id-x/config").json == {"lr": 0.1}


def test_summaries_can_be_left_out(tmp_path: Path, server: Server) -> None:
    Journal(tmp_path).metrics(1, loss=2.0)
    (metric,) = server.ask("/api/runs/id-x", summary=0).json["metrics"]
    assert metric["summary"] is None


def test_an_answer_follows_the_run(tmp_path: Path, server: Server) -> None:
    journal = Journal(tmp_path).metrics(1, loss=2.0)
    assert server.ask("/api/runs/id-x").json["row"]["step"] == 1
    journal.metrics(2, loss=1.0)
    assert server.ask("/api/runs/id-x").json["row"]["step"] == 2


def test_labels_are_changed_and_the_rest_stays(tmp_path: Path, server: Server) -> None:
    journal = Journal(tmp_path).metrics(1, loss=2.0)
    server.patch("/api/runs/id-x/labels", {"name": "best", "tags": ["a", "a", ""]})
    answer = server.patch("/api/runs/id-x/labels", {"notes": "good"})
    expected = {"name": "best", "tags": ["a"], "notes": "good", "hidden": False}
    assert answer.json == expected
    stored = json.loads(journal.folder.labels.read_bytes())
    assert stored == {"name": "best", "tags": ["a"], "notes": "good"}
    assert server.patch("/api/runs/id-x/labels", {"name": None}).json["name"] is None


@pytest.mark.parametrize("body", [[], {"name": 5}, {"folder": "/"}, {"hidden": None}])
def test_what_are_no_labels_is_refused(tmp_path: Path, server: Server, body: object) -> None:
    Journal(tmp_path).metrics(1, loss=2.0)
    assert server.patch("/api/runs/id-x/labels", body).status == 400


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"name": "n" * 60_000}, "a name has at most 200 characters, not 60000."),
        ({"name": "a\nb"}, "a name must not hold a newline (character 2)."),
        ({"name": "a\x1b[31m"}, "a name must not hold the control character U+001B (character 2)."),
        ({"name": " a"}, "name must not begin or end with a space."),
        ({"name": "  "}, "name must not be empty; null gives back the first one."),
        ({"tags": ["a" * 101]}, "a tag has at most 100 characters, not 101."),
        ({"tags": ["a\u2028b"]}, "a tag must not hold the control character U+2028 (character 2)."),
        ({"tags": [str(n) for n in range(101)]}, "a run has at most 100 tags, not 101."),
        ({"notes": "n" * 20_001}, "a note has at most 20000 characters, not 20001."),
        ({"notes": "a\0"}, "a note must not hold the control character U+0000 (character 2)."),
    ],
)
def test_labels_that_no_list_can_show_are_refused(
    tmp_path: Path, server: Server, body: object, reason: str
) -> None:
    journal = Journal(tmp_path).metrics(1, loss=2.0)
    answer = server.patch("/api/runs/id-x/labels", body)
    assert (answer.status, answer.json) == (400, {"error": reason})
    assert not journal.folder.labels.exists()


def test_a_note_may_have_lines_and_a_name_any_letters(tmp_path: Path, server: Server) -> None:
    Journal(tmp_path).metrics(1, loss=2.0)
    body = {"name": "größe 実験 👩\u200d💻", "notes": "one\n\ttwo"}
    answer = server.patch("/api/runs/id-x/labels", body)
    assert (answer.json["name"], answer.json["notes"]) == (body["name"], body["notes"])


def test_an_old_name_that_would_be_refused_does_not_keep_tags_from_changing(
    tmp_path: Path, server: Server
) -> None:
    journal = Journal(tmp_path).metrics(1, loss=2.0)
    journal.folder.labels.write_text(json.dumps({"name": "a\nb"}))
    assert server.patch("/api/runs/id-x/labels", {"tags": ["new"]}).json["name"] == "a\nb"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_labels_that_cannot_be_stored_are_a_sentence(tmp_path: Path, server: Server) -> None:
    journal = Journal(tmp_path).metrics(1, loss=2.0)
    journal.folder.path.chmod(0o500)
    answer = server.patch("/api/runs/id-x/labels", {"name": "best"})
    journal.folder.path.chmod(0o700)
    assert answer.status == 409


def test_a_copied_folder_is_a_run_of_its_own(tmp_path: Path, server: Server) -> None:
    Journal(tmp_path, "a", id="same").metrics(1, loss=2.0)
    Journal(tmp_path, "b", id="same").metrics(7, loss=2.0)
    rows = {row["id"]: row["step"] for row in server.ask("/api/runs").json["rows"]}
    assert rows == {"same": 1, "same~2": 7}
    for run_id, step in rows.items():
        assert server.ask(f"/api/runs/{run_id}").json["row"]["step"] == step


def test_damaged_runs_are_listed_with_the_reason(tmp_path: Path, server: Server) -> None:
    Journal(tmp_path, "good").metrics(1, loss=1.0)
    broken = Journal(tmp_path, "broken").metrics(1, loss=1.0)
    broken.folder.identity.write_bytes(b'{"v":1,')
    newer = Journal(tmp_path, "newer", v=99)
    newer.metrics(1, loss=1.0)
    empty = tmp_path / "p" / "empty"
    (empty / "journal").mkdir(parents=True)
    torn = Journal(tmp_path, "torn")
    torn.path().write_bytes(b"\x00\xff\xfe not json\n" * 50)
    rows = {row["name"]: row for row in server.ask("/api/runs").json["rows"]}
    assert set(rows) == {"good", "broken", "newer", "empty", "torn"}
    assert rows["good"]["problem"] is None
    assert "run.json" in rows["broken"]["problem"]
    assert "newer" in rows["newer"]["problem"]
    for row in rows.values():
        assert server.ask(f"/api/runs/{row['id']}").status == 200
    assert server.ask("/metrics").status == 200
    assert server.ask("/healthz").json["faults"] == 0


def test_a_run_that_vanishes_is_no_longer_there(tmp_path: Path, server: Server) -> None:
    journal = Journal(tmp_path).metrics(1, loss=1.0)
    assert server.ask("/api/runs/id-x").status == 200
    shutil.rmtree(journal.folder.path)
    assert server.ask("/api/runs/id-x").status in (200, 404)
    assert server.ask("/healthz").json["faults"] == 0


@pytest.mark.parametrize("sealed", [False, True])
def test_a_run_deleted_while_it_is_viewed_is_no_fault(
    tmp_path: Path, server: Server, sealed: bool
) -> None:
    journal = Journal(tmp_path).metrics(1, loss=1.0)
    journal.add({"log": "text", "step": 1, "name": "t", "text": "hello"})
    if sealed:
        seal_all(tmp_path)
    assert server.ask("/api/runs/id-x").status == 200
    journal.folder.path.rename(tmp_path / ".gone")
    for path in ("", "/texts", "/records", "/log", "/config"):
        assert server.ask(f"/api/runs/id-x{path}").status in (200, 404, 503)
    assert server.ask("/api/series", run="id-x", name="loss").status == 200
    assert server.ask("/metrics").status == 200
    assert server.ask("/healthz").json["faults"] == 0


def test_two_servers_over_one_folder_answer_alike(tmp_path: Path, server: Server) -> None:
    journal = Journal(tmp_path).metrics(1, loss=1.0)
    with serving(tmp_path) as other:
        for step in (2, 3):
            journal.metrics(step, loss=1.0)
            bodies = [one.ask("/api/series", run="id-x", name="loss") for one in (server, other)]
            assert bodies[0].body == bodies[1].body
        assert server.patch("/api/runs/id-x/labels", {"name": "new"}).status == 200
        assert other.ask("/api/runs/id-x").json["row"]["name"] == "new"


def test_an_address_that_is_not_there_is_a_sentence(server: Server) -> None:
    answer = server.ask("/nowhere")
    assert (answer.status, answer.json) == (404, {"error": "not found."})


def test_the_page_is_served_with_a_tag(server: Server) -> None:
    answer = server.ask("/")
    assert b"<!doctype html>" in answer.body.lower()
    again = server.ask("/", headers={"If-None-Match": answer.headers["etag"]})
    assert again.status == 304


def test_nothing_lies_beside_the_api_on_an_unknown_query(server: Server) -> None:
    assert server.ask("/api/runs", query="name ==").status == 400
    assert server.ask("/api/runs", limit="many").status == 400


def test_the_list_is_windowed_and_counts_all(tmp_path: Path, server: Server) -> None:
    for number in range(7):
        Journal(tmp_path, f"r{number}", config={"lr": number % 2}).metrics(number, loss=number)
    answer = server.ask("/api/runs", query="config.lr == 1", order="-step", limit="2").json
    assert [row["name"] for row in answer["rows"]] == ["r5", "r3"]
    assert (answer["total"], answer["unsummarised"], answer["groups"]) == (3, 0, None)
    assert answer["rows"][0]["config"] == {}
    assert answer["rows"][0]["is_summarised"] is True
    rest = server.ask("/api/runs", query="config.lr == 1", order="-step", offset="2").json
    assert [row["name"] for row in rest["rows"]] == ["r1"]


def test_the_list_is_grouped_by_fields(tmp_path: Path, server: Server) -> None:
    for number in range(3):
        journal = Journal(tmp_path, f"r{number}", config={"lr": number % 2})
        journal.metrics(1, loss=number).finish()
    answer = server.ask("/api/runs", group="config.lr", order="name", summary="role:loss").json
    spread = {"count": 2, "mean": 1.0, "min": 0.0, "max": 2.0}
    even = {"values": [0], "count": 2, "states": {"finished": 2}, "last": {"role:loss": spread}}
    assert answer["groups"][0] == even
    assert [group["values"] for group in answer["groups"]] == [[0], [1]]
    assert server.ask("/api/runs", group="nonsense").status == 400


def test_a_large_run_is_listed_before_it_was_read(tmp_path: Path, server: Server) -> None:
    journal = Journal(tmp_path, "large")
    text = {"log": "text", "name": "t", "text": "x" * 100_000}
    journal.add(*[text] * 100).metrics(7, loss=0.5).finish()
    first = server.ask("/api/runs", summary="role:loss").json
    (row,) = first["rows"]
    assert (row["step"], row["status"]["state"], first["unsummarised"]) == (None, "finished", 1)
    assert server.ask(f"/api/runs/{row['id']}").json["row"]["step"] == 7  # that reads it
    second = server.ask("/api/runs", summary="role:loss").json
    assert (second["rows"][0]["records"], second["unsummarised"]) == (103, 0)
    assert second["rows"][0]["summaries"]["role:loss"]["last"] == 0.5
