"""Building a graph; it is a module like any other."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from epochal import FlowBuilder, Graph
from epochal.torch import MergeOp


def network() -> Graph:
    torch.manual_seed(0)
    return (
        FlowBuilder.start(nn.Linear(4, 8))
        .tag("encoder")
        .through(nn.GELU())
        .also(nn.Sequential(nn.BatchNorm1d(8), nn.Linear(8, 8)))
        .split(nn.Linear(8, 2), nn.Linear(8, 2))
        .tag_group("head")
        .merge("mean")
        .label("net")
        .build()
    )


X = torch.randn(16, 4, generator=torch.Generator().manual_seed(1))


def trained(model: nn.Module, steps: int = 5) -> list[float]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(X).pow(2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_state_is_saved_under_tags_and_loaded_again() -> None:
    first, second = network(), network()
    trained(first)
    assert "nodes.encoder.weight" in first.state_dict()
    second.load_state_dict(first.state_dict())
    assert torch.equal(first.eval()(X), second.eval()(X))


def test_parameters_have_qualified_names() -> None:
    names = list(network().qualified_parameters())
    assert names[:2] == ["encoder/weight", "encoder/bias"]
    assert "sequential_1/1.weight" in names
    assert "head_1/bias" in names
    assert next(iter(network().qualified_buffers())) == "sequential_1/0.running_mean"


def test_shared_parameters_are_named_once() -> None:
    layer = nn.Linear(4, 4)
    graph = FlowBuilder.start(layer).tag("a").through(layer).tag("b").build()
    assert list(graph.qualified_parameters()) == ["a/weight", "a/bias"]


def test_a_tag_may_be_the_name_of_a_method() -> None:
    graph = FlowBuilder.start(nn.Linear(4, 4)).tag("type").build()
    assert list(graph.qualified_parameters()) == ["type/weight", "type/bias"]
    assert graph.double()(X.double()).dtype == torch.float64


def test_a_deep_copy_is_independent_and_keeps_the_history() -> None:
    graph = network()
    graph.record_scalar("loss", 1.0)
    graph.flush()
    graph(X)
    twin = copy.deepcopy(graph)
    trained(twin)
    twin.record_scalar("loss", 3.0)
    twin.flush()
    assert graph.trend("loss").values() == [1.0]
    assert twin.trend("loss").values() == [1.0, 3.0]
    assert not torch.equal(graph.eval()(X), twin.eval()(X))


def test_a_profiled_graph_can_be_copied_and_pickled() -> None:
    graph = network()
    graph.enable_profiling()
    graph(X)
    for twin in (copy.deepcopy(graph), pickle.loads(pickle.dumps(graph))):
        twin(X)
        assert twin.profile().passes == 1
    assert graph.profile().passes == 1


def test_values_are_let_go_when_nobody_needs_them() -> None:
    import weakref

    alive: list[weakref.ref[torch.Tensor]] = []

    def keep_track(x: torch.Tensor) -> torch.Tensor:
        fresh = x + 1
        alive.append(weakref.ref(fresh))
        return fresh

    def count_alive(x: torch.Tensor) -> torch.Tensor:
        counts.append(sum(ref() is not None for ref in alive))
        return x * 2

    counts: list[int] = []
    flow = FlowBuilder.start()
    for _ in range(5):
        flow = flow.through(keep_track).through(lambda x: x * 2)
    with torch.no_grad():
        flow.through(count_alive).build()(X)
    assert counts == [0]


def test_compiled_it_gives_the_same_without_a_break() -> None:
    graph, plain = network(), network()
    compiled: Any = torch.compile(graph, fullgraph=True, backend="aot_eager")
    assert trained(compiled) == pytest.approx(trained(plain), rel=1e-4)
    graph.collect("head")
    graph.flush()
    assert list(graph.latest_metrics()) == ["head_0", "head_1"]


def test_exported_it_gives_the_same() -> None:
    graph = network().eval()
    program = torch.export.export(graph, (X,))
    assert torch.allclose(program.module()(X), graph(X), atol=1e-6)


def test_the_structural_hash_is_the_same_in_another_process() -> None:
    code = (
        "from torch import nn\nfrom epochal import FlowBuilder\n"
        "print(FlowBuilder.start(nn.Linear(4, 8)).tag('a').also(nn.Linear(8, 8)).build()"
        ".structural_hash())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    graph = FlowBuilder.start(nn.Linear(4, 8)).tag("a").also(nn.Linear(8, 8)).build()
    assert done.stdout.strip() == graph.structural_hash()
    # A change of this number means that checkpoints of older versions no longer match.
    assert graph.structural_hash()[:8] == "485128c5"
    assert len(graph.structural_hash()) == 64


def test_the_structural_hash_sees_structure_and_nothing_else() -> None:
    def build(width: int = 8, tag: str = "a", label: str = "x", *, op: str = "add") -> Graph:
        flow = FlowBuilder.start(nn.Linear(4, width)).tag(tag)
        return flow.split(nn.Linear(width, 2), nn.Linear(width, 2)).merge(op).label(label).build()

    plain = build().structural_hash()
    assert build(label="y").structural_hash() == plain
    assert build().double().structural_hash() == plain
    others = {
        build(width=9).structural_hash(),
        build(tag="b").structural_hash(),
        build(op="mean").structural_hash(),
    }
    assert len(others | {plain}) == 4


def test_the_hash_of_a_nested_graph_counts() -> None:
    def outer(width: int) -> Graph:
        inner = FlowBuilder.start(nn.Linear(4, 4)).also(nn.Linear(4, width)).label("i")
        return FlowBuilder.start(nn.Sequential(inner.build())).build()

    assert outer(4).structural_hash() == outer(4).structural_hash()
    assert outer(4).structural_hash() != outer(1).structural_hash()


@pytest.mark.parametrize("suffix", ["safetensors", "fdl.gz"])
def test_it_saves_and_loads_itself_under_its_own_names(tmp_path: Path, suffix: str) -> None:
    first, second = network(), network()
    trained(first)
    first.save_checkpoint(tmp_path / f"model.{suffix}")
    report = second.load_checkpoint(tmp_path / f"model.{suffix}")
    assert "encoder/weight" in report.loaded
    assert torch.equal(first.eval()(X), second.eval()(X))
    first.snapshot_cpu().save_file(tmp_path / f"again.{suffix}")
    assert second.load_checkpoint(tmp_path / f"again.{suffix}").missing == ()


def test_a_checkpoint_of_another_structure_is_refused(tmp_path: Path) -> None:
    network().save_checkpoint(tmp_path / "model.safetensors")
    other = FlowBuilder.start(nn.Linear(4, 8)).tag("encoder").build()
    with pytest.raises(ValueError, match="hash"):
        other.load_checkpoint(tmp_path / "model.safetensors")
    report = other.load_checkpoint(tmp_path / "model.safetensors", hash=None)
    assert report.loaded == ("encoder/weight", "encoder/bias")


# -- building -------------------------------------------------------------------------------------


def times(factor: float) -> nn.Linear:
    layer = nn.Linear(1, 1, bias=False)
    nn.init.constant_(layer.weight, factor)
    return layer


ONE = torch.ones(1, 1)


@pytest.mark.parametrize(
    ("flow", "expected"),
    [
        (FlowBuilder.start(times(2)).through(times(3)), 6.0),
        (FlowBuilder.start(), 1.0),
        (FlowBuilder.start(lambda x: x + 1), 2.0),
        (FlowBuilder.start().split(times(2), times(4)).merge(), 6.0),
        (FlowBuilder.start().split([times(2), times(4)]).merge(MergeOp.MEAN), 3.0),
        (FlowBuilder.start().also(times(2)), 3.0),
    ],
)
def test_methods_continue_the_stream(flow: FlowBuilder, expected: float) -> None:
    assert flow.build()(ONE).item() == expected


def test_all_mistakes_are_listed_at_once() -> None:
    flow = FlowBuilder.start(nn.GELU).tag("a").tag("a").merge("add").label("a.b")
    with pytest.raises(ValueError, match="cannot be built") as raised:
        flow.split(times(1), times(2)).build()
    assert str(raised.value).splitlines()[1:] == [
        "  1. through got the class GELU; write GELU(...)",
        "  2. tag 'a' is taken",
        "  3. merge needs several streams, after a split",
        "  4. label 'a.b' may not contain a dot or a slash",
        "  5. 2 streams are left unmerged at the end",
    ]


def inner() -> Graph:
    return FlowBuilder.start(times(1)).label("part").build()


@pytest.mark.parametrize(
    ("flow", "words"),
    [
        (FlowBuilder.start().split(times(1)), "at least two parts"),
        (FlowBuilder.start().split(times(1), times(1)).through(times(1)), "merge them"),
        (FlowBuilder.start().split(times(1), times(1)).tag("x"), "use tag_group"),
        (FlowBuilder.start().tag_group("x"), "needs several streams"),
        (FlowBuilder.start().split(times(1), times(1)).merge("max"), "'add' or 'mean', got 'max'"),
        (FlowBuilder.start(FlowBuilder()), "call its build"),  # type: ignore[arg-type]
        (FlowBuilder.start(3), "modules or functions, got int"),  # type: ignore[arg-type]
        (FlowBuilder.start().tag(""), "non-empty"),
        (FlowBuilder.start().tag("a\nb"), "printable"),
        (FlowBuilder.start(times(1)).tag("linear_2").through(times(1)), "id of another node"),
        (FlowBuilder.start().tag("x_1").split(times(1), times(1)).tag_group("x"), "'x_1' is taken"),
        (FlowBuilder.start(inner()).through(nn.Sequential(inner())), "are labelled 'part'"),
        (FlowBuilder.start(inner()).tag("part"), "both a tag and the label"),
    ],
)
def test_a_mistake_is_named(flow: FlowBuilder, words: str) -> None:
    with pytest.raises(ValueError, match="cannot be built") as raised:
        flow.build()
    assert words in str(raised.value)
