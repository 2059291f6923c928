from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from epochal.torch import (
    kaiming_normal,
    kaiming_uniform,
    normal,
    orthogonal,
    set_data,
    trunc_normal,
    uniform,
    uniform_bias,
    xavier_normal,
    xavier_uniform,
)

SHAPE = (200, 100)


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(1)


@pytest.mark.parametrize(
    ("draw", "bound"),
    [
        (lambda: kaiming_uniform(SHAPE, 100, 0.5, generator=generator()), math.sqrt(6 / 125)),
        (lambda: xavier_uniform(SHAPE, 100, 200, generator=generator()), math.sqrt(6 / 300)),
        (lambda: uniform(SHAPE, -2.0, 2.0, generator=generator()), 2.0),
        (lambda: uniform_bias(25, SHAPE, generator=generator()), 0.2),
    ],
)
def test_uniform_weights_fill_their_bound(draw: Callable[[], Tensor], bound: float) -> None:
    weights = draw()
    assert weights.shape == SHAPE
    assert not weights.requires_grad
    assert weights.abs().max() <= bound
    assert weights.abs().max() > 0.99 * bound
    assert float(weights.std()) == pytest.approx(bound / math.sqrt(3), rel=0.02)


@pytest.mark.parametrize(
    ("draw", "mean", "std"),
    [
        (lambda: kaiming_normal(SHAPE, 100, 0.0, generator=generator()), 0.0, math.sqrt(0.02)),
        (lambda: xavier_normal(SHAPE, 100, 200, generator=generator()), 0.0, math.sqrt(2 / 300)),
        (lambda: normal(SHAPE, 3.0, 0.5, generator=generator()), 3.0, 0.5),
    ],
)
def test_normal_weights_have_their_mean_and_deviation(
    draw: Callable[[], Tensor], mean: float, std: float
) -> None:
    weights = draw()
    assert float(weights.mean()) == pytest.approx(mean, abs=0.02 * std)
    assert float(weights.std()) == pytest.approx(std, rel=0.02)


def test_the_weights_are_those_of_torch_from_the_same_seed() -> None:
    torch.manual_seed(3)
    ours = kaiming_uniform(SHAPE, 100, math.sqrt(5), "cpu")
    torch.manual_seed(3)
    theirs = nn.init.kaiming_uniform_(torch.empty(SHAPE), math.sqrt(5))
    assert torch.allclose(ours, theirs)


@pytest.mark.parametrize(("a", "b"), [(-2.0, 2.0), (-1.0, 3.0), (5.0, 6.0), (-9.0, -8.0)])
def test_a_truncated_normal_has_no_heap_at_its_bounds(a: float, b: float) -> None:
    weights = trunc_normal(SHAPE, 1.0, 2.0, a, b, dtype=torch.float64, generator=generator())
    deviations = (weights - 1) / 2
    assert deviations.min() >= a - 1e-9
    assert deviations.max() <= b + 1e-9
    assert int(((deviations - a).abs() < 1e-9).sum() + ((deviations - b).abs() < 1e-9).sum()) <= 2


def test_a_truncated_normal_has_the_deviation_of_theory() -> None:
    weights = trunc_normal((400, 400), 0.0, 1.0, -2.0, 2.0, generator=generator())
    assert float(weights.std()) == pytest.approx(0.8796, rel=0.01)
    assert weights.dtype == torch.float32


@pytest.mark.parametrize("shape", [(8, 8), (4, 9), (9, 4), (6, 2, 5)])
def test_orthogonal_rows_or_columns_are_orthogonal(shape: tuple[int, ...]) -> None:
    matrix = orthogonal(shape, 2.0, generator=generator()).reshape(shape[0], -1)
    rows, columns = matrix.shape
    product = matrix @ matrix.T if rows <= columns else matrix.T @ matrix
    assert torch.allclose(product, 4 * torch.eye(min(rows, columns)), atol=1e-5)


def test_weights_take_the_dtype_they_are_told() -> None:
    assert normal((2, 2), 0.0, 1.0, dtype=torch.float64).dtype == torch.float64
    assert orthogonal((4, 4), 1.0, dtype=torch.bfloat16).dtype == torch.bfloat16
    narrow = trunc_normal(SHAPE, 0.0, 0.02, -2.0, 2.0, dtype=torch.bfloat16)
    assert narrow.abs().max() <= 0.0402


def test_data_is_copied_into_the_same_parameter() -> None:
    layer = nn.Linear(128, 64)
    place = layer.weight.data_ptr()
    weights = xavier_normal([64, 128], 128, 64, "cpu", dtype=torch.float64)
    set_data(layer.weight, weights)
    assert torch.equal(layer.weight, weights.float())
    assert layer.weight.data_ptr() == place
    assert layer.weight.requires_grad


def test_data_of_another_shape_is_refused_with_both_shapes() -> None:
    with pytest.raises(ValueError, match=r"\(64, 128\), got \(128, 64\)"):
        set_data(nn.Linear(128, 64).weight, torch.zeros(128, 64))


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: kaiming_uniform((2, 2), 0, 0.0), "fan_in"),
        (lambda: xavier_normal((2, 2), 2, 0), "fan_out"),
        (lambda: uniform((2, 2), 1.0, 0.0), "low"),
        (lambda: normal((2, 2), 0.0, -1.0), "std"),
        (lambda: trunc_normal((2, 2), 0.0, 1.0, 2.0, -2.0), "a must"),
        (lambda: orthogonal((4,), 1.0), "shape"),
        (lambda: uniform_bias(0, (2,)), "fan_in"),
    ],
)
def test_misuse_names_the_argument(call: Callable[[], object], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        call()
