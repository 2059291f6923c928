from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from epochal.exchange.imports.registry import open_foreign
from epochal.records import Record
from tests.exchange.imports.samples import opened, records_in, values_of


def read(folder: Path, *rows: Any) -> list[Record]:
    path = folder / "history.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return records_in(path)


def test_steps_and_times_are_found_by_name(tmp_path: Path) -> None:
    rows = [{"global_step": 5, "timestamp": 1.7e12, "loss": 1.0, "val": {"acc": 0.5}}]
    assert read(tmp_path, *rows) == [
        {"log": "metrics", "t": 1.7e9, "step": 5, "m": {"loss": 1.0, "val.acc": 0.5}}
    ]


def test_rows_without_steps_are_counted(tmp_path: Path) -> None:
    assert values_of(read(tmp_path, {"loss": 1.0}, {"loss": 2.0}), "loss") == [(0, 1.0), (1, 2.0)]


def test_rows_of_epochs_count_completed_ones(tmp_path: Path) -> None:
    records = read(tmp_path, {"epoch": 0, "loss": 1.0}, {"epoch": 1, "loss": 0.5})
    assert [(r["log"], r["epoch"]) for r in records] == [("epoch", 1), ("epoch", 2)]


def test_rows_in_our_own_words_are_kept_as_they_are(tmp_path: Path) -> None:
    record = {"log": "step", "t": 1.5e9, "step": 1, "loss": 2.0, "extra": [1]}
    assert read(tmp_path, record) == [record]


def test_a_row_that_is_the_configuration_becomes_options(tmp_path: Path) -> None:
    records = read(tmp_path, {"type": "config", "lr": 0.1}, {"step": 1, "loss": 1.0})
    assert [(r["name"], r["value"]) for r in records if r["log"] == "option"] == [("lr", 0.1)]


def test_texts_are_recorded_when_they_change(tmp_path: Path) -> None:
    records = read(tmp_path, *({"step": i, "loss": 1, "phase": p} for i, p in enumerate("aab")))
    assert [(r["step"], r["text"]) for r in records if r["log"] == "text"] == [(0, "a"), (2, "b")]


def test_nan_is_a_number_in_either_spelling(tmp_path: Path) -> None:
    found = values_of(read(tmp_path, {"a": math.nan}, {"a": "NaN"}), "a")
    assert all(math.isnan(value) for _, value in found)


def test_a_bad_line_is_named_and_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"loss": 1}\nrubbish\n{"loss": 2}\n')
    (run,) = opened(path).runs()
    (batch,) = run.read_new()
    assert len(batch.records) == 2
    assert f"{path} is damaged at byte 12" in run.problems[0]


def test_a_last_line_without_an_end_is_taken_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"loss": 1}\n{"loss": 2')
    (run,) = opened(path).runs()
    assert [len(batch.records) for batch in run.read_new()] == [1]
    path.write_text('{"loss": 1}\n{"loss": 2}')
    assert [len(batch.records) for batch in run.read_new()] == [1]
    path.write_text('{"loss": 1}\n{"loss": 2}\n{"loss": 3}\n')
    assert [batch.records[0]["m"]["loss"] for batch in run.read_new()] == [3]


def test_a_json_object_over_many_lines_is_nobodys(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text('{\n "a": 1\n}\n')
    assert open_foreign(path) is None


def test_numbers_and_nesting_beyond_measure_are_no_crash(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"big": ' + "9" * 400 + "}\n" + '{"a":' * 5000 + "1" + "}" * 5000 + "\n")
    assert values_of(records_in(path), "big") == [(0, math.inf)]
