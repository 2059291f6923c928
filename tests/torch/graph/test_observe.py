"""Recording, flushing and what is remembered."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from epochal import FlowBuilder, Graph
from epochal.errors import MetricNotFoundError
from epochal.journal.reader import read_journal
from epochal.monitor import HasLatestMetrics
from epochal.run.run import recorder_of
from epochal.torch import Reduce
from epochal.torch.graph.observe import Observation
from tests.conftest import StartRun


def network(label: str = "net") -> Graph:
    return (
        FlowBuilder.start(nn.Linear(4, 8))
        .tag("encoder")
        .split(nn.Linear(8, 1), nn.Linear(8, 1), nn.Linear(8, 1))
        .tag_group("head")
        .merge("mean")
        .through(lambda x: x.mean())
        .tag("score")
        .label(label)
        .build()
    )


def tree() -> Graph:
    scan = FlowBuilder.start(nn.Linear(4, 4)).tag("out").tag("_raw").label("subscan").build()
    letter = FlowBuilder.start(nn.Linear(4, 4)).tag("out").internal("out").label("letter").build()
    return FlowBuilder.start(scan).through(nn.Sequential(letter)).label("model").build()


X = torch.ones(2, 4)


def test_a_flush_makes_the_mean_one_point() -> None:
    graph = network()
    for value in (1.0, 2.0, 6):
        graph.record_scalar("loss", value)
    assert graph.collected("loss") == [1.0, 2.0, 6.0]
    graph.flush()
    assert graph.latest_metrics() == {"loss": 3.0}
    assert graph.collected("loss") == []


def test_the_mean_is_weighted_when_asked() -> None:
    graph = network()
    graph.record_scalar("loss", 1.0, weight=32)
    graph.record_scalar("loss", torch.tensor(5.0), weight=8)
    graph.flush()
    assert graph.latest_metrics() == {"loss": 1.8}


@pytest.mark.parametrize("weight", [-1, math.nan, "many", None])
def test_a_value_without_a_weight_is_left_out(weight: Any) -> None:
    graph = network()
    graph.record_scalar("loss", 9.0, weight=weight)
    graph.record("loss", [9.0], weight=weight)
    graph.record_scalar("loss", 1.0)
    graph.flush()
    assert graph.latest_metrics() == {"loss": 1.0}


def test_several_values_are_recorded_at_once() -> None:
    graph = network()
    graph.record("loss", [1.0, 2.0])
    graph.record("loss", torch.tensor([[3.0], [6.0]]))
    graph.flush()
    assert graph.latest_metrics() == {"loss": 3.0}


def test_what_is_no_number_is_left_out_and_the_rest_is_recorded() -> None:
    graph = network()
    for value in ("low", None, object(), torch.ones(2), [1.0], {}, 1j, 2.0):
        graph.record_scalar("loss", value)
    graph.record("loss", [4.0, None, "high", 6.0])
    graph.record("loss", 3.0)
    graph.record(("odd", 1), [5.0])  # type: ignore[arg-type]
    graph.record_scalar("", 5.0)
    graph.flush()
    assert graph.latest_metrics() == {"loss": 4.0, "('odd', 1)": 5.0}


def test_the_run_is_told_once_of_what_was_left_out(start_run: StartRun) -> None:
    run, graph = start_run(), network()
    for _ in range(3):
        graph.record_scalar("loss", None)
        graph.collect("score")
    events = [r for _, r in read_journal(recorder_of(run).folder) if r["log"] == "event"]
    assert [(e["name"], e["name_of"]) for e in events] == [
        ("value-dropped", "loss"),
        ("value-dropped", "score"),
    ]


def test_a_strict_graph_names_what_it_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EPOCHAL_STRICT", "1")
    graph = network()
    with pytest.raises(TypeError, match="'loss'"):
        graph.record_scalar("loss", "low")
    with pytest.raises(TypeError, match="'loss' holds 2 values"):
        graph.record_scalar("loss", torch.ones(2))
    with pytest.raises(ValueError, match="at least 0"):
        graph.record_scalar("loss", 1.0, weight=-1)
    with pytest.raises(ValueError, match="record_scalar takes one"):
        graph.record("loss", 3.0)
    graph.flush()
    assert graph.latest_metrics() == {}


def test_a_nan_is_counted_and_does_not_spread() -> None:
    graph = network()
    for value in (1.0, math.nan, math.inf, 3.0):
        graph.record_scalar("loss", value)
    graph.record_scalar("other", 1.0)
    graph.flush()
    assert graph.latest_metrics() == {"loss": 2.0, "other": 1.0}
    assert graph.nonfinite() == {"loss": 2}


def test_an_epoch_of_nothing_but_nan_is_nan() -> None:
    graph = network()
    graph.record_scalar("loss", math.nan)
    graph.flush()
    assert math.isnan(graph.latest_metrics()["loss"])
    assert graph.nonfinite() == {"loss": 1}


@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(0.001, 100.0)), min_size=1))
def test_the_mean_lies_between_the_values(records: list[tuple[float, float]]) -> None:
    observation = Observation()
    for value, weight in records:
        observation.record("x", value, weight=weight)
    observation.flush()
    values = [value for value, _ in records]
    mean = observation.latest()["x"]
    tolerance = 1e-9 * max(1.0, *map(abs, values))
    assert min(values) - tolerance <= mean <= max(values) + tolerance


def test_collect_takes_tagged_numbers_of_the_last_forward() -> None:
    graph = network()
    output = graph(X)
    graph.collect("score")
    graph.flush(["score"])
    assert graph.latest_metrics()["score"] == pytest.approx(output.item())


def test_collect_needs_a_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    network().collect("score")
    monkeypatch.setenv("EPOCHAL_STRICT", "1")
    with pytest.raises(ValueError, match="needs a forward"):
        network().collect("score")


def test_collect_of_many_values_records_their_mean() -> None:
    graph = network()
    graph(X)
    graph.collect(["encoder"])
    graph.flush()
    mean = graph.tagged("encoder").mean().item()
    assert graph.latest_metrics()["encoder"] == pytest.approx(mean)


def test_collect_of_what_is_no_tensor_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = FlowBuilder.start(nn.LSTM(4, 2)).tag("rnn").build()
    graph(X)
    graph.collect("rnn")
    monkeypatch.setenv("EPOCHAL_STRICT", "1")
    with pytest.raises(ValueError, match=r"'rnn' is a tuple.*record_scalar"):
        graph.collect("rnn")


@pytest.mark.parametrize("reduction", [*Reduce, "norm"])
def test_collect_with_reduces(reduction: Reduce | str) -> None:
    graph = network()
    graph(X)
    graph.collect_with(["encoder"], reduction)
    graph.flush()
    value = graph.tagged("encoder").detach()
    name = Reduce(reduction).value
    expected = value.norm() if name == "norm" else getattr(value, name)()
    assert graph.latest_metrics()["encoder"] == pytest.approx(float(expected), rel=1e-5)


def test_an_unknown_reduction_is_refused() -> None:
    with pytest.raises(ValueError, match="'median' is not known"):
        network().collect_with(["encoder"], "median")


def test_groups_are_expanded_everywhere() -> None:
    graph = network()
    members = ["head_0", "head_1", "head_2"]
    for _ in range(3):
        graph(X)
        graph.collect_with("head", "sum")
        graph.flush("head")
    assert list(graph.latest_metrics()) == members
    assert graph.trends(["head"]).names() == members
    assert graph.trends(["head"]).mean_slope(2) == 0.0
    graph.reset_trend("head")
    assert graph.trend("head_1").values() == []


def test_unknown_names_raise_and_name_near_ones() -> None:
    graph = network()
    graph(X)
    graph.record_scalar("loss", 1.0)
    with pytest.raises(ValueError, match="did you mean 'encoder'"):
        graph.collect("encoderr")
    with pytest.raises(MetricNotFoundError, match="did you mean 'loss'"):
        graph.flush(["los"])
    assert graph.collected("loss") == [1.0]
    with pytest.raises(MetricNotFoundError, match="known are 'loss'"):
        graph.trend("accuracy")


def test_a_tag_that_was_never_collected_has_an_empty_trend() -> None:
    graph = network()
    graph.flush("head")
    assert graph.trend("head_0").values() == []


def test_a_flush_that_finds_nothing_does_not_count() -> None:
    graph = network()
    graph.record_scalar("loss", 1.0)
    graph.flush()
    graph.flush()
    graph.end_epoch()
    assert (graph.flush_count, graph.epoch_count) == (1, 1)


def test_a_child_records_under_its_label() -> None:
    graph = tree()
    graph.record_at("subscan.ce", 0.5)
    graph.record_at("letter.accuracy", 0.75)
    graph.record_scalar("total", 1.0)
    graph.flush()
    assert graph.latest_metrics() == {"total": 1.0, "subscan.ce": 0.5, "letter.accuracy": 0.75}
    assert list(graph.latest_metrics()) == ["total", "subscan.ce", "letter.accuracy"]
    assert graph.latest_metrics_local() == {"total": 1.0}
    assert graph.trend("subscan.ce").values() == graph.trend_at("subscan.ce").values() == [0.5]
    assert isinstance(graph, HasLatestMetrics)


def test_flush_local_leaves_the_children_alone() -> None:
    graph = tree()
    graph.record_at("subscan.ce", 0.5)
    graph.record_scalar("total", 1.0)
    graph.flush_local()
    assert graph.latest_metrics() == {"total": 1.0}
    graph.flush(["subscan.ce"])
    assert graph.latest_metrics() == {"total": 1.0, "subscan.ce": 0.5}
    with pytest.raises(MetricNotFoundError):
        graph.flush_local(["subscan.ce"])


def test_a_record_for_a_child_must_go_through_its_path() -> None:
    with pytest.raises(ValueError, match="use record_at"):
        tree().record_scalar("subscan.ce", 1.0)
    with pytest.raises(ValueError, match="did you mean 'subscan'"):
        tree().record_at("subscam.ce", 1.0)


def test_a_dot_in_a_metric_of_its_own_is_no_path() -> None:
    graph = tree()
    graph.record_scalar("val.loss", 1.0)
    graph.flush(["val.loss"])
    assert graph.trend("val.loss").latest() == 1.0


def test_hidden_tags_cannot_be_read_from_outside() -> None:
    graph = tree()
    graph(X)
    assert graph.tagged_at("subscan.out") is not None
    for path in ("subscan._raw", "letter.out"):
        with pytest.raises(ValueError, match="internal"):
            graph.tagged_at(path)
    assert graph.child_graph("letter").tagged("out") is not None
    graph.collect_at("subscan.out", "mean")
    graph.child_graph("letter").collect_with("out", "mean")
    graph.flush()
    assert list(graph.latest_metrics()) == ["subscan.out"]


def test_paths_are_walked_and_checked() -> None:
    outer = FlowBuilder.start(tree()).label("outer").build()
    assert outer.is_composed
    assert list(outer.tree_children()) == ["model"]
    assert outer.subgraph("model.letter").label == "letter"
    outer.validate_path("model.subscan.out")
    for path in ("model.subscan.nothing", "model.nobody.out", "nothing"):
        with pytest.raises(ValueError, match=r"nothing|nobody"):
            outer.validate_path(path)


def test_groups_of_children_are_expanded() -> None:
    outer = FlowBuilder.start(network("inner")).build()
    outer(X)
    outer.collect_at("inner.head", "mean")
    outer.flush("inner.head")
    assert outer.trends("inner.head").names() == ["inner.head_0", "inner.head_1", "inner.head_2"]


def test_threads_record_side_by_side() -> None:
    graph = network()

    def work() -> None:
        for _ in range(200):
            graph.record_scalar("loss", 1.0)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(graph.collected("loss")) == 800
    graph.flush()
    assert graph.latest_metrics() == {"loss": 1.0}


def test_a_thread_drains_its_own_and_another_absorbs_it() -> None:
    graph, other = network(), network()
    graph.record_scalar("loss", 1.0)
    drained = []

    def work() -> None:
        other.record_scalar("loss", 4.0, weight=3.0)
        drained.append(other.drain_scalars())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert other.drain_scalars() == {}
    graph.absorb_scalars(drained[0])
    graph.flush()
    assert graph.latest_metrics() == {"loss": 3.25}


def scripted_clock(*times: float) -> Iterator[float]:
    yield from times


def test_the_time_left_is_by_the_median_flush() -> None:
    ticks = scripted_clock(100.0, 110.0, 120.0, 220.0)
    observation = Observation(clock=lambda: next(ticks))
    assert math.isnan(observation.eta(10))
    for _ in range(3):
        observation.record("loss", 1.0)
        observation.flush()
    assert observation.flush_seconds == [10.0, 10.0, 100.0]
    assert observation.eta(10) == 70.0
    assert observation.eta(3) == observation.eta(2) == 0.0


def test_after_a_restart_only_what_is_left_counts() -> None:
    before = Observation()
    for value in (3.0, math.nan):
        before.record("loss", value)
        before.flush()
    ticks = scripted_clock(1000.0, 1005.0)
    after = Observation(clock=lambda: next(ticks))
    after.restore(json.loads(json.dumps(before.state())))
    assert after.flush_count == 2
    after.record("loss", 1.0)
    after.flush()
    assert after.eta(10) == 35.0
    assert after.points("loss").flushes == [1, 2, 3]
    assert after.nonfinite() == {}


def test_a_graphs_history_goes_through_json() -> None:
    graph, twin = tree(), tree()
    graph.record_at("subscan.ce", 0.1)
    graph.record_scalar("total", math.inf)
    graph.end_step()
    graph.end_epoch()
    twin.restore_observation(json.loads(json.dumps(graph.observation_state())))
    assert twin.latest_metrics() == pytest.approx(graph.latest_metrics(), nan_ok=True)
    assert (twin.step_count, twin.epoch_count, twin.flush_count) == (1, 1, 1)
    with pytest.raises(ValueError, match="version 2"):
        twin.restore_observation({"": {"version": 2}})


def test_steps_let_go_of_the_autograd_graph() -> None:
    graph = network()
    graph(X)
    assert graph.tagged("encoder").requires_grad
    graph.end_step()
    assert not graph.tagged("encoder").requires_grad
    assert graph.step_count == 1
    assert network().tagged("encoder") is None
