from __future__ import annotations

from pathlib import Path

import torch

from epochal.recipes.gpt2.plain_log import PlainLog, recorded_lines
from tests.conftest import StartRun


def test_one_line_per_value_in_order(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "a.txt"
    with PlainLog(path) as log:
        log.add(0, "val", 10.5)
        log.add(0, "train", torch.tensor(2.25))
        log.add(1, "hellaswag", 0.25)
    assert path.read_text() == "0 val 10.500000\n0 train 2.250000\n1 hellaswag 0.250000\n"


def test_going_on_begins_with_what_is_recorded_and_not_trained_again(
    tmp_path: Path, start_run: StartRun
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("0 tr")
    run = start_run()
    run.log_eval(0, 0.0, 10, 1.0, 4.0)
    for step in range(12):
        run.log_step(step, 0.0, 10, 1.0, 1.0, 3.0, 0.1)
        if step == 9:
            run.log_eval(step, 0.0, 10, 1.0, 2.5, metrics={"hellaswag_accuracy": 0.25})
    run.finish()
    with PlainLog(path, past=recorded_lines(run.dir, before=10)) as log:
        log.add(10, "train", 0.5)
    lines = path.read_text().splitlines()
    assert lines[-4:] == [
        "9 train 3.000000",
        "9 hellaswag 0.250000",
        "9 val 2.500000",
        "10 train 0.500000",
    ]
    assert lines[:2] == ["0 val 4.000000", "0 train 3.000000"]
    assert len(lines) == 14


def test_other_ranks_write_nothing() -> None:
    with PlainLog(None) as log:
        log.add(0, "train", 1.0)
