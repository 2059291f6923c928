"""What a run records of a training with torch without being asked."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import optimizer as torch_optimizer
from torch.utils.data.dataloader import _BaseDataLoaderIter

import epochal
from epochal.run.run import Run
from epochal.torch.guarded import paused_hooks
from tests.conftest import StartRun
from tests.doubles.journals import of_kind
from tests.torch.facts.trainings import Body, events, loader_of, train


@pytest.fixture
def run(start_run: StartRun) -> Run:
    return start_run(facts=True)


def test_an_optimizer_and_its_model_are_recorded(run: Run) -> None:
    train(run, Body(), loader_of(24))
    (model,), (optimizer,) = events(run, "model"), events(run, "optimizer")
    assert (model["parameters"], model["elements"]) == (4, 67)
    assert (optimizer["at_step"], optimizer["optimizer"], optimizer["parameters"]) == (0, "SGD", 4)


def test_parameters_behind_detach_have_no_gradient(run: Run) -> None:
    train(run, Body(is_detached=True), loader_of(96))
    (absent,) = events(run, "parameters-without-gradient")
    assert (absent["at_step"], absent["parameters"], absent["of"]) == (9, 2, 4)
    assert absent["names"] == ["body.weight", "body.bias"]


def test_parameters_that_get_gradients_later_are_no_news_any_more(run: Run) -> None:
    model = Body(is_detached=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    train(run, model, loader_of(96), optimizer=optimizer)
    model.is_detached = False
    train(run, model, loader_of(96), optimizer=optimizer)
    counts = [one["parameters"] for one in events(run, "parameters-without-gradient")]
    assert counts == [2, 0]


def test_an_optimizer_without_any_gradient_says_nothing(run: Run) -> None:
    model = Body()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def take_gradients() -> None:
        for one in model.parameters():
            one.grad = None

    train(run, model, loader_of(96), optimizer=optimizer, before_step=take_gradients)
    assert events(run, "parameters-without-gradient") == []


def test_passes_of_a_step_are_counted(run: Run) -> None:
    train(run, Body(), loader_of(24 * 8), passes=3)
    (passes,) = events(run, "passes")
    assert (passes["least"], passes["most"], passes["steps"]) == (3, 3, 20)


def test_gradients_that_are_not_reset_are_recorded(run: Run) -> None:
    train(run, Body(), loader_of(96), reset=False)
    (kept,) = events(run, "gradients-kept")
    assert kept["parameter"] == "body.weight"


def test_parameters_beside_the_optimizer_are_recorded(run: Run) -> None:
    model = Body()
    train(run, model, loader_of(96), optimizer=torch.optim.SGD(model.head.parameters(), lr=0.01))
    (unowned,) = events(run, "parameters-without-optimizer")
    assert unowned["names"] == ["body.weight", "body.bias"]


def test_the_wrapper_of_a_compiled_model_leaves_the_names(run: Run) -> None:
    model = Body(is_detached=True)
    wrapped: Any = torch.compile(model, backend="eager")
    train(run, wrapped, loader_of(96), optimizer=torch.optim.SGD(model.parameters(), lr=0.01))
    (absent,) = events(run, "parameters-without-gradient")
    assert absent["names"] == ["body.weight", "body.bias"]


def test_a_model_is_compiled_once(run: Run) -> None:
    graphs = []

    def backend(graph: torch.fx.GraphModule, _: list[torch.Tensor]) -> object:
        graphs.append(graph)
        return graph.forward

    model = Body()
    model.compile(backend=backend)
    train(run, model, loader_of(96))
    run.finish()
    assert len(graphs) == 1


def test_two_models_have_names_of_their_own(run: Run) -> None:
    first, second = Body(is_detached=True), nn.Sequential(nn.Linear(4, 3))
    both = [*first.parameters(), *second.parameters()]
    optimizer = torch.optim.SGD(both, lr=0.01)
    for step in range(12):
        inputs = torch.randn(8, 4)
        (first(inputs) + second(inputs)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        run.log({"loss": 1.0}, step=step)
    (model,) = events(run, "model")
    assert model["parameters"] == 6


def test_a_model_is_not_kept_alive(run: Run) -> None:
    model = Body()
    train(run, model, loader_of(24))
    parameter = weakref.ref(model.head.weight)
    del model
    gc.collect()
    assert parameter() is None


def test_what_watch_records_is_recorded_once(run: Run) -> None:
    model = Body(is_detached=True)
    epochal.watch(model, run)
    train(run, model, loader_of(96))
    assert len(events(run, "optimizer")) == len(events(run, "model")) == 1
    assert len(events(run, "parameters-without-gradient")) == 1


@pytest.mark.parametrize("is_asked", [True, False])
def test_torch_is_as_before_when_the_run_has_ended(start_run: StartRun, is_asked: bool) -> None:
    hooks, iterate = len(torch_optimizer._global_optimizer_pre_hooks), _BaseDataLoaderIter.__next__
    run, model = start_run(facts=is_asked), Body()
    assert (_BaseDataLoaderIter.__next__ is not iterate) == is_asked
    train(run, model, loader_of(24))
    run.finish()
    assert len(torch_optimizer._global_optimizer_pre_hooks) == hooks
    assert _BaseDataLoaderIter.__next__ is iterate
    assert not any(one._post_accumulate_grad_hooks for one in model.parameters())


def test_a_second_run_of_a_process_leaves_torch_to_the_first(run: Run, start_run: StartRun) -> None:
    iterate = _BaseDataLoaderIter.__next__
    second = start_run("second", facts=True)
    assert _BaseDataLoaderIter.__next__ is iterate
    second.finish()
    assert _BaseDataLoaderIter.__next__ is iterate


def test_what_runs_while_hooks_are_paused_is_no_training(run: Run) -> None:
    with paused_hooks():
        train(run, Body(), loader_of(96))
    train(run, Body(is_detached=True), loader_of(96))
    (optimizer,) = events(run, "optimizer")
    assert optimizer["parameters"] == 4
    assert [one["samples"] for one in of_kind(run.dir, "data")] == [96]


def with_dropout() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.BatchNorm1d(8), nn.Linear(8, 3))


def test_training_in_evaluation_mode_is_recorded_until_it_ends(run: Run) -> None:
    model = with_dropout().eval()
    train(run, model, loader_of(96))
    train(run, model.train(), loader_of(16))
    wrong, right = events(run, "training-in-evaluation-mode")
    assert (wrong["dropouts"], wrong["batchnorms"], wrong["module"]) == (1, 1, "1")
    assert (right["dropouts"], right["batchnorms"]) == (0, 0)


@pytest.mark.parametrize("model", [with_dropout(), nn.Linear(4, 3).eval()])
def test_other_modes_are_right(run: Run, model: nn.Module) -> None:
    train(run, model, loader_of(96))
    assert events(run, "training-in-evaluation-mode") == []


def test_a_weight_decay_that_takes_much_is_recorded(run: Run) -> None:
    model = Body()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=10)
    train(run, model, loader_of(96), optimizer=optimizer)
    (decay,) = events(run, "weight-decay")
    assert (decay["decay"], decay["weight_decay"]) == (pytest.approx(0.01), 10)


@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.Adam, torch.optim.SGD])
def test_usual_weight_decays_are_not_recorded(run: Run, kind: type[torch.optim.SGD]) -> None:
    model = Body()
    train(run, model, loader_of(96), optimizer=kind(model.parameters(), lr=1e-2, weight_decay=0.1))
    assert events(run, "weight-decay") == []
