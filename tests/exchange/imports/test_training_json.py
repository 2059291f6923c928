from __future__ import annotations

import json
import math
from datetime import datetime
from pathlib import Path

from tests.exchange.imports.samples import TRAINING, opened, records_in, training_json


def written(folder: Path, text: str) -> Path:
    path = folder / "log-1.json"
    path.write_text(text)
    return path


def test_records_are_ours_with_the_time_in_seconds(tmp_path: Path) -> None:
    records = records_in(training_json(tmp_path).source)
    assert [r["log"] for r in records] == ["step", "eval", "gpu", "moe", "option"]
    assert records[0]["t"] == datetime(2025, 3, 1, 12, 0, 0, 500_000).timestamp()
    assert "time" not in records[0]
    assert (records[0]["loss"], records[2]["power"]) == (2.5, 300000)


def test_the_run_is_named_after_its_folder(tmp_path: Path) -> None:
    (run,) = opened(training_json(tmp_path).source).runs()
    assert run.identity.name == "gpt2"


def test_a_file_cut_anywhere_gives_the_whole_records(tmp_path: Path) -> None:
    text = json.dumps(TRAINING)
    for end in range(2, len(text), 7):
        records = records_in(written(tmp_path, text[:end]))
        assert [r["log"] for r in records] == ["step", "eval", "gpu", "moe", "option"][
            : len(records)
        ]


def test_words_for_numbers_are_understood(tmp_path: Path) -> None:
    text = (
        '[\n{"log":"step","step":1,"loss":nan,"norm":-inf},\n{"log":"step","step":2,"loss":NaN}\n]'
    )
    first, second = records_in(written(tmp_path, text))
    assert math.isnan(first["loss"])
    assert first["norm"] == -math.inf
    assert second["step"] == 2


def test_an_object_that_is_no_json_is_named_and_passed_over(tmp_path: Path) -> None:
    bad = '{"log":"dataset","names":["C:\\q"]}'
    text = f'[\n{{"log":"step","step":1}},\n{bad},\n{{"log":"step","step":2}}\n]'
    path = written(tmp_path, text)
    assert [r["step"] for r in records_in(path)] == [1, 2]
    (run,) = opened(path).runs()
    list(run.read_new())
    assert f"{path} is damaged at byte {text.index(bad)}" in run.problems[0]


def test_an_empty_array_is_a_run_without_records(tmp_path: Path) -> None:
    assert records_in(written(tmp_path, "[\n]")) == []


def test_the_bracket_that_moves_is_no_obstacle(tmp_path: Path) -> None:
    path = written(tmp_path, '[\n{"log":"step","step":1}\n]')
    (run,) = opened(path).runs()
    assert len(list(run.read_new())) == 1
    path.write_text('[\n{"log":"step","step":1},\n{"log":"step","step":2}\n]')
    (batch,) = run.read_new()
    assert [record["step"] for record in batch.records] == [2]
