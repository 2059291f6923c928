from __future__ import annotations

import json
import math
import shutil
import sqlite3
from pathlib import Path

from tests.exchange.imports.samples import TRACKIO, opened, records_in, values_of

FIRST, SECOND = opened(TRACKIO).runs()


def test_runs_say_who_they_are() -> None:
    identity = FIRST.identity
    assert (identity.name, identity.project) == ("first", "digits")
    assert identity.config == {"lr": 0.1, "model": {"layers": 2}}
    assert identity.id == FIRST.key.partition("/")[2]


def test_metrics_keep_steps_nesting_and_what_is_no_number() -> None:
    records = records_in(TRACKIO, FIRST.key)
    assert values_of(records, "nested.a") == [(i, i) for i in range(30)]
    assert math.isnan(values_of(records, "loss")[30][1])
    assert values_of(records, "best") == [(30, math.inf)]
    assert [r["text"] for r in records if r["log"] == "text"] == ["hello"]


def test_alerts_are_events() -> None:
    (alert,) = [r for r in records_in(TRACKIO, FIRST.key) if r["log"] == "event"]
    assert (alert["title"], alert["level"], alert["step"]) == ("hot", "warn", 30)


def test_steps_are_those_that_were_given() -> None:
    assert values_of(records_in(TRACKIO, SECOND.key), "loss")[1] == (10, 1.0)


def test_older_files_know_runs_by_name(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "old.db")
    connection.execute(
        "CREATE TABLE metrics (id INTEGER PRIMARY KEY, timestamp TEXT, run_name TEXT,"
        " step INTEGER, metrics TEXT)"
    )
    row = ("2025-01-01T00:00:00", "first", 3, '{"loss": 1.5}')
    connection.execute("INSERT INTO metrics VALUES (NULL, ?, ?, ?, ?)", row)
    connection.commit()
    connection.close()
    (run,) = opened(tmp_path).runs()
    assert (run.identity.name, run.identity.created) == ("first", 1735689600.0)
    assert values_of(records_in(tmp_path), "loss") == [(3, 1.5)]


def test_a_row_that_is_no_json_is_a_problem_and_the_rest_is_read(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "bad.db")
    connection.execute(
        "CREATE TABLE metrics (id INTEGER PRIMARY KEY, timestamp TEXT, run_name TEXT,"
        " step INTEGER, metrics TEXT)"
    )
    for text in ('{"loss": 1}', "{", '{"loss": 2}'):
        row = ("2025-01-01T00:00:00", "first", 0, text)
        connection.execute("INSERT INTO metrics VALUES (NULL, ?, ?, ?, ?)", row)
    connection.commit()
    connection.close()
    (run,) = opened(tmp_path).runs()
    (batch,) = run.read_new()
    assert [record["m"]["loss"] for record in batch.records] == [1, 2]
    assert "row 2 of metrics" in run.problems[0]


def test_what_our_sink_keeps_in_the_configuration_is_turned_back(tmp_path: Path) -> None:
    path = Path(shutil.copy(TRACKIO / "digits.db", tmp_path / "digits.db"))
    config = {"lr": 0.1, "_Group": "g", "epochal.job_type": "train", "epochal.notes": "a note"}
    config |= {"epochal.tags": ["a", "b"], "epochal.summary.best": 3}
    run_id = FIRST.key.partition("/")[2]
    with sqlite3.connect(path) as connection:
        given = (json.dumps(config), run_id)
        connection.execute("UPDATE configs SET config = ? WHERE run_id = ?", given)
    connection.close()
    (run,) = [run for run in opened(tmp_path).runs() if run.key == FIRST.key]
    assert run.identity.config == {"lr": 0.1}
    assert (run.identity.tags, run.identity.notes) == (("a", "b"), "a note")
    assert (run.identity.facts["group"], run.identity.facts["job_type"]) == ("g", "train")
    records = [record for batch in run.read_new() for record in batch.records]
    assert {r["name"]: r["value"] for r in records if r["log"] == "summary"} == {"best": 3}
