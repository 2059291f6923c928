"""The facts that `watch()` reads from the program: optimizers, inputs, and what the model is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import optimizer as torch_optimizer

from epochal.run.run import Run
from epochal.torch.watching import watch
from tests.conftest import StartRun
from tests.doubles.journals import of_kind
from tests.torch.waiting import no_waiting

UNOWNED = "parameters-without-optimizer"


def classifier() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


def trained(
    model: nn.Module,
    *optimizers: torch.optim.Optimizer,
    steps: int = 12,
    inputs: Callable[[], torch.Tensor] = lambda: torch.randn(16, 4),
) -> None:
    for _ in range(steps):
        model.zero_grad()
        model(inputs()).square().mean().backward()
        for optimizer in optimizers:
            optimizer.step()


def facts(run: Run, name: str) -> list[dict[str, Any]]:
    run.finish()
    told = of_kind(run.dir, "event")
    assert [one["reason"] for one in told if one["name"] == "internal-error"] == []
    return [one for one in told if one["name"] == name]


# -- steps -----------------------------------------------------------------------------------------


def test_the_first_steps_are_measured_often_and_later_ones_at_the_interval(
    start_run: StartRun,
) -> None:
    run, model = start_run(), classifier()
    watch(model, run, every=300)
    trained(model, torch.optim.SGD(model.parameters(), lr=0.01), steps=1003)
    run.finish()
    measured = [one["step"] for one in of_kind(run.dir, "metrics")]
    assert measured == [0, 1, 4, 9, 19, 49, 99, 199, 300, 499, 600, 900]
    assert {one["step"] for one in of_kind(run.dir, "histogram")} == {0, 300, 600, 900}


def test_rows_without_a_gradient_are_dead_units(start_run: StartRun) -> None:
    run, model = start_run(), classifier()
    with torch.no_grad():
        model.get_parameter("0.bias").fill_(10)[:2] = -100
    watch(model, run)
    trained(model, torch.optim.SGD(model.parameters(), lr=0.01), steps=1)
    run.finish()
    (record,) = of_kind(run.dir, "metrics")
    assert record["m"]["grads/0.weight/dead"] == 0.25
    assert record["m"]["grads/2.weight/dead"] == 0.0
    assert "grads/0.bias/dead" not in record["m"]


def test_words_that_are_not_in_a_batch_are_no_dead_units(start_run: StartRun) -> None:
    run = start_run()
    model = nn.Sequential(nn.Embedding(10, 4), nn.Linear(4, 2))
    watch(model, run)
    trained(
        model, torch.optim.SGD(model.parameters(), lr=0.1), steps=1, inputs=lambda: torch.arange(3)
    )
    run.finish()
    (record,) = of_kind(run.dir, "metrics")
    assert "grads/0.weight/dead" not in record["m"]
    assert record["m"]["grads/1.weight/dead"] == 0.0


# -- optimizers ------------------------------------------------------------------------------------


def test_an_optimizer_is_recorded_at_its_first_step(start_run: StartRun) -> None:
    run, model = start_run(), classifier()
    watch(model, run)
    groups = [
        {"params": model[0].parameters(), "lr": 0.1},
        {"params": model[2].parameters(), "weight_decay": 0.5},
    ]
    adam = torch.optim.AdamW(groups, lr=0.01, betas=(0.8, 0.9), weight_decay=0.0)
    trained(model, adam, steps=3)
    (event,) = facts(run, "optimizer")
    assert (event["at_step"], event["optimizer"], event["parameters"]) == (0, "AdamW", 4)
    first, second = event["groups"]
    assert first == {
        "parameters": 2,
        "elements": 40,
        "lr": 0.1,
        "betas": [0.8, 0.9],
        "weight_decay": 0.0,
    }
    assert (second["lr"], second["weight_decay"]) == (0.01, 0.5)


def test_each_of_several_optimizers_is_recorded(start_run: StartRun) -> None:
    run, model = start_run(), classifier()
    watch(model, run)
    body = torch.optim.SGD(model[0].parameters(), lr=torch.tensor(0.1), momentum=0.9)
    head = torch.optim.Adam(model[2].parameters())
    trained(model, body, head)
    told = facts(run, "optimizer")
    assert [one["optimizer"] for one in told] == ["SGD", "Adam"]
    assert told[0]["groups"][0]["lr"] == pytest.approx(0.1)
    assert told[0]["groups"][0]["momentum"] == 0.9
    assert facts(run, UNOWNED) == []


def test_parameters_that_no_optimizer_has_are_reported_once(start_run: StartRun) -> None:
    run, model = start_run(), classifier()
    watch(model, run)
    trained(model, torch.optim.Adam(model[2].parameters()), steps=30)
    (event,) = facts(run, UNOWNED)
    assert event["at_step"] == 9
    assert (event["parameters"], event["elements"], event["of"]) == (2, 40, 4)
    assert event["names"] == ["0.weight", "0.bias"]


def test_an_optimizer_of_another_model_leaves_all_parameters_out(start_run: StartRun) -> None:
    run, model = start_run(), classifier()
    watch(model, run)
    stale = torch.optim.SGD(classifier().parameters(), lr=0.1)
    for parameter in stale.param_groups[0]["params"]:
        parameter.grad = torch.zeros_like(parameter)
    trained(model, stale, steps=10)
    assert [one["parameters"] for one in facts(run, "optimizer")] == [0]
    assert [one["parameters"] for one in facts(run, UNOWNED)] == [4]


def test_parameters_that_are_updated_later_are_reported_as_resolved(start_run: StartRun) -> None:
    run, model = start_run(), classifier()
    watch(model, run)
    head = torch.optim.Adam(model[2].parameters())
    trained(model, head, steps=15)
    trained(model, head, torch.optim.Adam(model[0].parameters()), steps=40)
    told = facts(run, UNOWNED)
    assert [one["parameters"] for one in told] == [2, 0]


def test_parameters_that_are_updated_by_hand_are_fine(start_run: StartRun) -> None:
    run, model = start_run(), classifier()
    watch(model, run)
    head = torch.optim.Adam(model[2].parameters())
    for _ in range(12):
        trained(model, head, steps=1)
        with torch.no_grad():
            for parameter in model[0].parameters():
                assert parameter.grad is not None
                parameter.sub_(0.1 * parameter.grad)
    assert facts(run, UNOWNED) == []


def test_parameters_without_a_gradient_are_not_reported(start_run: StartRun) -> None:
    run = start_run()
    model = nn.ModuleDict({"used": nn.Linear(4, 2), "unused": nn.Linear(4, 2)})
    watch(model, run)
    trained(model["used"], torch.optim.SGD(model["used"].parameters(), lr=0.1))
    assert facts(run, UNOWNED) == []


# -- inputs ----------------------------------------------------------------------------------------


def test_inputs_are_read_at_the_first_steps_and_evaluations(start_run: StartRun) -> None:
    run, model = start_run(), classifier()
    watch(model, run)
    sgd = torch.optim.SGD(model.parameters(), lr=0.001)
    for _ in range(6):
        model.train()
        trained(model, sgd, steps=1)
        model.eval()
        for _ in range(2):
            model(torch.randn(16, 4) * 255)
    told = facts(run, "inputs")
    assert [(one["mode"], one["at_step"]) for one in told] == [
        ("train", 0),
        ("eval", 0),
        ("train", 1),
        ("eval", 1),
        ("train", 4),
        ("eval", 4),
    ]
    for one in told:
        scale = 255 if one["mode"] == "eval" else 1
        assert one["where"] == "model"
        assert one["after_norm"] is False
        assert one["std"] == pytest.approx(scale, rel=0.4)
        assert one["min"] < one["mean"] < one["max"]


def test_a_pass_without_gradients_is_an_evaluation(start_run: StartRun) -> None:
    run, model = start_run(), classifier()
    watch(model, run)
    with torch.no_grad():
        model(torch.randn(4, 4))
    (event,) = facts(run, "inputs")
    assert event["mode"] == "eval"


class Scaled(nn.Module):
    """Divides its inputs before the first layer gets them."""

    def __init__(self, *first: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(*first, nn.Conv2d(3, 4, 3), nn.Flatten(), nn.LazyLinear(5))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.layers(images / 255)
        return scores


def test_the_first_layer_may_get_something_else_than_the_model(start_run: StartRun) -> None:
    run, model = start_run(), Scaled()
    watch(model, run)
    model(torch.rand(2, 3, 8, 8) * 255)
    whole, layer = facts(run, "inputs")
    assert (whole["where"], layer["where"]) == ("model", "layers.0")
    assert whole["std"] == pytest.approx(255 * layer["std"], rel=1e-3)


def test_a_normalisation_that_comes_first_is_told(start_run: StartRun) -> None:
    run, model = start_run(), Scaled(nn.BatchNorm2d(3))
    watch(model, run)
    model(torch.rand(2, 3, 8, 8))
    told = facts(run, "inputs")
    assert [one["where"] for one in told] == ["model", "layers.1"]
    assert all(one["after_norm"] for one in told)


def test_token_ids_have_no_scale(start_run: StartRun) -> None:
    run, model = start_run(), nn.Sequential(nn.Embedding(10, 4), nn.Linear(4, 2))
    watch(model, run)
    model(torch.arange(6))
    assert facts(run, "inputs") == []


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch.compile itself
def test_a_compiled_model_is_compiled_once_and_its_inputs_are_read(
    start_run: StartRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.compiler.reset()
    monkeypatch.setattr("torch._dynamo.config.error_on_recompile", True)
    run, model = start_run(), classifier()
    compiled: Any = torch.compile(model, backend="aot_eager", fullgraph=True)
    watch(compiled, run)
    trained(compiled, torch.optim.SGD(model.parameters(), lr=0.1))
    assert {one["where"] for one in facts(run, "inputs")} == {"model"}
    (event,) = facts(run, "model")
    assert "outputs" not in event
    torch.compiler.reset()


# -- the model -------------------------------------------------------------------------------------


def test_the_last_layer_says_how_many_outputs_there_are(start_run: StartRun) -> None:
    run, model = start_run(), classifier()
    model[0].requires_grad_(False)
    watch(model, run)
    trained(model, torch.optim.SGD(model.parameters(), lr=0.1), steps=2)
    (event,) = facts(run, "model")
    assert (event["parameters"], event["trainable"], event["elements"]) == (4, 2, 67)
    assert (event["outputs"], event["last_layer"]) == (3, "2")


def test_an_output_that_no_layer_made_says_nothing(start_run: StartRun) -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.layer = nn.Embedding(10, 4), nn.Linear(4, 4)

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            hidden: torch.Tensor = self.layer(self.words(tokens))
            return hidden @ self.words.weight.T

    run, model = start_run(), Tied()
    watch(model, run)
    trained(
        model, torch.optim.SGD(model.parameters(), lr=0.1), steps=1, inputs=lambda: torch.arange(3)
    )
    (event,) = facts(run, "model")
    assert "outputs" not in event


# -- afterwards ------------------------------------------------------------------------------------


def hooks_of(model: nn.Module) -> list[Any]:
    on_modules = [
        hook
        for module in model.modules()
        for hooks in (module._forward_pre_hooks, module._forward_hooks)
        for hook in hooks.values()
    ]
    on_parameters = [
        hooks
        for one in model.parameters()
        for hooks in (one._backward_hooks, one._post_accumulate_grad_hooks)
        if hooks
    ]
    return on_modules + on_parameters


@pytest.mark.parametrize("ends", ["remove", "finish"])
@pytest.mark.parametrize("steps", [0, 1, 3])
def test_nothing_is_left_afterwards(start_run: StartRun, ends: str, steps: int) -> None:
    before = (
        len(torch_optimizer._global_optimizer_pre_hooks),
        len(torch_optimizer._global_optimizer_post_hooks),
    )
    run, model = start_run(), classifier()
    watched = watch(model, run)
    assert len(torch_optimizer._global_optimizer_pre_hooks) == before[0] + 1
    trained(model, torch.optim.SGD(model.parameters(), lr=0.1), steps=steps)
    assert hooks_of(model)
    if ends == "remove":
        watched.remove()
    else:
        run.finish()
    assert hooks_of(model) == []
    assert before == (
        len(torch_optimizer._global_optimizer_pre_hooks),
        len(torch_optimizer._global_optimizer_post_hooks),
    )


def test_two_hooks_are_left_on_a_model_after_the_first_steps(start_run: StartRun) -> None:
    run, model = start_run(), classifier()
    watch(model, run)
    trained(model, torch.optim.SGD(model.parameters(), lr=0.1), steps=5)
    assert len(hooks_of(model)) == 2  # of the model, and of its first layer
    run.finish()


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_the_dense_start_never_waits_for_the_gpu(start_run: StartRun) -> None:
    run = start_run()
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)).cuda()
    head = torch.optim.Adam(model[3].parameters())
    batch = torch.randn(16, 4, device="cuda")
    watch(model, run)
    trained(model, head, steps=1, inputs=lambda: batch)
    with no_waiting():
        trained(model, head, steps=54, inputs=lambda: batch)
    run.finish()
    assert [one["step"] for one in of_kind(run.dir, "metrics")] == [0, 1, 4, 9, 19, 49]
    assert [one["parameters"] for one in facts(run, UNOWNED)] == [4]
    assert len(facts(run, "inputs")) == 6
