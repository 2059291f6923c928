"""Recording, flushing and what is remembered."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from epochal import FlowBuilder, Graph
from epochal.api.monitor import HasLatestMetrics
from epochal.errors import MetricNotFoundError, UsageError
from epochal.journal.reader import read_journal
from epochal.run.run import recorder_of
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
    scan = FlowBuilder.start(nn.Linear(4, 4)).tag("out").label("subscan").build()
    letter = FlowBuilder.start(nn.Linear(4, 4)).tag("out").label("letter").build()
    return FlowBuilder.start(scan).through(nn.Sequential(letter)).label("model").build()


X = torch.ones(2, 4)


def test_a_flush_makes_the_mean_one_point() -> None:
    graph = network()
    for value in (1.0, 2.0, 6):
        graph.record_scalar("loss", value)
    graph.flush()
    assert graph.latest_metrics() == {"loss": 3.0}


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
    assert graph.observation.points("loss").nonfinite == [2]


def test_an_epoch_of_nothing_but_nan_is_nan() -> None:
    graph = network()
    graph.record_scalar("loss", math.nan)
    graph.flush()
    assert math.isnan(graph.latest_metrics()["loss"])
    assert graph.observation.points("loss").nonfinite == [1]


@given(st.lists(st.floats(-1e6, 1e6), min_size=1))
def test_the_mean_lies_between_the_values(values: list[float]) -> None:
    observation = Observation()
    for value in values:
        observation.record("x", value)
    observation.flush()
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


def test_the_output_of_a_tag_is_that_of_the_last_forward() -> None:
    encoder = nn.Linear(4, 8)
    graph = FlowBuilder.start(encoder).tag("encoder").through(nn.Linear(8, 1)).build()
    assert graph.tagged("encoder") is None
    for inputs in (X, -X):
        graph(inputs)
    assert torch.equal(graph.tagged("encoder"), encoder(-X))
    with pytest.raises(UsageError, match="No node is tagged 'encodr'"):
        graph.tagged("encodr")


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


def test_groups_are_expanded_everywhere() -> None:
    graph = network()
    members = ["head_0", "head_1", "head_2"]
    for _ in range(3):
        graph(X)
        graph.collect("head")
        graph.flush("head")
    assert list(graph.latest_metrics()) == members
    assert graph.trends(["head"]).names() == members
    assert graph.trends(["head"]).mean_slope(2) == 0.0


def test_unknown_names_raise_and_name_near_ones() -> None:
    graph = network()
    graph(X)
    graph.record_scalar("loss", 1.0)
    with pytest.raises(ValueError, match="did you mean 'encoder'"):
        graph.collect("encoderr")
    with pytest.raises(MetricNotFoundError, match="did you mean 'loss'"):
        graph.flush(["los"])
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
    assert graph.flush_count == 1


def test_a_child_records_under_its_label() -> None:
    graph = tree()
    graph.record_at("subscan.ce", 0.5)
    graph.record_at("letter.accuracy", 0.75)
    graph.record_scalar("total", 1.0)
    graph.flush()
    assert graph.latest_metrics() == {"total": 1.0, "subscan.ce": 0.5, "letter.accuracy": 0.75}
    assert list(graph.latest_metrics()) == ["total", "subscan.ce", "letter.accuracy"]
    assert graph.trend("subscan.ce").values() == [0.5]
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


def test_groups_of_children_are_expanded() -> None:
    outer = FlowBuilder.start(network("inner")).build()
    outer(X)
    for number in range(3):
        outer.record_at(f"inner.head_{number}", 1.0)
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
    assert len(graph.observation._open["loss"].host) == 800


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
    assert after.points("loss").nonfinite == [0, 1, 0]


def test_a_graphs_history_goes_through_json() -> None:
    graph, twin = tree(), tree()
    graph.record_at("subscan.ce", 0.1)
    graph.record_scalar("total", math.inf)
    graph.end_epoch()
    twin.restore_observation(json.loads(json.dumps(graph.observation_state())))
    assert twin.latest_metrics() == pytest.approx(graph.latest_metrics(), nan_ok=True)
    assert twin.flush_count == 1
    with pytest.raises(ValueError, match="version 1"):
        twin.restore_observation({"": {"version": 1}})
