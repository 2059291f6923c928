from __future__ import annotations

import io
from collections.abc import Callable

import pytest
import torch
from torch.optim import SGD, Optimizer, lr_scheduler

from epochal.torch import (
    ConstantLR,
    CosineScheduler,
    CyclicLR,
    ExponentialLR,
    GroupRates,
    LinearLR,
    MultiStepLR,
    OneCycleLR,
    Scheduler,
    SequentialLR,
    StepDecay,
    WarmupScheduler,
)

BASE = 0.1


def optimizer(groups: int = 1, lr: float = BASE) -> Optimizer:
    return SGD([{"params": [torch.nn.Parameter(torch.zeros(1))]} for _ in range(groups)], lr=lr)


def driven(opt: Optimizer, scheduler: lr_scheduler.LRScheduler, steps: int) -> list[float]:
    rates = []
    for _ in range(steps):
        rates.append(float(opt.param_groups[0]["lr"]))
        opt.step()
        scheduler.step()
    return rates


def warm_cosine(opt: Optimizer) -> lr_scheduler.LRScheduler:
    climb = lr_scheduler.LinearLR(opt, start_factor=1 / 10, total_iters=9)
    return lr_scheduler.SequentialLR(opt, [climb, lr_scheduler.CosineAnnealingLR(opt, 50)], [10])


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (StepDecay(BASE, 7, 0.5), lambda o: lr_scheduler.StepLR(o, 7, 0.5)),
        (MultiStepLR(BASE, (5, 20), 0.1), lambda o: lr_scheduler.MultiStepLR(o, [5, 20], 0.1)),
        (ExponentialLR(BASE, 0.9), lambda o: lr_scheduler.ExponentialLR(o, 0.9)),
        (CosineScheduler(BASE, 0.01, 60), lambda o: lr_scheduler.CosineAnnealingLR(o, 60, 0.01)),
        (LinearLR(BASE / 2, BASE, 30), lambda o: lr_scheduler.LinearLR(o, 0.5, 1.0, 30)),
        (
            CyclicLR.asymmetric(0.01, 0.2, 8, 5),
            lambda o: lr_scheduler.CyclicLR(o, 0.01, 0.2, 8, 5, cycle_momentum=False),
        ),
        (WarmupScheduler(CosineScheduler(BASE, 0.0, 50), BASE, 10), warm_cosine),
        (
            SequentialLR((ConstantLR(BASE), ExponentialLR(BASE, 0.9)), (12,)),
            lambda o: lr_scheduler.SequentialLR(
                o, [lr_scheduler.ConstantLR(o, 1.0), lr_scheduler.ExponentialLR(o, 0.9)], [12]
            ),
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Scheduler) else "",
)
def test_the_same_schedule_in_torch_gives_the_same_rates(
    ours: Scheduler, theirs: Callable[[Optimizer], lr_scheduler.LRScheduler]
) -> None:
    one, other = optimizer(), optimizer()
    expected = driven(other, theirs(other), 60)
    assert driven(one, ours.to_torch(one), 60) == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert [ours.lr(step) for step in range(60)] == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(("anneal", "steps"), [("linear", range(31)), ("cos", range(30, 101))])
def test_both_halves_of_one_cycle_are_those_of_torch(anneal: str, steps: range) -> None:
    opt = optimizer()
    theirs = lr_scheduler.OneCycleLR(
        opt,
        max_lr=BASE,
        total_steps=101,
        pct_start=31 / 101,
        anneal_strategy=anneal,  # type: ignore[arg-type]
        cycle_momentum=False,
        final_div_factor=1.0,
    )
    expected = driven(opt, theirs, 100)
    expected.append(float(opt.param_groups[0]["lr"]))
    assert [OneCycleLR(BASE, 100).lr(step) for step in steps] == pytest.approx(
        [expected[step] for step in steps]
    )


def test_every_group_follows_one_schedule() -> None:
    opt = optimizer(groups=3)
    ConstantLR(0.7).to_torch(opt)
    assert [group["lr"] for group in opt.param_groups] == [0.7] * 3


def test_groups_follow_schedules_of_their_own() -> None:
    opt = optimizer(groups=2)
    scheduler = GroupRates((StepDecay(1.0, 1, 0.5), ConstantLR(0.2))).to_torch(opt)
    opt.step()
    scheduler.step()
    assert scheduler.get_last_lr() == [0.5, 0.2]


def test_schedules_and_groups_must_be_as_many() -> None:
    with pytest.raises(ValueError, match="3 parameter groups"):
        GroupRates((ConstantLR(1.0), ConstantLR(1.0))).to_torch(optimizer(groups=3))


def test_a_rate_kept_as_a_tensor_stays_that_tensor() -> None:
    opt = optimizer()
    rate = opt.param_groups[0]["lr"] = torch.tensor(BASE)
    scheduler = StepDecay(1.0, 1, 0.5).to_torch(opt)
    opt.step()
    scheduler.step()
    assert opt.param_groups[0]["lr"] is rate
    assert float(rate) == 0.5


def test_a_state_dict_survives_a_safe_load_and_brings_its_schedule() -> None:
    opt = optimizer()
    scheduler = WarmupScheduler(CosineScheduler(1.0, 0.0, 50), None, 10).to_torch(opt)
    driven(opt, scheduler, 25)
    file = io.BytesIO()
    torch.save(scheduler.state_dict(), file)
    file.seek(0)
    fresh = optimizer()
    restored = ConstantLR(9.0).to_torch(fresh)
    restored.load_state_dict(torch.load(file, weights_only=True))
    fresh.step()
    restored.step()
    opt.step()
    scheduler.step()
    assert restored.get_last_lr() == scheduler.get_last_lr()
    assert restored.last_epoch == 26


class Halving(Scheduler):
    def lr(self, step: int) -> float:
        return 1 / (step + 1)


def test_a_schedule_of_the_users_own_can_be_driven_and_stays_on_a_load() -> None:
    opt = optimizer()
    scheduler = WarmupScheduler(Halving(), None, 2).to_torch(opt)
    scheduler.load_state_dict(scheduler.state_dict())
    assert driven(opt, scheduler, 4) == pytest.approx([0.5, 1.0, 1.0, 0.5])


def test_a_state_of_another_number_of_schedules_is_refused() -> None:
    two = GroupRates((ConstantLR(1.0), ConstantLR(2.0))).to_torch(optimizer(groups=2))
    one = ConstantLR(1.0).to_torch(optimizer())
    with pytest.raises(ValueError, match="1 schedules"):
        one.load_state_dict(two.state_dict())
