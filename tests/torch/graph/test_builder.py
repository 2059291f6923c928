"""The verbs, and what build() says about mistakes."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from epochal import FlowBuilder, Graph
from epochal.torch import MergeOp


def times(factor: float) -> nn.Module:
    layer = nn.Linear(3, 3, bias=False)
    nn.init.eye_(layer.weight)
    with torch.no_grad():
        layer.weight.mul_(factor)
    return layer


X = torch.arange(6.0).reshape(2, 3) + 1


def faults_of(flow: FlowBuilder) -> str:
    with pytest.raises(ValueError, match="cannot be built") as caught:
        flow.build()
    return str(caught.value)


def test_a_chain_runs_in_order() -> None:
    graph = FlowBuilder.start(times(2)).through(lambda x: x + 1).build()
    assert torch.equal(graph(X), 2 * X + 1)


def test_a_bare_start_is_the_input() -> None:
    assert torch.equal(FlowBuilder.start().build()(X), X)


@pytest.mark.parametrize(("op", "factor"), [("add", 5.0), (MergeOp.MEAN, 2.5)])
def test_split_streams_are_merged(op: MergeOp | str, factor: float) -> None:
    graph = FlowBuilder.start().split(times(2), times(3)).merge(op).build()
    assert torch.equal(graph(X), factor * X)


def test_split_takes_a_list_as_well() -> None:
    graph = FlowBuilder.start().split([times(2), times(3), times(4)]).merge("add").build()
    assert torch.equal(graph(X), 9 * X)


def test_also_adds_a_part_to_the_stream() -> None:
    assert torch.equal(FlowBuilder.start().also(times(2)).build()(X), 3 * X)


def test_also_with_puts_a_part_on_the_skip_side() -> None:
    graph = FlowBuilder.start().also_with(times(10), times(2)).build()
    assert torch.equal(graph(X), 12 * X)


def test_a_fork_leaves_the_stream_and_is_named_by_the_next_tag() -> None:
    graph = FlowBuilder.start(times(2)).fork(times(10)).tag("side").through(times(3)).build()
    assert torch.equal(graph(X), 6 * X)
    assert torch.equal(graph.tagged("side"), 20 * X)


def test_using_reads_a_tag_further_back() -> None:
    graph = (
        FlowBuilder.start(times(2)).tag("early").through(times(3)).through(torch.add).using("early")
    ).build()
    assert torch.equal(graph(X), 8 * X)


def test_using_a_group_passes_all_members() -> None:
    graph = (
        FlowBuilder.start()
        .split(times(1), times(2))
        .tag_group("side")
        .merge("add")
        .through(lambda x, a, b: x + 10 * a + 100 * b)
        .using("side")
        .build()
    )
    assert torch.equal(graph(X), 213 * X)


def test_more_inputs_are_passed_in_order_or_by_name() -> None:
    graph = (
        FlowBuilder.start()
        .input("left", "right")
        .through(lambda x, a, b: x + a - b)
        .using("left", "right")
    ).build()
    assert torch.equal(graph(X, 2 * X, X), 2 * X)
    assert torch.equal(graph(X, right=X, left=2 * X), 2 * X)


def test_missing_and_unknown_inputs_are_named() -> None:
    graph = FlowBuilder.start().input("mask").through(torch.add).using("mask").build()
    with pytest.raises(ValueError, match="missing: mask"):
        graph(X)
    with pytest.raises(ValueError, match="unknown: mask_2"):
        graph(X, X, mask_2=X)
    with pytest.raises(ValueError, match="each once"):
        graph(X, X, X)


def test_a_forward_reference_is_the_value_of_the_call_before() -> None:
    graph = FlowBuilder.start().through(torch.add).using("total").tag("total").build()
    assert torch.equal(graph(X), X)
    assert torch.equal(graph(X), 2 * X)
    graph.end_sequence()
    assert torch.equal(graph(X), X)


def test_a_carried_value_can_have_its_own_beginning() -> None:
    graph = (
        FlowBuilder.start().through(torch.add).using("total", initial=torch.ones_like).tag("total")
    ).build()
    assert torch.equal(graph(X), X + 1)


def test_a_state_further_on_is_read_before_it_is_written() -> None:
    graph = (
        FlowBuilder.start().through(torch.add).using("late").through(times(2)).tag("late").build()
    )
    assert torch.equal(graph(X), 2 * X)
    assert torch.equal(graph(X), 6 * X)


def test_end_step_cuts_the_gradient_of_what_is_carried() -> None:
    graph = FlowBuilder.start(times(2)).through(torch.add).using("h").tag("h").build()
    graph(X)
    graph.end_step()
    graph(X).sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        graph(X).sum().backward()


def test_another_batch_size_in_a_sequence_says_what_to_do() -> None:
    graph = FlowBuilder.start().through(torch.add).using("h").tag("h").build()
    graph(X)
    with pytest.raises(ValueError, match="end_sequence"):
        graph(X[:1])


def test_a_loop_runs_for_a_number_of_times() -> None:
    assert torch.equal(FlowBuilder.start().loop(times(2)).for_n(3).build()(X), 8 * X)


def test_a_while_loop_asks_before_and_an_until_loop_after() -> None:
    def large(x: Tensor) -> Tensor:
        return x.max() > 20

    asks_before = FlowBuilder.start().loop(times(2)).while_cond(lambda x: ~large(x), 10).build()
    asks_after = FlowBuilder.start().loop(times(2)).until_cond(large, 10).build()
    assert torch.equal(asks_before(X), 4 * X)
    assert torch.equal(asks_before(10 * X), 10 * X)
    assert torch.equal(asks_after(10 * X), 20 * X)


def test_a_loop_stops_at_its_limit() -> None:
    graph = FlowBuilder.start().loop(times(2)).while_cond(lambda x: True, 4).build()
    assert torch.equal(graph(X), 16 * X)


def test_a_condition_of_many_values_is_refused() -> None:
    graph = FlowBuilder.start().loop(times(2)).while_cond(lambda x: x > 0, 4).build()
    with pytest.raises(ValueError, match="6 values"):
        graph(X)


def test_a_loops_body_reads_references() -> None:
    graph = FlowBuilder.start().tag("x").loop(torch.add).for_n(2).using("x").build()
    assert torch.equal(graph(X), 3 * X)


class Halving(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        self.seen = x
        return x / 2

    def trace(self) -> dict[str, Tensor]:
        return {"mean": self.seen.mean()}


def test_a_loop_keeps_what_its_body_emits_in_each_iteration() -> None:
    graph = FlowBuilder.start().loop(Halving()).for_n(3).tag("halve").build()
    graph(X)
    assert [float(one) for one in graph.traces("halve", "mean")] == [3.5, 1.75, 0.875]
    last = graph.last_trace("halve", "mean")
    assert last is not None
    assert float(last) == 0.875
    with pytest.raises(ValueError, match="did you mean 'mean'"):
        graph.traces("halve", "means")


def test_a_switch_runs_one_branch() -> None:
    graph = (
        FlowBuilder.start()
        .input("which")
        .switch(lambda x, which: which, times(2), times(3))
        .using("which")
    ).build()
    assert torch.equal(graph(X, 1), 3 * X)
    assert torch.equal(graph(X, torch.tensor(0)), 2 * X)
    with pytest.raises(ValueError, match="chose branch 2; there are branches 0 to 1"):
        graph(X, 2)


def test_a_gate_mixes_its_experts_by_the_routers_weights() -> None:
    graph = (
        FlowBuilder.start()
        .gate(lambda x: torch.tensor([[0.25, 0.75], [1.0, 0.0]]), times(4), times(8))
        .build()
    )
    assert torch.equal(graph(X), X * torch.tensor([[7.0], [4.0]]))


def test_a_router_with_too_few_weights_is_refused() -> None:
    graph = FlowBuilder.start().gate(lambda x: x[:, :2], times(1), times(2), times(3)).build()
    with pytest.raises(ValueError, match="2 weights"):
        graph(X)


def test_a_map_applies_its_body_to_every_row() -> None:
    def centred(x: Tensor) -> Tensor:
        return x - x.mean()

    each = FlowBuilder.start().map(centred).each().build()
    assert torch.equal(each(X), X - X.mean(1, keepdim=True))
    assert torch.equal(FlowBuilder.start().map(times(2)).batched().each().build()(X), 2 * X)


def test_a_map_over_a_tag_makes_it_the_stream() -> None:
    flow = FlowBuilder.start(times(2)).tag("early").through(times(100)).map(times(3)).over("early")
    assert torch.equal(flow.build()(X), 6 * X)


@pytest.mark.parametrize("batched", [False, True])
def test_a_map_of_slices_cuts_the_last_dimension(batched: bool) -> None:
    body = nn.Linear(2, 5)
    flow = FlowBuilder.start().map(body)
    graph = (flow.batched() if batched else flow).slices(3).build()
    x = torch.randn(4, 7, 6)
    expected = torch.cat([body(piece) for piece in x.chunk(3, -1)], -1)
    assert torch.allclose(graph(x), expected, atol=1e-6)
    with pytest.raises(ValueError, match="divides, got 3"):
        FlowBuilder.start().map(times(1)).slices(2).build()(X)


def test_all_mistakes_are_listed_at_once() -> None:
    flow = (
        FlowBuilder.start(nn.GELU)
        .tag("a")
        .tag("a")
        .through(times(1))
        .using("nothing")
        .merge("add")
        .label("a.b")
        .loop(times(1))
        .for_n(0)
        .internal("b")
        .split(times(1), times(2))
    )
    text = faults_of(flow)
    for number, words in enumerate(
        [
            "the class GELU",
            "tag 'a' is taken",
            "merge needs several streams",
            "label 'a.b' may not contain a dot",
            "at least 1, got 0",
            "2 streams are left unmerged",
            "internal('b') names no tag",
            "using('nothing') at linear_1 names nothing",
        ],
        1,
    ):
        assert f"  {number}. " in text
        assert words in text


@pytest.mark.parametrize(
    ("flow", "words"),
    [
        (FlowBuilder.start().split(times(1)), "at least two parts"),
        (FlowBuilder.start().split(times(1), times(1)).through(times(1)), "merge them"),
        (FlowBuilder.start().split(times(1), times(1)).tag("x"), "use tag_group"),
        (FlowBuilder.start().tag_group("x"), "needs several streams"),
        (FlowBuilder.start().using("x"), "must follow a single part"),
        (FlowBuilder.start().split(times(1), times(1)).merge("max"), "'add' or 'mean', got 'max'"),
        (FlowBuilder.start(FlowBuilder()), "call its build"),  # type: ignore[arg-type]
        (FlowBuilder.start(3), "modules or functions, got int"),  # type: ignore[arg-type]
        (FlowBuilder.start().tag(""), "non-empty"),
        (FlowBuilder.start().input("a").tag("a"), "taken"),
        (FlowBuilder.start().map(times(1)).over("later"), "written before it"),
        (FlowBuilder.start(times(1)).tag("linear_2").through(times(1)), "id of another node"),
    ],
)
def test_a_mistake_is_named(flow: FlowBuilder, words: str) -> None:
    assert words in faults_of(flow)


def test_a_groups_names_may_not_be_taken() -> None:
    flow = FlowBuilder.start().tag("x_1").split(times(1), times(1)).tag_group("x").merge("add")
    assert "tag 'x_1' is taken" in faults_of(flow)


def test_build_can_be_repeated_after_a_mistake_was_put_right() -> None:
    flow = FlowBuilder.start(times(1)).internal("b")
    faults_of(flow)
    assert isinstance(flow.tag("b").build(), Graph)


def test_graphs_inside_need_labels_of_their_own() -> None:
    def inner() -> Graph:
        return FlowBuilder.start(times(1)).label("part").build()

    assert "two graphs inside this one are labelled 'part'" in faults_of(
        FlowBuilder.start(inner()).through(nn.Sequential(inner()))
    )
    assert "both a tag and the label" in faults_of(FlowBuilder.start(inner()).tag("part"))


def test_a_verbose_build_prints_the_tree_and_the_parameters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    builder = FlowBuilder.start(nn.Linear(2, 3)).label("net").verbose()
    graph = builder.build()
    assert capsys.readouterr().out == f"{graph.tree_summary()}\n{graph.param_summary()}\n"
    builder.verbose(False).build()
    assert capsys.readouterr().out == ""
