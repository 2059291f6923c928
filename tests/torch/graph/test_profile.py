"""Times of nodes and parts: no hooks when off, nothing changed by measuring."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from epochal import FlowBuilder, Graph
from epochal.torch.graph.profile import format_time


def network() -> Graph:
    torch.manual_seed(0)
    return (
        FlowBuilder.start(nn.Linear(4, 8))
        .tag("encoder")
        .through(nn.ReLU(inplace=True))
        .split(nn.Linear(8, 2), nn.Linear(8, 2))
        .tag_group("head")
        .merge("mean")
        .build()
    )


X = torch.randn(16, 4, generator=torch.Generator().manual_seed(1))


def hooks_of(module: nn.Module) -> int:
    return sum(len(one._forward_hooks) + len(one._forward_pre_hooks) for one in module.modules())


def test_every_node_is_timed_while_profiling_is_on() -> None:
    graph = network()
    assert not graph.has_profile
    graph.enable_profiling()
    graph.enable_profiling()
    assert hooks_of(graph) == 2 * (1 + 5)
    for _ in range(3):
        graph(X).sum().backward()
    graph.disable_profiling()
    assert hooks_of(graph) == 0
    graph(X)
    profile = graph.profile()
    assert list(profile.nodes) == ["encoder", "relu_1", "head_0", "head_1", "mean_1"]
    assert (profile.passes, profile.device) == (2, "cpu")  # the first pass is left out
    assert all(ms > 0 for ms in profile.nodes.values())
    assert profile.text().splitlines()[0].split() == ["node", "forward", "share"]


def test_profiling_changes_no_gradient() -> None:
    plain, timed = network(), network()
    timed.enable_profiling()
    for graph in (plain, timed):
        graph(X).sum().backward()
    for one, other in zip(plain.parameters(), timed.parameters(), strict=True):
        assert one.grad is not None
        assert other.grad is not None
        assert torch.equal(one.grad, other.grad)


def test_without_a_pass_it_says_what_to_do() -> None:
    with pytest.raises(ValueError, match="enable profiling"):
        network().profile()


def test_a_failed_forward_does_not_stop_the_profiler() -> None:
    graph = network()
    graph.enable_profiling()
    with pytest.raises(RuntimeError):
        graph(torch.ones(2, 3))
    graph(X)
    assert graph.profile().passes == 1


def test_the_heat_map_shows_the_times() -> None:
    graph = network()
    graph.enable_profiling()
    graph(X)
    text = graph.svg(profiled=True)
    assert "fastest to slowest node" in text
    assert "median of 1 on cpu" in text
    assert "#e74c3c" in text.split("<style>")[0] + text.split("</style>")[1]


@pytest.mark.parametrize(
    ("ms", "text"), [(0.0004, "0 µs"), (0.312, "312 µs"), (0.9999, "1.00 ms"), (12.345, "12.35 ms")]
)
def test_times_are_written_briefly(ms: float, text: str) -> None:
    assert format_time(ms) in (text, text.replace("12.35", "12.34"))
