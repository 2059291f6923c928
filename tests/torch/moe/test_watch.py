from __future__ import annotations

import gc
import math
import weakref
from typing import Any

import pytest
import torch
from torch import nn

from epochal.errors import UsageError
from epochal.run.current import OPEN_RUNS
from epochal.run.run import Run
from epochal.torch.moe import COLUMNS, MoeAccumulator, find_routers, moe_stats, watch_moe
from tests.conftest import StartRun
from tests.doubles.journals import of_kind
from tests.torch.moe.mixtures import (
    WIDTH,
    BiasedRouter,
    ClosedRouter,
    LinearGate,
    Mixture,
    Routed,
    SoftRouter,
    SparseChoice,
    SparseScores,
    TopKRouter,
    mixture,
    tokens,
)

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")


def train(model: nn.Module, steps: int = 1, *, micro_steps: int = 1, **inputs: Any) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    for step in range(steps):
        optimizer.zero_grad()
        for micro in range(micro_steps):
            batch = tokens(seed=micro + step * micro_steps).requires_grad_()
            model(batch, **inputs).square().mean().backward()
        optimizer.step()


def logits_of(model: Mixture, batch: torch.Tensor) -> list[torch.Tensor]:
    """Each layer's logits, computed apart from any hook."""
    found = []
    for block in model.h:
        gate = block.get_submodule("mlp").gate
        assert isinstance(gate, nn.Linear)
        found.append(gate(batch.reshape(-1, WIDTH)).detach())
        batch = block(batch)
    return found


def figures(run: Run) -> dict[str, float]:
    record = of_kind(run.dir, "moe")[-1]
    return {name: value for name, value in record.items() if name not in ("log", "t", "step")}


def test_a_step_s_figures_are_those_of_its_logits(start_run: StartRun) -> None:
    run, model = start_run(), mixture()
    expected = moe_stats(logits_of(model, tokens()), 2)
    watching = watch_moe(model, run)
    train(model)
    run.finish()
    assert watching.layers == ("h.0.mlp", "h.1.mlp")
    numbers = {name: value.item() for name, value in expected.fields().items()}
    assert figures(run) == pytest.approx(numbers, rel=1e-4)
    (experts,) = of_kind(run.dir, "experts")
    assert (experts["layers"], experts["top_k"], experts["step"]) == (["h.0.mlp", "h.1.mlp"], 2, 0)
    assert torch.tensor(experts["load"]).allclose(expected.load, atol=1e-5)


def test_micro_steps_are_one_step(start_run: StartRun) -> None:
    run, model = start_run(), mixture()
    sums = MoeAccumulator()
    for micro in range(3):
        sums.add(logits_of(model, tokens(seed=micro)), 2)
    watch_moe(model, run)
    train(model, micro_steps=3)
    run.finish()
    assert len(of_kind(run.dir, "moe")) == 1
    expected = {k: v for k, v in sums.get_moe_stats().items() if k != "valid"}
    assert figures(run) == pytest.approx(expected, rel=1e-4)


def test_records_come_at_their_cadence(start_run: StartRun) -> None:
    run, model = start_run(), mixture()
    watch_moe(model, run, every=2, experts_every=4)
    train(model, 7)
    run.finish()
    assert [one["step"] for one in of_kind(run.dir, "moe")] == [0, 2, 4, 6]
    assert [one["step"] for one in of_kind(run.dir, "experts")] == [0, 4]


@pytest.mark.parametrize("reentrant", [False, True])
def test_what_checkpointing_computes_again_is_not_counted_again(
    start_run: StartRun, reentrant: bool
) -> None:
    run, model = start_run(), mixture(recompute=True, reentrant=reentrant)
    calls = []
    expected = moe_stats(logits_of(model, tokens()), 2)
    model.h[0].get_submodule("mlp.gate").register_forward_hook(lambda *_: calls.append(1))
    watch_moe(model, run)
    train(model)
    run.finish()
    assert len(calls) == 2
    (experts,) = of_kind(run.dir, "experts")
    assert torch.tensor(experts["load"]).allclose(expected.load, atol=1e-5)


def test_evaluation_is_left_out(start_run: StartRun) -> None:
    run, model = start_run(), mixture()
    expected = moe_stats(logits_of(model, tokens()), 2).load
    watch_moe(model, run)
    model.eval()
    model(tokens(seed=77))
    model.train()
    train(model)
    run.finish()
    assert torch.tensor(of_kind(run.dir, "experts")[0]["load"]).allclose(expected, atol=1e-5)


@pytest.mark.parametrize("kind", [TopKRouter, BiasedRouter, SparseScores])
def test_routers_of_every_shape_are_read(start_run: StartRun, kind: Any) -> None:
    torch.manual_seed(0)
    model = Mixture(Routed(kind(4, 2), 4, 2))
    (router,) = find_routers(model)
    assert (router.layer, router.experts, router.top_k) == ("h.0.mlp", 4, 2)
    weight = next(router.module.parameters())
    logits = nn.functional.linear(tokens().reshape(-1, WIDTH), weight).detach()
    run = start_run()
    watch_moe(model, run)
    train(model)
    run.finish()
    load = of_kind(run.dir, "experts")[0]["load"]
    assert torch.tensor(load).allclose(moe_stats(logits, 2).load, atol=1e-5)
    assert figures(run)["z_loss"] == pytest.approx(0.001 * logits.logsumexp(-1).square().mean())
    if kind is BiasedRouter:
        scores = logits.sigmoid() / logits.sigmoid().sum(-1, keepdim=True)
        confidence = scores.amax(-1).mean().item()
        assert figures(run)["router_confidence"] == pytest.approx(confidence, rel=1e-4)


@pytest.mark.parametrize("kind", [SoftRouter, SparseChoice, TopKRouter])
def test_scores_are_not_taken_for_logits(start_run: StartRun, kind: Any) -> None:
    torch.manual_seed(0)
    model = Mixture(Routed(kind(4, 2), 4, 2))
    weight = next(find_routers(model)[0].module.parameters())
    logits = nn.functional.linear(tokens().reshape(-1, WIDTH), weight).detach()
    run = start_run()
    watch_moe(model, run)
    train(model)
    run.finish()
    expected = {name: value.item() for name, value in moe_stats(logits, 2).fields().items()}
    assert figures(run) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_probabilities_without_logits_are_read(start_run: StartRun, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model = Mixture(Routed(ClosedRouter(4, 2), 4, 2)).to(dtype)
    probs = tokens().to(dtype).reshape(-1, WIDTH) @ model.get_parameter("h.0.mlp.router.table")
    run = start_run()
    watch_moe(model, run)
    model(tokens().to(dtype)).sum().backward()
    torch.optim.SGD(model.parameters(), lr=0.0).step()
    run.finish()
    expected = moe_stats(probs.detach(), top_k=2).fields()
    numbers = {name: value.item() for name, value in expected.items()} | {"z_loss": 0.0}
    assert figures(run) == pytest.approx(numbers, rel=1e-2, abs=1e-6)


def test_the_number_of_experts_may_stand_in_the_configuration_only() -> None:
    class Bare(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.router = nn.Linear(WIDTH, 6)
            self.experts = nn.ModuleList()

    model = Mixture(Bare(), n_routed_experts=6, num_experts_per_tok=3)
    assert [(one.experts, one.top_k) for one in find_routers(model)] == [(6, 3)]


def test_a_router_of_another_name_can_be_named(start_run: StartRun) -> None:
    model = nn.Module()
    model.switch = nn.Linear(WIDTH, 4)
    with pytest.raises(UsageError, match="no router was found in Module"):
        watch_moe(model, start_run())
    (router,) = find_routers(model, names=["sw*"], top_k=1)
    assert (router.layer, router.experts) == ("switch", 4)


def test_a_gate_that_is_no_router_is_not_taken_for_one() -> None:
    class Gated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate = nn.Linear(WIDTH, WIDTH)

    model = Mixture(Gated(), LinearGate(4, 2), num_experts=4, num_experts_per_tok=2)
    assert [router.layer for router in find_routers(model)] == ["h.1.mlp"]


def test_the_coefficients_are_those_of_the_configuration(start_run: StartRun) -> None:
    run, model = start_run(), mixture(router_aux_loss_coef=0.5)
    watch_moe(model, run)
    train(model)
    run.finish()
    assert figures(run)["aux_loss"] > 0.5


def test_training_is_the_same_with_and_without(start_run: StartRun) -> None:
    alone, watched = mixture(), mixture()
    torch.manual_seed(7)
    train(alone, 2)
    noise = torch.rand(3)
    watch_moe(watched, start_run())
    torch.manual_seed(7)
    train(watched, 2)
    assert torch.equal(torch.rand(3), noise)
    for mine, theirs in zip(alone.parameters(), watched.parameters(), strict=True):
        assert mine.grad is not None
        assert theirs.grad is not None
        assert torch.equal(mine.grad, theirs.grad)


def test_the_newest_figures_can_be_asked_for(start_run: StartRun) -> None:
    run, model = start_run(), mixture()
    watching = watch_moe(model, run)
    assert watching.get_moe_stats()["valid"] is False
    assert watching.fields() == {}
    train(model)
    asked = watching.get_moe_stats()
    assert asked["valid"] is True
    assert asked["load_imbalance"] >= 1
    run.log_step(0, 0.0, 12, 5.0, 1.0, 2.0, 1e-3, moe=watching.fields())
    assert of_kind(run.dir, "step")[0]["moe_load_imbalance"] == asked["load_imbalance"]


def test_two_optimizers_of_one_model_make_one_step(start_run: StartRun) -> None:
    run, model = start_run(), mixture()
    watch_moe(model, run)
    first, second = (torch.optim.SGD(block.parameters(), lr=0.0) for block in model.h)
    for _ in range(2):
        model(tokens()).sum().backward()
        first.step()
        second.step()
    run.finish()
    assert [one["step"] for one in of_kind(run.dir, "moe")] == [0, 1]


@pytest.mark.parametrize("log_every", [1, 4])
@pytest.mark.parametrize("first", [0, 12, 40])
def test_a_resumed_loop_says_where_it_goes_on(
    start_run: StartRun, first: int, log_every: int
) -> None:
    killed = start_run()
    killed.log({"loss": 1.0}, step=23)
    killed.finish("crashed")
    run, model = start_run(resume="must"), mixture()
    watch_moe(model, run, every=2, experts_every=4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    for step in range(first, first + 9):
        model(tokens()).sum().backward()
        optimizer.step()
        if (step + 1) % log_every == 0:
            run.log({"loss": 1.0}, step=step)
    run.finish()
    assert [one["step"] for one in of_kind(run.dir, "moe")] == list(range(first, first + 9, 2))
    assert [one["step"] for one in of_kind(run.dir, "experts")] == [first, first + 4, first + 8]


# Where a hook interrupts a compiled graph, torch looks at inputs in a way that it warns of itself.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch.compile itself
def test_a_compiled_model_is_watched_from_its_first_step(start_run: StartRun) -> None:
    run, model = start_run(), mixture()
    expected = moe_stats(logits_of(model, tokens()), 2)
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="eager")
    assert isinstance(compiled, nn.Module)
    watching = watch_moe(compiled, run)
    train(compiled, 2)
    run.finish()
    assert watching.layers == ("h.0.mlp", "h.1.mlp")
    assert [one["step"] for one in of_kind(run.dir, "moe")] == [0, 1]
    load = of_kind(run.dir, "experts")[0]["load"]
    assert torch.tensor(load).allclose(expected.load, atol=1e-5)


def test_routers_that_do_not_run_are_told_of_once(
    start_run: StartRun, capsys: pytest.CaptureFixture[str]
) -> None:
    run, model = start_run(), mixture()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watch_moe(model, run)
    for _ in range(3):
        optimizer.step()
    run.finish()
    messages = [one["text"] for one in of_kind(run.dir, "message")]
    assert len(messages) == 1
    assert "none of the watched routers ran" in messages[0]


def test_a_router_that_breaks_has_one_figure_that_is_no_number(start_run: StartRun) -> None:
    run, model = start_run(), mixture(layers=1)
    with torch.no_grad():
        model.get_parameter("h.0.mlp.gate.weight").fill_(math.nan)
    watching = watch_moe(model, run)
    train(model)
    run.finish()
    assert of_kind(run.dir, "moe")[0]["nonfinite"] == {"router_entropy": "nan"}
    assert "load_imbalance" not in of_kind(run.dir, "moe")[0]
    assert of_kind(run.dir, "experts") == []
    assert watching.get_moe_stats() == {**dict.fromkeys(COLUMNS), "valid": False}


def test_the_load_of_a_router_that_works_is_recorded_beside_a_broken_one(
    start_run: StartRun,
) -> None:
    run, model = start_run(), mixture()
    with torch.no_grad():
        model.get_parameter("h.1.mlp.gate.weight").fill_(math.nan)
    watch_moe(model, run)
    train(model)
    run.finish()
    assert [one["layers"] for one in of_kind(run.dir, "experts")] == [["h.0.mlp"]]


def test_a_removed_watch_lets_the_model_go(start_run: StartRun) -> None:
    run, model = start_run(), mixture()
    watching = watch_moe(model, run)
    train(model)
    watching.remove()
    train(model)
    assert len(of_kind(run.dir, "moe")) == 1
    reference = weakref.ref(model)
    run.finish()
    OPEN_RUNS.clear()
    del model, watching, run
    gc.collect()
    assert reference() is None


def test_a_cadence_must_be_at_least_one(start_run: StartRun) -> None:
    run = start_run()
    with pytest.raises(UsageError, match=r"^every must be at least 1, got 0"):
        watch_moe(mixture(), run, every=0)
    with pytest.raises(UsageError, match="experts_every must be at least 1, got 0"):
        watch_moe(mixture(), run, experts_every=0)


@needs_gpu
@pytest.mark.cuda
def test_a_watched_step_never_waits_for_the_gpu(start_run: StartRun) -> None:
    run, model = start_run(), mixture().cuda()
    watch_moe(model, run, experts_every=2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = tokens().cuda()
    mask = torch.ones(2, 6, device="cuda")
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(4):
            model(batch, attention_mask=mask).square().mean().backward()
            optimizer.step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    run.finish()
    assert [one["step"] for one in of_kind(run.dir, "moe")] == [0, 1, 2, 3]
    load = of_kind(run.dir, "experts")[0]["load"]
    expected = moe_stats(logits_of(mixture(), tokens()), 2).load
    assert torch.tensor(load).allclose(expected, atol=1e-3)
