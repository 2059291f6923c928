"""What only a GPU can show: recording and timing wait for nothing, and the times are its own."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from epochal import FlowBuilder, Graph
from tests.torch.waiting import no_waiting

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]


def network() -> Graph:
    torch.manual_seed(0)
    return (
        FlowBuilder.start(nn.Linear(64, 64))
        .tag("small")
        .through(nn.ReLU(inplace=True))
        .through(nn.Linear(64, 8192))
        .through(nn.Linear(8192, 8192))
        .tag("large")
        .through(nn.Linear(8192, 1))
        .tag("head")
        .build()
        .cuda()
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_recording_waits_for_nothing_and_keeps_every_value(dtype: torch.dtype) -> None:
    graph = network()
    loss = torch.zeros((), device="cuda", dtype=dtype)
    with no_waiting():
        for _ in range(300):
            loss += 1  # in place: what was recorded must not change with it
            loss.fmod_(100)
            graph.record_scalar("loss", loss)
            graph.record("many", loss.expand(3))
    graph.record_scalar("loss", float("nan"))
    graph.flush()
    assert graph.latest_metrics() == {"loss": 49.5, "many": 49.5}


def test_collecting_tagged_outputs_waits_for_nothing() -> None:
    graph = network()
    x = torch.randn(256, 64, device="cuda")
    with no_waiting():
        for _ in range(5):
            output = graph(x)
            graph.collect(["head", "large"])
            output.mean().backward()
    graph.flush()
    expected = float(graph.tagged("head").detach().mean())
    assert graph.latest_metrics()["head"] == pytest.approx(expected, rel=1e-4)


def test_inference_mode_and_training_record_into_one_metric() -> None:
    graph = network()
    with torch.inference_mode():
        graph.record_scalar("loss", torch.tensor(1.0, device="cuda"))
    graph.record_scalar("loss", torch.tensor(3.0, device="cuda", requires_grad=True))
    graph.flush()
    assert graph.latest_metrics() == {"loss": 2.0}


def test_values_of_two_streams_are_in_order() -> None:
    graph = network()
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    for number in range(100):
        with torch.cuda.stream(side if number % 2 else torch.cuda.current_stream()):
            graph.record_scalar("x", torch.full((), float(number), device="cuda"))
    graph.flush()
    assert graph.latest_metrics() == {"x": 49.5}


def test_profiling_waits_for_nothing_and_measures_the_gpus_work() -> None:
    graph = network()
    x = torch.randn(4096, 64, device="cuda")
    graph(x).sum().backward()
    graph.enable_profiling()
    with no_waiting():
        for _ in range(8):
            graph(x).sum().backward()
    profile = graph.profile()
    assert profile.device == "cuda"
    # 4096 × 8192 × 8192 takes far longer than its launch; on the host's clock both look alike.
    assert profile.nodes["large"] > 5 * profile.nodes["small"]
    assert profile.forward_ms == pytest.approx(sum(profile.nodes.values()), rel=0.3)


def test_a_graph_is_captured_and_replayed() -> None:
    from epochal.torch import cuda_graph_capture

    graph = network()
    x = torch.randn(32, 64, device="cuda")
    captured = cuda_graph_capture(3, None, lambda: graph(x).mean())
    with no_waiting():
        for _ in range(3):
            captured.replay()
            graph.record_scalar("loss", captured.output)
    graph.flush()
    assert graph.latest_metrics()["loss"] == pytest.approx(graph(x).mean().item(), rel=1e-4)
