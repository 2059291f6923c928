from __future__ import annotations

import math
import sqlite3
from pathlib import Path

from tests.imports.samples import TRACKIO, opened, records_in, values_of

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
