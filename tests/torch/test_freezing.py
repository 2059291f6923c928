from __future__ import annotations

import torch
from torch import nn

from epochal.torch import freeze, is_frozen, unfreeze


def test_a_module_or_a_parameter_is_frozen_and_trained_again() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    model(torch.ones(1, 2)).sum().backward()
    freeze(model[0])
    freeze(model[1].bias)
    assert is_frozen(model[0])
    assert is_frozen(model[1].bias)
    assert not is_frozen(model)
    assert model[0].weight.grad is None  # an optimizer would move it once more
    unfreeze(model)
    assert all(param.requires_grad for param in model.parameters())
    assert not is_frozen(nn.ReLU())


def test_whole_numbers_stay_frozen() -> None:
    table = nn.Parameter(torch.zeros(2, dtype=torch.int64), requires_grad=False)
    unfreeze(table)
    assert is_frozen(table)
