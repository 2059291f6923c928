"""Gradients that no reset follows are an event; every way of resetting them is fine."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from epochal.torch import kept_gradients
from epochal.torch.watching import watch
from tests.conftest import StartRun
from tests.doubles.journals import of_kind

Optimizer = torch.optim.Optimizer
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")


def small_model(device: str = "cpu") -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)).to(device)


def loss_of(model: nn.Module) -> Any:
    device = next(model.parameters()).device
    return (model(torch.randn(16, 4, device=device)) - 1).square().mean()


def sgd(model: nn.Module) -> Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.01)


def events(start_run: StartRun, model: nn.Module, train: Callable[[], object]) -> list[Any]:
    """What is told of a watched training that leaves no hook, and in which nothing failed."""
    run = start_run()
    watch(model, run)
    train()
    run.finish()
    assert not any(one._backward_hooks for one in model.parameters())
    told = of_kind(run.dir, "event")
    assert [one["name"] for one in told if one["name"] == "internal-error"] == []
    return [one for one in told if one["name"] == "gradients-kept"]


def looped(
    model: nn.Module,
    optimizer: Optimizer,
    *,
    steps: int = 30,
    passes: int = 1,
    before_step: Callable[[], object] = lambda: None,
    reset: Callable[[], object] = lambda: None,
) -> Callable[[], None]:
    def train() -> None:
        for _ in range(steps):
            for _ in range(passes):
                loss_of(model).backward()
            before_step()
            optimizer.step()
            reset()

    return train


def adam(model: nn.Module) -> Optimizer:
    return torch.optim.Adam(model.parameters())


@pytest.mark.parametrize("passes", [1, 4])
@pytest.mark.parametrize("clips", [False, True])
@pytest.mark.parametrize("make", [sgd, adam])
def test_a_loop_without_reset_is_told_once(
    start_run: StartRun, make: Callable[[nn.Module], Optimizer], clips: bool, passes: int
) -> None:
    model = small_model()

    def clip() -> None:
        if clips:
            nn.utils.clip_grad_norm_(model.parameters(), 0.01)

    train = looped(model, make(model), passes=passes, before_step=clip)
    (event,) = events(start_run, model, train)
    assert (event["at_step"], event["steps"], event["parameter"]) == (5, 5, "0.weight")


def test_a_reset_before_the_loop_only_is_told(start_run: StartRun) -> None:
    model = small_model()
    optimizer = sgd(model)

    def train() -> None:
        for _ in range(3):
            optimizer.zero_grad()
            looped(model, optimizer, steps=8)()

    assert len(events(start_run, model, train)) == 1


def test_a_closure_without_reset_is_told(start_run: StartRun) -> None:
    model = small_model()
    optimizer = sgd(model)

    def closure() -> float:
        loss = loss_of(model)
        loss.backward()
        return float(loss.detach())

    assert len(events(start_run, model, lambda: [optimizer.step(closure) for _ in range(9)])) == 1


def test_one_of_two_optimizers_without_reset_is_told(start_run: StartRun) -> None:
    model = small_model()
    body, head = sgd(model[0]), sgd(model[2])

    def train() -> None:
        for _ in range(9):
            body.zero_grad()
            loss_of(model).backward()
            body.step()
            head.step()

    (event,) = events(start_run, model, train)
    assert event["parameter"] == "2.weight"


def set_none(model: nn.Module) -> None:
    for one in model.parameters():
        one.grad = None


def zero_data(model: nn.Module) -> None:
    for one in model.parameters():
        assert one.grad is not None
        one.grad.data.zero_()


def scale_by_nothing(model: nn.Module) -> None:
    for one in model.parameters():
        assert one.grad is not None
        one.grad.mul_(0)


RESETS: dict[str, Callable[[nn.Module], object]] = {
    "None": lambda model: model.zero_grad(),
    "zeros": lambda model: model.zero_grad(set_to_none=False),
    "set None": set_none,
    "zeros of data": zero_data,
    "times zero": scale_by_nothing,
}


@pytest.mark.parametrize("passes", [1, 4])
@pytest.mark.parametrize("how", RESETS)
def test_gradients_that_are_reset_are_fine(start_run: StartRun, how: str, passes: int) -> None:
    model = small_model()
    train = looped(model, sgd(model), passes=passes, reset=lambda: RESETS[how](model))
    assert events(start_run, model, train) == []


@pytest.mark.parametrize("to_none", [False, True])
def test_a_critic_that_is_reset_before_its_own_pass_is_fine(
    start_run: StartRun, to_none: bool
) -> None:
    pair = nn.ModuleDict({"critic": nn.Linear(4, 1), "maker": nn.Linear(2, 4)})
    critic, maker = pair["critic"], pair["maker"]
    of_critic, of_maker = sgd(critic), sgd(maker)

    def train() -> None:
        for _ in range(30):
            of_critic.zero_grad(set_to_none=to_none)
            (
                critic(maker(torch.randn(8, 2)).detach()) - critic(torch.randn(8, 4))
            ).mean().backward()
            of_critic.step()
            of_maker.zero_grad(set_to_none=to_none)
            (-critic(maker(torch.randn(8, 2)))).mean().backward()
            of_maker.step()

    assert events(start_run, pair, train) == []


def test_a_closure_that_resets_is_fine(start_run: StartRun) -> None:
    model = small_model()
    optimizer: Any = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)

    def closure() -> float:
        optimizer.zero_grad(set_to_none=False)
        loss = loss_of(model)
        loss.backward()
        return float(loss.detach())

    assert events(start_run, model, lambda: [optimizer.step(closure) for _ in range(20)]) == []


def test_steps_that_are_skipped_are_fine(start_run: StartRun) -> None:
    model = small_model()
    optimizer = sgd(model)

    def train() -> None:
        for n in range(60):
            optimizer.zero_grad()
            loss_of(model).backward()
            if n % 3 == 0:
                optimizer.step()

    assert events(start_run, model, train) == []


def test_two_optimizers_over_one_model_are_fine(start_run: StartRun) -> None:
    model = small_model()
    first, second = sgd(model), sgd(model)

    def train() -> None:
        for _ in range(30):
            model.zero_grad()
            loss_of(model).backward()
            first.step()
            loss_of(model).backward()  # on top, on purpose
            second.step()

    assert events(start_run, model, train) == []


class Idle(nn.Module):
    """A parameter without a gradient between two with one."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.idle, self.last = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = self.last(self.first(inputs))
        return outputs


def test_a_parameter_without_gradient_is_fine(start_run: StartRun) -> None:
    model = Idle()
    train = looped(model, sgd(model), reset=model.zero_grad)
    assert events(start_run, model, train) == []


def test_a_parameter_whose_gradient_is_zero_says_nothing(start_run: StartRun) -> None:
    model = nn.Sequential(nn.Linear(4, 4))

    def train() -> None:
        optimizer = sgd(model)
        for _ in range(60):
            (0 * loss_of(model)).backward()
            optimizer.step()

    assert events(start_run, model, train) == []


def test_gradients_that_are_set_by_the_loop_need_no_reset(start_run: StartRun) -> None:
    model = small_model()
    optimizer = sgd(model)

    def train() -> None:
        for _ in range(60):
            weights = list(model.parameters())
            gradients = torch.autograd.grad(loss_of(model), weights)
            for one, gradient in zip(weights, gradients, strict=True):
                one.grad = gradient
            optimizer.step()

    assert events(start_run, model, train) == []


def test_gradients_that_others_take_the_place_of_need_no_reset(start_run: StartRun) -> None:
    model = small_model()

    def replace() -> None:
        for one in model.parameters():
            one.grad = torch.randn_like(one)

    train = looped(model, sgd(model), before_step=replace)
    assert events(start_run, model, train) == []


def test_a_sum_that_fades_on_purpose_is_fine(start_run: StartRun) -> None:
    model = small_model()

    def fade() -> None:
        for one in model.parameters():
            assert one.grad is not None
            one.grad.mul_(0.9)

    assert events(start_run, model, looped(model, sgd(model), reset=fade)) == []


def test_steps_inside_the_backward_pass_are_fine(start_run: StartRun) -> None:
    model = small_model()
    optimizers = {one: torch.optim.SGD([one], lr=0.01) for one in model.parameters()}

    def step(one: Any) -> None:
        optimizers[one].step()
        optimizers[one].zero_grad()

    for one in model.parameters():
        one.register_post_accumulate_grad_hook(step)  # type: ignore[no-untyped-call]
    assert events(start_run, model, lambda: [loss_of(model).backward() for _ in range(30)]) == []


def test_an_optimizer_that_resets_in_its_step_is_fine(start_run: StartRun) -> None:
    class Resetting(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            super().step(closure)
            self.zero_grad(set_to_none=False)

    model = small_model()
    train = looped(model, Resetting(model.parameters(), lr=0.01), steps=60)
    assert events(start_run, model, train) == []


def test_sparse_gradients_say_nothing(start_run: StartRun) -> None:
    model = nn.Embedding(10, 4, sparse=True)
    optimizer = sgd(model)

    def train() -> None:
        for _ in range(60):
            model(torch.arange(4)).square().mean().backward()
            optimizer.step()

    assert events(start_run, model, train) == []


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch.compile itself
def test_a_compiled_model_without_reset_is_told(start_run: StartRun) -> None:
    model = small_model()
    compiled: Any = torch.compile(model, backend="aot_eager")
    assert len(events(start_run, compiled, looped(compiled, sgd(model)))) == 1
    torch.compiler.reset()


def test_nothing_is_looked_at_once_it_is_known(
    start_run: StartRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, run = small_model(), start_run()
    optimizer = sgd(model)
    watch(model, run)
    looped(model, optimizer, steps=4, reset=model.zero_grad)()
    assert not any(one._backward_hooks for one in model.parameters())
    taken: list[object] = []
    monkeypatch.setattr(kept_gradients, "_sampled", taken.append)
    looped(model, optimizer, steps=4)()
    assert taken == []
    run.finish()


def test_copies_and_files_of_a_watched_model_are_without_hooks(start_run: StartRun) -> None:
    model, run = small_model(), start_run()
    watch(model, run)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            assert not any(one._backward_hooks for one in twin.parameters())
    run.finish()


def test_gradients_are_the_same_with_and_without(start_run: StartRun) -> None:
    def trained(*, watched: bool) -> list[torch.Tensor]:
        model, run = small_model(), start_run()
        if watched:
            watch(model, run)
        looped(model, sgd(model), steps=8)()
        run.finish()
        return [
            *model.parameters(),
            *(one.grad for one in model.parameters() if one.grad is not None),
        ]

    pairs = zip(trained(watched=True), trained(watched=False), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)


@needs_gpu
@pytest.mark.parametrize("how", [None, *RESETS])
def test_on_a_gpu_nothing_waits(start_run: StartRun, how: str | None) -> None:
    model = small_model("cuda")
    run = start_run()
    watch(model, run)
    reset = (lambda: None) if how is None else (lambda: RESETS[how](model))
    optimizer = sgd(model)
    looped(model, optimizer, steps=1, reset=reset)()  # a watched step and first allocations
    torch.cuda.set_sync_debug_mode("error")
    try:
        looped(model, optimizer, steps=19, reset=reset)()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    torch.cuda.synchronize()
    looped(model, optimizer, steps=1, reset=reset)()
    run.finish()
    told = [one["name"] for one in of_kind(run.dir, "event")]
    assert told == (["gradients-kept"] if how is None else [])
