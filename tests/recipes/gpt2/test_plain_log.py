from __future__ import annotations

from pathlib import Path

import torch

from epochal.recipes.gpt2.plain_log import PlainLog


def test_one_line_per_value_in_order(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "a.txt"
    with PlainLog(path, first_step=0) as log:
        log.add(0, "val", 10.5)
        log.add(0, "train", torch.tensor(2.25))
        log.add(1, "hellaswag", 0.25)
    assert path.read_text() == "0 val 10.500000\n0 train 2.250000\n1 hellaswag 0.250000\n"


def test_going_on_takes_off_what_is_trained_again(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("0 train 3.0\n9 train 2.0\n10 train 1.0\n1 tr")
    with PlainLog(path, first_step=10) as log:
        log.add(10, "train", 0.5)
    assert path.read_text() == "0 train 3.0\n9 train 2.0\n10 train 0.500000\n"


def test_other_ranks_write_nothing() -> None:
    with PlainLog(None, first_step=0) as log:
        log.add(0, "train", 1.0)
