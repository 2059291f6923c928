"""Times of nodes and parts: both directions, no hooks when off, nothing changed by measuring."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from epochal import FlowBuilder, Graph
from epochal.torch import profile_module
from epochal.torch.graph.profile_report import format_time, profile_of
from epochal.torch.graph.profiler import Pass


def network() -> Graph:
    torch.manual_seed(0)
    return (
        FlowBuilder.start(nn.Linear(4, 8))
        .tag("encoder")
        .through(nn.ReLU(inplace=True))
        .through(nn.Identity())
        .split(nn.Linear(8, 2), nn.Linear(8, 2))
        .tag_group("head")
        .merge("mean")
        .build()
    )


X = torch.randn(16, 4, generator=torch.Generator().manual_seed(1))


def hooks_of(module: nn.Module) -> int:
    return sum(
        len(one._forward_hooks) + len(one._forward_pre_hooks) + len(one._backward_hooks)
        for one in module.modules()
    )


def test_there_are_no_hooks_before_and_after() -> None:
    graph = network()
    assert hooks_of(graph) == 0
    graph.enable_profiling()
    graph.enable_profiling()
    assert hooks_of(graph) == 2 * (1 + 6)
    assert graph.is_profiling
    graph.disable_profiling()
    assert hooks_of(graph) == 0


def test_profiling_knows_whether_it_is_on() -> None:
    graph = network()
    graph.enable_profiling()
    graph.disable_profiling()
    assert not graph.is_profiling


def test_every_node_is_timed_forward_and_backward() -> None:
    graph = network()
    graph.enable_profiling()
    for _ in range(3):
        graph(X).sum().backward()
    graph.disable_profiling()
    profile = graph.profile()
    assert [node.name for node in profile.nodes] == [
        "encoder", "relu_1", "identity_1", "head_0", "head_1", "mean_1",
    ]  # fmt: skip
    assert profile.passes == 2
    assert profile.device == "cpu"
    for node in profile.nodes:
        assert node.forward_ms > 0
        assert math.isnan(node.backward_ms) == (node.name == "identity_1")
    assert profile.forward_ms >= sum(node.forward_ms for node in profile.nodes) * 0.5
    assert profile.overhead_ms > 0
    assert graph.timing("encoder") == graph.profile().node("encoder")


def test_profiling_changes_no_gradient() -> None:
    plain, timed = network(), network()
    timed.enable_profiling()
    for graph in (plain, timed):
        graph(X).sum().backward()
    for one, other in zip(plain.parameters(), timed.parameters(), strict=True):
        assert one.grad is not None
        assert other.grad is not None
        assert torch.equal(one.grad, other.grad)


def test_without_a_backward_only_the_forward_is_known() -> None:
    graph = network()
    graph.enable_profiling()
    with torch.no_grad():
        graph(X)
    assert math.isnan(graph.profile().backward_ms)
    assert all(math.isnan(node.backward_ms) for node in graph.profile().nodes)


def test_levels_have_wall_clock_and_parallelism() -> None:
    graph = network()
    graph.enable_profiling()
    graph(X)
    heads = next(level for level in graph.profile().levels if level.nodes == 2)
    assert heads.level == graph.timing("head_0").level
    assert 0 < heads.parallelism <= 1.0


def test_the_table_says_what_measuring_cost() -> None:
    graph = network()
    graph.enable_profiling()
    graph(X).sum().backward()
    text = graph.profile().text()
    assert text.splitlines()[0].split() == ["node", "forward", "backward", "share"]
    assert "parallelism" in text
    assert "measuring took" in text.splitlines()[-1]


def test_without_a_pass_it_says_what_to_do() -> None:
    graph = network()
    with pytest.raises(ValueError, match="enable profiling"):
        graph.profile()
    graph.enable_profiling()
    graph(X)
    with pytest.raises(ValueError, match="did you mean 'encoder'"):
        graph.timing("encoderr")


def test_a_failed_forward_does_not_stop_the_profiler() -> None:
    graph = network()
    graph.enable_profiling()
    with pytest.raises(RuntimeError):
        graph(torch.randn(2, 3))
    with pytest.raises(ValueError, match="No pass"):
        graph.profile()
    graph(X)
    assert graph.profile().passes == 1


def test_times_become_trends(tmp_path: Path) -> None:
    graph = network()
    graph.enable_profiling()
    for _ in range(2):
        for _ in range(3):
            graph(X).sum().backward()
            graph.end_step()
        graph.end_epoch()
    assert len(graph.timings.trend("encoder")) == 2
    assert graph.timings.trends(["head"]).names() == ["head_0", "head_1"]
    parts = [graph.timings.trend("encoder", way).latest() for way in ("forward", "backward")]
    assert graph.timings.trend("encoder").latest() == pytest.approx(sum(parts))
    graph.timings.export_trends(tmp_path / "times.csv", ["encoder"])
    assert (tmp_path / "times.csv").read_text().splitlines()[0] == "epoch,encoder"
    graph.timings.plot_html(tmp_path / "times.html")
    assert "Milliseconds per pass" in (tmp_path / "times.html").read_text(encoding="utf-8")


def test_every_pass_is_collected_once() -> None:
    graph = network()
    graph.enable_profiling()
    for _ in range(5):
        graph(X)
        graph.end_step()
    graph.timings.collect(graph._profiler, wait=True)  # type: ignore[arg-type]
    counted = graph.timings._observations["total"].collected("encoder")
    assert len(counted) == 5


def test_the_heat_map_shows_the_times() -> None:
    graph = network()
    graph.enable_profiling()
    graph(X).sum().backward()
    text = graph.svg(profiled=True)
    assert "fill:#e74c3c" in text
    assert "fastest to slowest node" in text
    assert "parallelism" not in text
    assert "level" in text


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(4, 16), nn.GELU(), nn.Linear(16, 4))

    def forward(self, x: Tensor) -> Tensor:
        recomputed: Tensor = checkpoint(self.inner, x, use_reentrant=False)
        return x + recomputed


def test_a_plain_module_is_timed_part_by_part() -> None:
    model = nn.Sequential(Block(), nn.Linear(4, 2))
    with profile_module(model) as timed:
        for _ in range(2):
            model(X).sum().backward()
    assert hooks_of(model) == 0
    profile = timed.profile()
    assert [node.name for node in profile.nodes] == [
        "0.inner.0", "0.inner.1", "0.inner.2", "1",
    ]  # fmt: skip
    assert profile.levels == ()


def test_depth_times_a_module_as_one() -> None:
    model = nn.Sequential(Block(), nn.Linear(4, 2))
    with profile_module(model, depth=1) as timed:
        model(X)
    assert [node.name for node in timed.profile().nodes] == ["0", "1"]


def test_a_shared_module_is_timed_under_its_first_name() -> None:
    layer = nn.Linear(4, 4)
    graph = FlowBuilder.start(layer).tag("a").through(layer).tag("b").build()
    graph.enable_profiling()
    graph(X).sum().backward()
    assert [node.name for node in graph.profile().nodes] == ["a"]


def test_a_single_module_is_one_part() -> None:
    model = nn.Linear(4, 4)
    with profile_module(model) as timed:
        model(X).sum().backward()
    assert [node.name for node in timed.profile().nodes] == ["linear"]
    assert "#e74c3c" in timed.picture(X).svg() or timed.picture(X).nodes


def test_the_plain_modules_picture_is_coloured() -> None:
    model = nn.Sequential(nn.Linear(4, 64), nn.GELU(), nn.Linear(64, 2))
    with profile_module(model) as timed:
        model(X)
    timed_nodes = {node.key for node in timed.picture().nodes if node.time is not None}
    assert timed_nodes == {"0", "1", "2"}


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ValueError, match=r"torch\.nn\.Module, got int"):
        profile_module(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least 1, got 0"):
        profile_module(nn.Linear(1, 1), depth=0)


def test_times_are_written_briefly() -> None:
    assert [format_time(ms) for ms in (0.0004, 0.312, 0.9996, 1.239, math.nan)] == [
        "0 µs", "312 µs", "1.00 ms", "1.24 ms", "—",
    ]  # fmt: skip


class ScriptedClock:
    def mark(self) -> float:
        return 0.0

    def reached(self, mark: float) -> bool:
        return True

    def milliseconds(self, start: float, end: float) -> float:
        return end - start


def test_the_median_pass_is_reported_without_the_first() -> None:
    passes = [
        Pass(ScriptedClock(), 0.0, took, calls=[("a", 0.0, took)], backward=[("a", 0.0, 2 * took)])
        for took in (100.0, 1.0, 3.0, 2.0)
    ]
    profile = profile_of(passes, levels={"a": 1}, names=["a"])
    assert (profile.forward_ms, profile.backward_ms, profile.passes) == (2.0, 4.0, 3)
    assert profile.nodes[0].total_ms == 6.0


def body() -> Graph:
    flow = FlowBuilder.start(nn.Linear(8, 64)).tag("wide").through(nn.ReLU())
    return flow.through(nn.Linear(64, 8)).label("body").build()


def nested() -> Graph:
    torch.manual_seed(0)
    return FlowBuilder.start(nn.Linear(4, 8)).tag("first").through(body()).tag("middle").build()


def test_nodes_of_labelled_graphs_are_timed_under_their_paths() -> None:
    graph = nested()
    graph.enable_profiling()
    for _ in range(3):
        graph(X).sum().backward()
    profile = graph.profile()
    names = [node.name for node in profile.nodes]
    assert names[:3] == ["first", "middle", "body.wide"]
    inside = [node for node in profile.nodes if node.inside == "middle"]
    assert len(inside) == 3
    assert graph.timing("body.wide").name == "body.wide"
    whole = graph.timing("middle")
    assert all(math.isfinite(node.backward_ms) for node in inside)
    assert max(node.backward_ms for node in inside) <= whole.backward_ms
    assert "body.wide" in profile.text()
    assert {level.level for level in profile.levels} == {
        node.level for node in profile.nodes if node.inside is None
    }


def test_a_whole_pass_counts_what_is_inside_a_graph_once() -> None:
    outer = {"body.a": ("body",), "body.b": ("body",)}
    calls = [("body.a", 0.0, 1.0), ("body.b", 1.0, 3.0), ("body", 0.0, 3.0)]
    backward = [("body.b", 0.0, 4.0), ("body", 0.0, 4.0), ("body.a", 4.0, 6.0), ("body", 4.0, 6.0)]
    one = Pass(ScriptedClock(), 0.0, 3.0, calls=calls, backward=backward, around=outer)
    profile = profile_of([one], levels={"body": 1}, names=["body", "body.a", "body.b"])
    assert (profile.forward_ms, profile.backward_ms) == (3.0, 6.0)
    assert [node.total_ms for node in profile.nodes] == [9.0, 3.0, 6.0]
    assert "100.0%" in profile.text()
    (level,) = profile.levels
    assert (level.nodes, level.wall_ms) == (1, 3.0)


def test_the_heat_map_goes_into_labelled_graphs() -> None:
    graph = nested()
    plain = {node.key for node in graph.picture().nodes}
    graph.enable_profiling()
    graph(X).sum().backward()
    heat = graph.picture(profiled=True)
    assert plain >= {"first", "middle"}
    shown = {node.key: node for node in heat.nodes}
    assert "middle" not in shown
    assert shown["body.wide"].time is not None
    assert {(edge.source, edge.target) for edge in heat.edges} >= {("first", "body.wide")}
    assert heat.svg().count('class="node') == len(heat.nodes)
    assert "body.wide" in heat.dot()


def test_graphs_in_graphs_in_graphs_are_timed() -> None:
    middle = FlowBuilder.start(body()).tag("deep").label("mid").build()
    graph = FlowBuilder.start(nn.Linear(4, 8)).through(middle).tag("all").build()
    graph.enable_profiling()
    graph(X).sum().backward()
    assert graph.timing("mid.deep").inside == "all"
    assert graph.timing("mid.body.wide").inside == "mid.deep"
    assert "mid.body.wide" in {node.key for node in graph.picture(profiled=True).nodes}


def test_profiling_ends_with_no_hook_left_in_labelled_graphs() -> None:
    graph = nested()
    graph.enable_profiling()
    graph(X)
    graph.disable_profiling()
    assert hooks_of(graph) == 0
    assert graph.has_profile
