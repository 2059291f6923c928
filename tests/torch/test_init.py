from __future__ import annotations

import math
from typing import Any, cast

import pytest
import torch
from torch import nn

from epochal.torch import (
    kaiming_normal,
    kaiming_uniform,
    orthogonal,
    set_data,
    trunc_normal,
    uniform_bias,
    xavier_normal,
    xavier_uniform,
)

SHAPE = (256, 512)


def test_the_scales_are_those_of_torch() -> None:
    torch.manual_seed(0)
    fan_out, fan_in = SHAPE
    a, init, empty = math.sqrt(5), cast(Any, nn.init), torch.empty(SHAPE)
    for ours, theirs in [
        (kaiming_uniform(SHAPE, fan_in, a), init.kaiming_uniform_(empty.clone(), a)),
        (kaiming_normal(SHAPE, fan_in, a), init.kaiming_normal_(empty.clone(), a)),
        (xavier_uniform(SHAPE, fan_in, fan_out), init.xavier_uniform_(empty.clone())),
        (xavier_normal(SHAPE, fan_in, fan_out), init.xavier_normal_(empty.clone())),
    ]:
        assert ours.std().item() == pytest.approx(theirs.std().item(), rel=0.02)
        assert ours.abs().max().item() == pytest.approx(theirs.abs().max().item(), rel=0.2)
    assert uniform_bias(100, [5000]).abs().max().item() == pytest.approx(0.1, rel=0.01)


def test_a_truncated_normal_has_bounds_in_standard_deviations() -> None:
    torch.manual_seed(0)
    drawn = trunc_normal([20_000], 1.0, 0.02, -2.0, 1.0)
    assert (drawn.min().item(), drawn.max().item()) == pytest.approx((0.96, 1.02), abs=1e-3)
    assert (drawn == drawn.max()).sum() < 10  # left out, not piled up at the bounds
    with pytest.raises(ValueError, match="a must be below b"):
        trunc_normal([2], 0.0, 1.0, 2.0, 1.0)


@pytest.mark.parametrize("shape", [(4, 9), (9, 4), (3, 2, 5)])
def test_orthogonal_rows_or_columns_have_length_gain(shape: tuple[int, ...]) -> None:
    matrix = orthogonal(shape, 2.0).reshape(shape[0], -1)
    short = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    assert torch.allclose(short @ short.T, 4 * torch.eye(len(short)), atol=1e-5)


def test_values_are_set_in_place() -> None:
    layer = nn.Linear(2, 2).half()
    before = layer.weight
    set_data(layer.weight, torch.ones(2, 2))
    assert layer.weight is before
    assert layer.weight.tolist() == [[1, 1], [1, 1]]
    with pytest.raises(ValueError, match=r"shape \(2, 2\), got \(3,\)"):
        set_data(layer.weight, torch.ones(3))
