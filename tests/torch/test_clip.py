from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn

from epochal.torch import ClipStats, clip_grad_norm, clip_grad_value


def with_gradients(
    *gradients: Sequence[float], dtype: torch.dtype = torch.float32
) -> list[nn.Parameter]:
    params = []
    for gradient in gradients:
        param = nn.Parameter(torch.zeros(len(gradient), dtype=dtype))
        param.grad = torch.tensor(gradient, dtype=dtype)
        params.append(param)
    return params


def gradients(params: Sequence[Tensor]) -> list[list[float]]:
    return [[] if param.grad is None else param.grad.tolist() for param in params]


def random_model() -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3))
    model(torch.randn(5, 8)).pow(2).sum().backward()
    return model


def test_the_norm_before_clipping_is_returned_as_a_tensor() -> None:
    params = with_gradients([3.0], [4.0])
    norm = clip_grad_norm(params, 1.0)
    assert norm.shape == ()
    assert float(norm) == 5.0
    assert gradients(params)[1] == pytest.approx([0.8], rel=1e-5)


def test_small_gradients_are_left_exactly_alone() -> None:
    params = with_gradients([0.3], [0.4])
    before = gradients(params)
    clip_grad_norm(params, 1.0)
    assert gradients(params) == before


@pytest.mark.parametrize("max_norm", [0.1, 1.0, 1e6])
def test_it_does_what_torch_does(max_norm: float) -> None:
    ours, theirs = random_model(), random_model()
    expected = nn.utils.clip_grad_norm_(theirs.parameters(), max_norm)
    assert torch.equal(clip_grad_norm(ours, max_norm), expected)
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert one.grad is not None
        assert other.grad is not None
        assert torch.equal(one.grad, other.grad)


def test_a_module_an_iterator_and_a_tensor_are_taken() -> None:
    model = random_model()
    norm = clip_grad_norm(model.parameters(), math.inf)
    assert torch.equal(clip_grad_norm(model, math.inf), norm)
    (param,) = with_gradients([2.0])
    assert float(clip_grad_norm(param, 1.0)) == 2.0


def test_a_parameter_given_twice_counts_once() -> None:
    (param,) = with_gradients([3.0])
    assert float(clip_grad_norm([param, param], 10.0)) == 3.0


def test_parameters_without_gradients_are_skipped() -> None:
    bare = nn.Parameter(torch.zeros(2))
    assert float(clip_grad_norm([bare, *with_gradients([2.0], [])], 1.0)) == 2.0
    assert float(clip_grad_norm([bare], 1.0)) == 0.0
    assert float(clip_grad_value([], 1.0)) == 0.0


def test_dtypes_may_be_mixed_and_half_precision_is_summed_in_float32() -> None:
    narrow = with_gradients([0.1] * 1000, dtype=torch.bfloat16)
    exact = math.sqrt(1000) * float(torch.tensor(0.1, dtype=torch.bfloat16))
    assert float(clip_grad_norm(narrow, math.inf)) == pytest.approx(exact, rel=1e-5)
    mixed = with_gradients([3.0]) + with_gradients([4.0], dtype=torch.float64)
    norm = clip_grad_norm(mixed, 1.0)
    assert (norm.dtype, float(norm)) == (torch.float64, 5.0)
    assert [param.dtype for param in mixed] == [torch.float32, torch.float64]


def test_sparse_gradients_are_summed_up_and_clipped() -> None:
    table = nn.Embedding(5, 1, sparse=True)
    table(torch.tensor([1, 1, 2])).sum().backward()
    assert float(clip_grad_norm(table, 1.0)) == pytest.approx(math.sqrt(5))
    assert table.weight.grad is not None
    dense = table.weight.grad.to_dense().flatten()
    assert dense.tolist() == pytest.approx([0, 2 / math.sqrt(5), 1 / math.sqrt(5), 0, 0], rel=1e-5)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_norm_that_is_not_finite_leaves_the_gradients(bad: float) -> None:
    params = with_gradients([bad], [4.0])
    assert not math.isfinite(float(clip_grad_norm(params, 1.0)))
    assert gradients(params)[1] == [4.0]


def test_value_clipping_clamps_each_element_and_returns_the_largest() -> None:
    params = with_gradients([-3.0, 0.2], [0.4])
    assert float(clip_grad_value(params, 0.5)) == 3.0
    assert gradients(params) == [pytest.approx([-0.5, 0.2]), pytest.approx([0.4])]


def test_value_clipping_shows_a_nan() -> None:
    params = with_gradients([math.nan, 9.0])
    assert math.isnan(float(clip_grad_value(params, 0.5)))
    assert gradients(params)[0][1] == 0.5


def test_statistics_hold_before_after_and_the_share_of_clipped_steps() -> None:
    stats = ClipStats()
    for size in (0.5, 2.0, 4.0, 0.25):
        clip_grad_norm(with_gradients([size]), 1.0, stats=stats)
    assert stats.clip_rate == 0.5
    clip_grad_norm(with_gradients([8.0]), 1.0, stats=stats)
    metrics = {name: float(value) for name, value in stats.metrics().items()}
    assert metrics == {"norm": 8.0, "norm_clipped": 1.0, "clip_rate": 0.6}


def test_metrics_do_not_change_with_the_next_step() -> None:
    stats = ClipStats()
    clip_grad_value(with_gradients([8.0]), 1.0, stats=stats)
    norm = stats.metrics()["norm"]
    clip_grad_value(with_gradients([2.0]), 1.0, stats=stats)
    assert float(norm) == 8.0


def test_a_norm_that_is_not_finite_is_no_clipped_step() -> None:
    stats = ClipStats()
    clip_grad_norm(with_gradients([math.inf]), 1.0, stats=stats)
    assert stats.clip_rate == 0.0
    assert float(stats.metrics()["norm_clipped"]) == math.inf


def test_statistics_start_empty() -> None:
    assert ClipStats().metrics() == {}
    assert math.isnan(ClipStats().clip_rate)


@pytest.mark.parametrize("limit", [0.0, -1.0, math.nan])
def test_a_limit_must_be_above_zero(limit: float) -> None:
    with pytest.raises(ValueError, match="max_norm must be above 0"):
        clip_grad_norm([], limit)
    with pytest.raises(ValueError, match="max_value must be above 0"):
        clip_grad_value([], limit)


def test_misuse_names_the_argument() -> None:
    with pytest.raises(TypeError, match="max_norm must be a plain number"):
        clip_grad_norm([], torch.tensor(1.0))  # type: ignore[arg-type]
