"""What only a GPU can show: nothing waits for it, and captured steps train like plain ones."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from epochal.torch import (
    ClipStats,
    CosineScheduler,
    clip_grad_norm,
    clip_grad_value,
    cuda_active_bytes,
    cuda_allocated_bytes,
    cuda_empty_cache,
    cuda_graph_capture,
    cuda_manual_seed_all,
    cuda_peak_active_bytes,
    cuda_peak_reserved_bytes,
    cuda_reset_peak_stats,
    orthogonal,
    set_lr,
    trunc_normal,
)
from tests.torch.waiting import no_waiting

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]


def params_on_gpu(dtype: torch.dtype = torch.float32) -> list[nn.Parameter]:
    torch.manual_seed(0)
    params = [nn.Parameter(torch.zeros(64, 64, device="cuda", dtype=dtype)) for _ in range(5)]
    for param in params:
        param.grad = torch.randn_like(param)
    return params


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_clipping_and_its_statistics_wait_for_nothing(dtype: torch.dtype) -> None:
    params, stats = params_on_gpu(dtype), ClipStats()
    with no_waiting():
        for _ in range(2):
            norm = clip_grad_norm(params, 1.0, stats=stats)
        clip_grad_value(params, 0.5, stats=stats)
        metrics = stats.metrics()
    assert norm.is_cuda
    assert float(norm) == pytest.approx(1.0, rel=0.01)
    assert metrics["clip_rate"].is_cuda


def test_clipping_on_the_gpu_agrees_with_torch() -> None:
    ours, theirs = params_on_gpu(), params_on_gpu()
    expected = nn.utils.clip_grad_norm_(theirs, 0.5)
    assert torch.allclose(clip_grad_norm(ours, 0.5), expected)
    for one, other in zip(ours, theirs, strict=True):
        assert one.grad is not None
        assert other.grad is not None
        assert torch.allclose(one.grad, other.grad)


def test_gradients_on_both_devices_are_clipped_together() -> None:
    near, far = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(1, device="cuda"))
    near.grad, far.grad = torch.tensor([3.0]), torch.tensor([4.0], device="cuda")
    assert float(clip_grad_norm([near, far], 1.0)) == pytest.approx(5.0)
    assert float(near.grad) == pytest.approx(0.6, rel=1e-5)
    assert float(far.grad) == pytest.approx(0.8, rel=1e-5)


def test_weights_are_drawn_where_they_are_told() -> None:
    cuda_manual_seed_all(1)
    weights = trunc_normal((100, 100), 0.0, 0.02, -2.0, 2.0, "cuda")
    assert weights.is_cuda
    assert weights.abs().max() <= 0.04
    matrix = orthogonal((8, 8), 1.0, "cuda")
    assert torch.allclose(matrix @ matrix.T, torch.eye(8, device="cuda"), atol=1e-4)


def test_memory_is_counted_on_its_device() -> None:
    cuda_empty_cache()
    cuda_reset_peak_stats()
    before = cuda_active_bytes()
    block = torch.zeros(1 << 20, device="cuda")
    assert cuda_active_bytes(0) - before == block.numel() * 4
    del block
    assert cuda_active_bytes() == before
    assert cuda_peak_active_bytes() >= before + (4 << 20)
    assert cuda_peak_reserved_bytes() >= cuda_peak_active_bytes()
    assert cuda_allocated_bytes() >= cuda_active_bytes()


def trained(*, captured: bool, steps: int = 8) -> tuple[list[float], float, ClipStats]:
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1)).cuda()
    # On the GPU, because a graph keeps what a rate on the host was at its capture.
    rate = torch.tensor(0.01, device="cuda")
    optimizer = torch.optim.Adam(model.parameters(), lr=rate, capturable=True)
    inputs, stats = torch.zeros(32, 4, device="cuda"), ClipStats()

    def step() -> torch.Tensor:
        optimizer.zero_grad(set_to_none=False)
        loss: torch.Tensor = (model(inputs) - inputs.sum(1, keepdim=True)).pow(2).mean()
        loss.backward()  # type: ignore[no-untyped-call]
        clip_grad_norm(model, 0.1, stats=stats)
        optimizer.step()
        return loss.detach()

    graph = cuda_graph_capture(3, None, step, device="cuda" if captured else "cpu")
    schedule = CosineScheduler(0.01, 0.0, steps)
    losses = []
    for i in range(steps):
        inputs.copy_(torch.randn(32, 4, generator=torch.Generator().manual_seed(i)))
        with no_waiting():
            set_lr(optimizer, schedule.lr(i))
            graph.replay()
            losses.append(graph.output.clone())
    assert (graph.pool() is not None) == captured
    weights = sum(float(param.detach().sum()) for param in model.parameters())
    return [float(loss) for loss in losses], weights, stats


def test_a_captured_step_trains_like_a_plain_one_and_waits_for_nothing() -> None:
    plain, captured = trained(captured=False), trained(captured=True)
    assert captured[0] == pytest.approx(plain[0], rel=1e-4)
    assert captured[1] == pytest.approx(plain[1], rel=1e-4)
    assert math.isclose(captured[2].clip_rate, plain[2].clip_rate)


def test_a_graph_lends_its_pool_and_can_be_reset() -> None:
    source = torch.ones(4, device="cuda")
    first = cuda_graph_capture(1, None, lambda: source * 2)
    second = cuda_graph_capture(1, first, lambda: source * 3)
    second.replay()
    assert second.output.tolist() == [3.0] * 4
    assert second.pool() == first.pool()
    second.reset()
    with pytest.raises(ValueError, match="was reset"):
        second.replay()
