from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from epochal.server import groups
from tests.server.live import Server
from tests.store.journals import Journal

VALUES = {1e-3: [0.90, 0.91, 0.92], 3e-3: [0.70, 0.72, 0.71]}


@pytest.fixture(autouse=True)
def root(tmp_path: Path) -> Path:
    for lr, values in VALUES.items():
        for seed, value in enumerate(values):
            journal = Journal(tmp_path, f"{lr}-{seed}", config={"lr": lr, "seed": seed})
            for step in range(100):
                journal.metrics(step, acc=value * step / 99)
            journal.finish()
    return tmp_path


def test_a_table_has_means_members_and_a_verdict(server: Server) -> None:
    found = server.ask("/api/groups", metric="acc", all_but="seed").json
    assert (found["keys"], found["repeats"], found["runs"]) == (["lr"], ["seed"], 6)
    (table,) = found["tables"]
    assert [row["mean"] for row in table["rows"]] == pytest.approx([0.91, 0.71])
    assert (table["best"], table["goal"], len(table["rows"][0]["members"])) == (0, "max", 3)
    (difference,) = table["differences"]
    assert (difference["winner"], difference["is_paired"], difference["units"]) == (0, True, 3)
    assert table["verdict"].startswith("lr=0.001 is best: acc 0.9100")


def test_metrics_that_no_run_has_are_absent(server: Server) -> None:
    found = server.ask("/api/groups", metric=["acc", "nothing"], by="lr").json
    assert [one["metric"] for one in found["tables"]] == ["acc"]
    assert found["absent"] == ["nothing"]
    answer = server.ask("/api/importance", metric="nothing")
    assert (answer.status, "nothing" in answer.json["error"]) == (404, True)


def test_curves_are_thinned_bounded_and_have_the_asked_columns(server: Server) -> None:
    asked: dict[str, Any] = {"metric": "acc", "by": "lr", "points": 10, "column": ["mean", "std"]}
    found = server.ask("/api/group_curves", **asked).json
    assert (found["lowest"], found["highest"], found["x"]) == (0.0, 1.0, "step")
    assert found["groups"] == 2
    first = found["curves"][0]
    assert list(first["columns"]) == ["mean", "std"]
    assert len(first["at"]) == len(first["n"]) == len(first["columns"]["mean"]) == 11
    assert first["columns"]["mean"][-1] == pytest.approx(0.91)
    zoomed = server.ask("/api/group_curves", **asked, lo=10, hi=14).json["curves"][0]
    assert zoomed["at"] == [10, 11, 12, 13, 14]


def test_a_formula_has_tables_and_curves(server: Server) -> None:
    text = "100 * acc"
    (table,) = server.ask("/api/groups", metric=text, by="lr").json["tables"]
    assert (table["metric"], table["rows"][0]["mean"]) == (text, pytest.approx(91))
    found = server.ask("/api/group_curves", metric=text, by="lr", x="progress").json
    assert (found["metric"], found["x"]) == (text, "progress")
    assert (found["curves"][0]["at"][-1], found["curves"][0]["n"][-1]) == (100, 3)
    answer = server.ask("/api/group_curves", metric="acc - nothing", by="lr")
    assert (answer.status, "needs a metric 'nothing'" in answer.json["error"]) == (404, True)


def test_runs_are_chosen_by_id_and_query_and_all_without_a_key_are_one(server: Server) -> None:
    ids = ["id-0.001-0", "id-0.003-0", "id-gone"]
    (table,) = server.ask("/api/groups", metric="acc", by="lr", run=ids).json["tables"]
    assert [row["n"] for row in table["rows"]] == [1, 1]
    (table,) = server.ask("/api/groups", metric="acc", query="config.seed > 0").json["tables"]
    assert [(row["label"], row["n"]) for row in table["rows"]] == [("all runs", 4)]


@pytest.mark.parametrize(
    ("path", "asked", "status", "words"),
    [
        ("/api/groups", {"by": "lr"}, 400, "metric= is missing"),
        ("/api/groups", {"metric": "acc", "by": "wd"}, 400, "none of the 6 runs has 'wd'"),
        ("/api/groups", {"metric": "acc", "by": "lr", "all_but": "seed"}, 400, "either"),
        ("/api/groups", {"metric": "acc", "by": "lr", "query": "step > 999"}, 404, "no run"),
        ("/api/group_curves", {"metric": "acc", "column": "mode"}, 400, "column='mode'"),
        ("/api/group_curves", {"metric": "acc", "lo": 2, "hi": 1}, 400, "must not be above"),
        ("/api/importance", {"metric": "acc", "pair": "lr"}, 400, "two keys"),
        ("/api/importance", {"metric": "acc", "value": "first"}, 400, "use one of last"),
    ],
)
def test_mistakes_are_sentences(
    server: Server, path: str, asked: dict[str, Any], status: int, words: str
) -> None:
    answer = server.ask(path, **asked)
    assert answer.status == status
    assert words in answer.json["error"]


def test_of_very_many_groups_the_largest_have_curves(root: Path, server: Server) -> None:
    for number in range(105):
        journal = Journal(root, f"one-{number}", config={"lr": 5.0 + number, "seed": 0})
        journal.metrics(1, acc=0.5).finish()
    found = server.ask("/api/group_curves", metric="acc", by="lr").json
    assert (found["groups"], len(found["curves"])) == (107, 100)
    assert [one["members"] for one in found["curves"][:3]] == [3, 3, 1]


def test_too_many_runs_are_refused_and_not_cut(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "MAX_RUNS", 5)
    answer = server.ask("/api/groups", metric="acc", by="lr")
    assert answer.status == 400
    assert "6 runs are too many" in answer.json["error"]
