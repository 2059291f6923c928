from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from epochal.errors import ValueTypeError
from epochal.torch.memory.leaks import leak_report, mark_tensors


class Trainer:
    def __init__(self) -> None:
        self.losses: list[Any] = []
        self.model = nn.Linear(4, 1)

    def step(self, *, keep_graph: bool) -> None:
        loss = self.model(torch.ones(2, 4)).sum()
        self.losses.append(loss if keep_graph else loss.item())


def test_losses_kept_with_their_graphs_are_found_and_their_list_is_named() -> None:
    trainer = Trainer()
    before = mark_tensors()
    for _ in range(5):
        trainer.step(keep_graph=True)
    report = leak_report(before)
    (growth,) = [one for one in report.growth if one.kind.has_graph]
    assert (growth.more, growth.bytes, growth.kind.shape) == (5, 20, ())
    assert growth.holders == ("list losses of 5",)
    assert "  +5 (20 B): Tensor 0-d float32 on cpu, with its graph; held by list" in str(report)


def test_a_training_that_keeps_nothing_leaks_nothing() -> None:
    trainer = Trainer()
    trainer.step(keep_graph=False)
    before = mark_tensors()
    for _ in range(5):
        trainer.step(keep_graph=False)
    report = leak_report(before)
    assert not report
    assert "none more than before" in str(report)


def test_a_mark_keeps_no_tensor_alive() -> None:
    kept = [torch.zeros(3) for _ in range(2)]
    before = mark_tensors()
    kept.clear()
    assert not leak_report(before)
    assert len(mark_tensors().ids) == len(before.ids) - 2


def test_a_mark_is_asked_for() -> None:
    wrong: Any = 3
    with pytest.raises(ValueTypeError, match=r"mark_tensors\(\)"):
        leak_report(wrong)
