from __future__ import annotations

import pytest
import torch
from torch.optim import SGD, Optimizer

from epochal.torch import set_lr


def optimizer() -> Optimizer:
    return SGD(
        [
            {"params": [torch.nn.Parameter(torch.zeros(1))], "name": "body"},
            {"params": [torch.nn.Parameter(torch.zeros(1))], "name": "head"},
        ],
        lr=1.0,
    )


def rates(opt: Optimizer) -> list[float]:
    return [float(group["lr"]) for group in opt.param_groups]


def test_the_rate_of_every_group_is_set() -> None:
    opt = optimizer()
    set_lr(opt, 0.5)
    assert rates(opt) == [0.5, 0.5]


def test_the_rate_of_one_group_is_set_by_index_or_name() -> None:
    opt = optimizer()
    set_lr(opt, 0.1, group=1)
    set_lr(opt, 0.2, group="body")
    assert rates(opt) == [0.2, 0.1]


def test_a_rate_kept_as_a_tensor_is_filled_in_place() -> None:
    opt = optimizer()
    rate = opt.param_groups[0]["lr"] = torch.tensor(1.0)
    set_lr(opt, 0.5)
    assert opt.param_groups[0]["lr"] is rate
    assert float(rate) == 0.5


@pytest.mark.parametrize("group", [2, -1, "tail"])
def test_an_unknown_group_is_refused_with_those_there_are(group: int | str) -> None:
    with pytest.raises(ValueError, match="below 2 or one of 'body', 'head'"):
        set_lr(optimizer(), 0.5, group)


def test_a_negative_rate_is_refused() -> None:
    with pytest.raises(ValueError, match="lr must be"):
        set_lr(optimizer(), -1.0)
