"""``wandb.Api`` over the local store, and sweeps on this machine."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import epochal.wandb as wandb
from epochal.wandb import notices


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EPOCHAL_COMPANION", "off")
    notices._SAID.clear()
    yield tmp_path
    wandb.teardown()


def add_run(name: str, lr: float, losses: list[float], **options: Any) -> str:
    with wandb.init(project="p", name=name, config={"lr": lr, "m": {"d": 2}}, **options) as run:
        for loss in losses:
            run.log({"loss": loss})
        run.summary["best"] = min(losses)
    return str(run.id)


@pytest.fixture
def three_runs() -> list[str]:
    return [
        add_run("a", 0.1, [3.0, 2.0], tags=["x"], group="g"),
        add_run("b", 0.2, [3.0, 1.0], tags=["x", "y"], job_type="eval"),
        add_run("c", 0.3, [3.0, 4.0], entity="me"),
    ]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (None, "abc"),
        ({}, "abc"),
        ({"config.lr": 0.2}, "b"),
        ({"config.lr": {"$gte": 0.2}}, "bc"),
        ({"config.m.d": 2, "config.lr": {"$lt": 0.3}}, "ab"),
        ({"config.missing": {"$exists": True}}, ""),
        ({"summary_metrics.loss": {"$lt": 2.5}}, "ab"),
        ({"summary_metrics.best": {"$in": [1.0, 3.0]}}, "bc"),
        ({"tags": "x"}, "ab"),
        ({"tags": {"$in": ["y"]}}, "b"),
        ({"$or": [{"display_name": "a"}, {"entity": "me"}]}, "ac"),
        ({"$and": [{"tags": "x"}, {"jobType": "eval"}]}, "b"),
        ({"display_name": {"$regex": "^[ab]"}}, "ab"),
        ({"display_name": {"$ne": "a"}}, "bc"),
        ({"group": "g", "state": "finished"}, "a"),
        ({"created_at": {"$gt": "2020-01-01T00:00:00"}}, "abc"),
        ({"created_at": {"$lt": "2020-01-01"}}, ""),
    ],
)
def test_filters_select_runs(
    filters: dict[str, Any] | None, expected: str, three_runs: list[str]
) -> None:
    found = wandb.Api().runs("anyone/p", filters=filters)
    assert "".join(run.name for run in found) == expected
    assert len(found) == len(expected)


def test_orders_and_projects(three_runs: list[str]) -> None:
    api = wandb.Api()
    assert [run.name for run in api.runs("p", order="-config.lr")] == ["c", "b", "a"]
    assert [run.name for run in api.runs("p", order="+summary_metrics.loss")] == ["b", "a", "c"]
    assert [run.name for run in api.runs("p", order="-created_at")] == ["c", "b", "a"]
    assert not api.runs("another")
    assert [project.name for project in api.projects()] == ["p"]
    with pytest.raises(wandb.UsageError, match="is not known"):
        api.runs("p", filters={"confg.lr": 1})


def test_a_run_of_the_store_has_config_summary_and_history(three_runs: list[str]) -> None:
    run = wandb.Api().run(f"me/p/{three_runs[1]}")
    assert (run.name, run.state, run.job_type, run.tags) == ("b", "finished", "eval", ["x", "y"])
    assert (run.config["lr"], run.summary["loss"], run.summary["best"]) == (0.2, 1.0, 1.0)
    assert run.lastHistoryStep == 1
    rows = run.history(pandas=False)
    assert [(row["_step"], row["loss"]) for row in rows] == [(0, 3.0), (1, 1.0)]
    assert [row["loss"] for row in run.scan_history(keys=["loss"], min_step=1)] == [1.0]
    assert not list(run.scan_history(keys=["missing"]))
    with pytest.raises(wandb.CommError, match="Could not find run"):
        wandb.Api().run("p/missing")


def test_labels_are_changed_through_the_api(three_runs: list[str]) -> None:
    run = wandb.Api().run(three_runs[0])
    run.name, run.notes = "renamed", "noted"
    run.tags.append("z")
    run.update()
    again = wandb.Api().run(three_runs[0])
    assert (again.name, again.notes, again.tags) == ("renamed", "noted", ["x", "z"])


def test_rows_of_the_history_have_their_texts(here: Path) -> None:
    with wandb.init(project="said") as run:
        run.log({"loss": 0.5, "word": "cat"})
        run.log({"loss": 0.25})
    (read,) = wandb.Api().runs("said")
    rows = [{k: row[k] for k in row if k[0] != "_"} for row in read.scan_history()]
    assert rows == [{"loss": 0.5, "word": "cat"}, {"loss": 0.25}]
    assert [row["word"] for row in read.scan_history(keys=["loss", "word"])] == ["cat"]


def test_a_run_of_the_store_waits_and_lists_its_artifacts(here: Path) -> None:
    (here / "weights.bin").write_bytes(b"123")
    with wandb.init(project="kept", config={"lr": 0.1}) as run:
        run.log_artifact("weights.bin", name="model", type="weights")
    (read,) = wandb.Api().runs("kept")
    read.wait_until_finished()
    assert read.state == "finished"
    assert [(one.name, one.type) for one in read.logged_artifacts()] == [("model:v0", "weights")]


@pytest.mark.parametrize("member", ["automations", "create_project", "reports"])
def test_a_member_that_is_missing_is_one_sentence(member: str) -> None:
    sentence = f"epochal.wandb has no Api.{member}: docs/how-to/from-wandb.md lists what it has."
    with pytest.raises(AttributeError, match=re.escape(sentence)):
        getattr(wandb.Api(), member)
    with pytest.raises(AttributeError, match=r"has no Table\.set_pk"):
        wandb.Table().set_pk("a")


def test_names_of_variables() -> None:
    assert (wandb.env.API_KEY, wandb.env.PROJECT) == ("WANDB_API_KEY", "WANDB_PROJECT")


# -- sweeps ---------------------------------------------------------------------------------------


def test_a_grid_tries_every_combination_once() -> None:
    tried = []

    def train() -> None:
        with wandb.init(config={"lr": 9, "depth": 1}) as run:
            tried.append((run.config.lr, run.config.net["width"]))
            run.log({"loss": run.config.lr * run.config.net["width"]})

    sweep_id = wandb.sweep(
        {
            "method": "grid",
            "metric": {"name": "loss", "goal": "minimize"},
            "parameters": {
                "lr": {"values": [1.0, 2.0]},
                "net": {"parameters": {"width": {"values": [3, 4]}}},
            },
        },
        project="swept",
    )
    wandb.agent(sweep_id, function=train)
    assert tried == [(1.0, 3), (1.0, 4), (2.0, 3), (2.0, 4)]
    found = wandb.Api().sweep(sweep_id)
    assert len(found.runs) == 4
    best = found.best_run()
    assert best is not None
    assert best.summary["loss"] == 3.0
    assert {run.project for run in found.runs} == {"swept"}
    assert best.sweep is not None
    assert best.sweep.id == sweep_id


def test_random_draws_within_its_bounds_and_stops_at_the_count() -> None:
    drawn = []

    def train() -> None:
        with wandb.init() as run:
            drawn.append(run.config.as_dict())

    sweep_id = wandb.sweep(
        {
            "method": "random",
            "parameters": {
                "lr": {"distribution": "log_uniform_values", "min": 1e-4, "max": 1e-1},
                "n": {"min": 1, "max": 3},
                "q": {"distribution": "q_uniform", "min": 0, "max": 1, "q": 0.25},
                "fixed": {"value": "f"},
                "kind": {"values": ["a", "b"], "probabilities": [0.0, 1.0]},
            },
        }
    )
    wandb.agent(sweep_id, train, count=5)
    assert len(drawn) == 5
    assert all(1e-4 <= one["lr"] <= 1e-1 and one["n"] in (1, 2, 3) for one in drawn)
    assert all(one["q"] % 0.25 == 0 and one["kind"] == "b" for one in drawn)
    assert len({one["lr"] for one in drawn}) == 5


@pytest.mark.parametrize("method", ["random", "grid"])
@pytest.mark.parametrize(("q", "kind"), [(8, int), (0.5, float), (None, int)])
def test_an_integer_q_makes_integers_as_in_wandb(
    here: Path, method: str, q: float | None, kind: type
) -> None:
    spec = {"distribution": "q_uniform", "min": 32.0, "max": 64, **({} if q is None else {"q": q})}
    drawn: list[Any] = []

    def train() -> None:
        with wandb.init() as run:
            drawn.append(run.config["batch_size"])

    sweep_id = wandb.sweep({"method": method, "parameters": {"batch_size": spec}})
    wandb.agent(sweep_id, train, count=4)
    assert [type(value) for value in drawn] == [kind] * 4
    assert all(32 <= value <= 64 and value % (q or 1) == 0 for value in drawn)


def test_a_value_of_the_sweep_cannot_be_changed_by_the_script() -> None:
    seen = []

    def train() -> None:
        run = wandb.init(config={"lr": 5})
        run.config.update({"lr": 7}, allow_val_change=True)
        seen.append(run.config.lr)

    wandb.agent(wandb.sweep({"method": "grid", "parameters": {"lr": {"values": [1]}}}), train)
    assert seen == [1]
    assert wandb.run is None


def test_failing_runs_end_an_agent(capfd: pytest.CaptureFixture[str]) -> None:
    calls = []

    def train() -> None:
        calls.append(wandb.init().id)
        raise RuntimeError("no data")

    config = {"method": "random", "parameters": {"x": {"min": 0.0, "max": 1.0}}}
    wandb.agent(wandb.sweep(config), train, count=9)
    assert len(calls) == 3
    assert {run.state for run in wandb.Api().runs()} == {"failed"}
    assert "no data" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ({"method": "bayes", "parameters": {"x": {"value": 1}}}, "not bayes"),
        ({"method": "grid"}, "needs 'parameters'"),
        (
            {"method": "grid", "parameters": {"x": {"min": 0.0, "max": 1.0}}},
            "a grid needs 'values'",
        ),
        ({"method": "random", "parameters": {"x": {}}}, "needs 'value'"),
    ],
)
def test_a_sweep_that_cannot_work_is_refused(config: dict[str, Any], sentence: str) -> None:
    with pytest.raises(wandb.UsageError, match=sentence):
        wandb.sweep(config)


def test_an_agent_runs_the_program_of_a_sweep(here: Path) -> None:
    (here / "train.py").write_text(
        "import argparse, wandb\n"
        "parser = argparse.ArgumentParser()\n"
        "parser.add_argument('--lr', type=float)\n"
        "run = wandb.init(config=parser.parse_args())\n"
        "run.log({'loss': run.config.lr * 2})\n"
    )
    sweep_id = wandb.sweep(
        {"method": "grid", "program": "train.py", "parameters": {"lr": {"values": [0.5, 1.5]}}}
    )
    command = [sys.executable, "-m", "epochal.wandb", "agent", sweep_id]
    assert subprocess.run(command, check=False).returncode == 0
    runs = wandb.Api().sweep(sweep_id).runs
    assert sorted(run.summary["loss"] for run in runs) == [1.0, 3.0]
