from __future__ import annotations

import math
import shutil
import sqlite3
from pathlib import Path

from tests.exchange.imports.samples import MLFLOW, opened, records_in, values_of

FIRST, SECOND = opened(MLFLOW).runs()


def test_runs_say_who_they_are() -> None:
    identity = FIRST.identity
    assert (identity.name, identity.project, identity.notes) == ("first", "digits", "a note")
    assert identity.config == {"lr": 0.1, "layers": 2, "opt": "adam"}
    assert identity.tags == ("team=a",)
    assert identity.created == 1794712267.196


def test_metrics_keep_steps_times_and_values() -> None:
    records = records_in(MLFLOW, FIRST.key)
    assert values_of(records, "loss") == [(i, 1 / (i + 1)) for i in range(30)]
    assert records[0]["t"] == 1794712267.267


def test_what_mlflow_cannot_store_is_turned_back() -> None:
    odd = dict(values_of(records_in(MLFLOW, FIRST.key), "odd"))
    assert math.isnan(odd[1])
    assert (odd[2], odd[3]) == (math.inf, -math.inf)


def test_the_status_is_the_end() -> None:
    assert records_in(MLFLOW, FIRST.key)[-1]["status"] == "finished"
    assert records_in(MLFLOW, SECOND.key)[-1]["status"] == "failed"


def test_new_rows_and_deleted_runs_show_with_the_next_look(tmp_path: Path) -> None:
    path = Path(shutil.copy(MLFLOW, tmp_path / "mlflow.db"))
    source = opened(tmp_path)
    run = source.runs()[0]
    list(run.read_new())
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE runs SET lifecycle_stage = 'deleted' WHERE name = 'second'")
        connection.execute(
            "INSERT INTO metrics VALUES ('loss', 0.25, 1794712299000, ?, 31, 0)", (run.key,)
        )
    connection.close()
    assert source.runs() == [run]
    (batch,) = run.read_new()
    assert [(record["step"], list(record["m"].values())) for record in batch.records] == [
        (31, [0.25])
    ]


def test_what_our_sink_sets_as_tags_is_turned_back(tmp_path: Path) -> None:
    path = Path(shutil.copy(MLFLOW, tmp_path / "mlflow.db"))
    tags = {"epochal.run_id": "abc", "epochal.group": "g", "epochal.job_type": "train"}
    tags |= {"baseline": "true", "epochal.summary.best/acc": "0.5", "epochal.summary.word": '"w"'}
    with sqlite3.connect(path) as connection:
        for key, value in tags.items():
            connection.execute("INSERT INTO tags VALUES (?, ?, ?)", (key, value, FIRST.key))
    connection.close()
    run = opened(tmp_path).runs()[0]
    assert set(run.identity.tags) == {"team=a", "baseline"}
    assert (run.identity.facts["group"], run.identity.facts["job_type"]) == ("g", "train")
    records = [record for batch in run.read_new() for record in batch.records]
    found = {r["name"]: r["value"] for r in records if r["log"] == "summary"}
    assert found == {"best/acc": 0.5, "word": "w"}
    assert records[-1]["log"] == "finish"
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE tags SET value = '0.75' WHERE key LIKE '%best/acc'")
    connection.close()
    (record,) = [record for batch in run.read_new() for record in batch.records]
    assert (record["name"], record["value"]) == ("best/acc", 0.75)
