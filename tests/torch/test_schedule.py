from __future__ import annotations

import io
import math
import subprocess
import sys
from collections.abc import Callable
from typing import Literal

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.optim import SGD, Optimizer, lr_scheduler

from epochal.torch import (
    CosineScheduler,
    CyclicLR,
    ExponentialLR,
    MultiStepLR,
    OneCycleLR,
    PlateauScheduler,
    Scheduler,
    StepDecay,
    WarmupScheduler,
    set_lr,
)

BASE = 0.1


def optimizer(groups: int = 1, lr: float = BASE) -> Optimizer:
    return SGD([{"params": [torch.nn.Parameter(torch.zeros(1))]} for _ in range(groups)], lr=lr)


def rates(opt: Optimizer) -> list[float]:
    return [float(group["lr"]) for group in opt.param_groups]


def driven(opt: Optimizer, scheduler: lr_scheduler.LRScheduler, steps: int) -> list[float]:
    found = []
    for _ in range(steps):
        found.append(rates(opt)[0])
        opt.step()
        scheduler.step()
    return found


def warm_cosine(opt: Optimizer) -> lr_scheduler.LRScheduler:
    climb = lr_scheduler.LinearLR(opt, start_factor=1 / 10, total_iters=9)
    return lr_scheduler.SequentialLR(opt, [climb, lr_scheduler.CosineAnnealingLR(opt, 50)], [10])


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (StepDecay(BASE, 7, 0.5), lambda o: lr_scheduler.StepLR(o, 7, 0.5)),
        (MultiStepLR(BASE, (20, 5), 0.1), lambda o: lr_scheduler.MultiStepLR(o, [5, 20], 0.1)),
        (ExponentialLR(BASE, 0.9), lambda o: lr_scheduler.ExponentialLR(o, 0.9)),
        (CosineScheduler(BASE, 0.01, 60), lambda o: lr_scheduler.CosineAnnealingLR(o, 60, 0.01)),
        (
            CyclicLR.asymmetric(0.01, 0.2, 8, 5),
            lambda o: lr_scheduler.CyclicLR(o, 0.01, 0.2, 8, 5, cycle_momentum=False),
        ),
        (WarmupScheduler(CosineScheduler(BASE, 0.0, 50), BASE, 10), warm_cosine),
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


@pytest.mark.parametrize(("frac", "peak"), [(0.0, 0), (0.2, 20), (1.0, 100)])
def test_one_cycle_climbs_from_a_25th_and_comes_back(frac: float, peak: int) -> None:
    schedule = OneCycleLR.with_warmup_frac(0.01, 100, frac)
    assert max(range(101), key=schedule.lr) == peak
    assert schedule.lr(peak) == pytest.approx(0.01)
    if 0 < frac < 1:
        ends = [schedule.lr(step) for step in (0, 100, 5000)]
        assert ends == pytest.approx([0.01 / 25] * 3)


def test_schedules_hold_their_last_rate() -> None:
    assert [CosineScheduler(1.0, 0.2, 100).lr(step) for step in (100, 101, 9999)] == [0.2] * 3
    assert ExponentialLR(1.0, 2.0).lr(5000) == math.inf
    assert ExponentialLR(0.0, 2.0).lr(5000) == 0.0


def test_warm_up_and_cosine_are_the_gpt2_schedule() -> None:
    schedule = WarmupScheduler(CosineScheduler(1e-3, 1e-4, 95_365 - 715), None, 715)
    assert [schedule.lr(step) for step in (0, 714, 715, 95_365)] == pytest.approx(
        [1e-3 / 715, 1e-3, 1e-3, 1e-4]
    )


@given(
    st.lists(st.floats(-5, 5) | st.just(math.nan), max_size=60),
    st.integers(1, 4),
    st.sampled_from([0.0, 0.5]),
    st.sampled_from(["min", "max"]),
)
def test_a_plateau_agrees_with_torch(
    values: list[float], patience: int, delta: float, mode: Literal["min", "max"]
) -> None:
    ours = PlateauScheduler(1.0, patience, 0.5, 0.01, mode=mode, min_delta=delta)
    opt = optimizer(lr=1.0)
    # torch counts the values it still tolerates: one fewer than it takes to fall.
    theirs = lr_scheduler.ReduceLROnPlateau(
        opt, mode, 0.5, patience - 1, delta, "abs", 0, 0.01, eps=0.0
    )
    for value in values:
        theirs.step(value)
        assert ours.observe(value) == pytest.approx(rates(opt)[0])


class Halving(Scheduler):
    def lr(self, step: int) -> float:
        return 1 / (step + 1)


def test_a_schedule_of_the_users_own_can_be_wrapped_and_driven() -> None:
    opt = optimizer()
    scheduler = WarmupScheduler(Halving(), None, 2).to_torch(opt)
    assert driven(opt, scheduler, 4) == pytest.approx([0.5, 1.0, 1.0, 0.5])


def test_a_state_dict_survives_a_safe_load() -> None:
    def warm_plateau() -> tuple[PlateauScheduler, WarmupScheduler]:
        plateau = PlateauScheduler(1.0, 1, 0.5, 0.0)
        return plateau, WarmupScheduler(plateau, None, 2)

    opt, (plateau, schedule) = optimizer(), warm_plateau()
    scheduler = schedule.to_torch(opt)
    driven(opt, scheduler, 5)
    for value in (1.0, 2.0, 2.0):
        plateau.observe(value)
    file = io.BytesIO()
    torch.save(scheduler.state_dict(), file)
    file.seek(0)
    fresh, (other, schedule) = optimizer(), warm_plateau()
    restored = schedule.to_torch(fresh)
    restored.load_state_dict(torch.load(file, weights_only=True))
    assert other == plateau
    assert driven(fresh, restored, 2)[1] == 0.25
    assert restored.last_epoch == 7


def test_the_rate_of_every_group_or_of_one_is_set() -> None:
    opt = optimizer(groups=2)
    rate = opt.param_groups[0]["lr"] = torch.tensor(1.0)
    set_lr(opt, 0.5)
    set_lr(opt, 0.25, group=1)
    assert rates(opt) == [0.5, 0.25]
    assert opt.param_groups[0]["lr"] is rate  # kept as a tensor, filled in place
    StepDecay(0.125, 1, 0.5).to_torch(opt)
    assert rates(opt) == [0.125] * 2
    assert opt.param_groups[0]["lr"] is rate


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: StepDecay(0.1, 0, 0.1), "step_size"),
        (lambda: StepDecay(0.1, 10, 0.0), "gamma"),
        (lambda: CosineScheduler(0.1, 0.2, 10), "min_lr"),
        (lambda: CosineScheduler(math.nan, 0.0, 10), "base_lr"),
        (lambda: MultiStepLR(0.1, (-1,), 0.1), "milestones"),
        (lambda: OneCycleLR(0.1, -5), "total_steps"),
        (lambda: OneCycleLR.with_warmup_frac(0.1, 5, 1.5), "warmup_frac"),
        (lambda: CyclicLR.asymmetric(0.0, 0.1, 1, 0), "step_size_down"),
        (lambda: PlateauScheduler(1.0, 0, 0.5, 0.0), "patience"),
        (lambda: PlateauScheduler(1.0, 1, 1.0, 0.0), "factor"),
        (lambda: PlateauScheduler(1.0, 1, 0.5, 0.0, mode="up"), "mode"),  # type: ignore[arg-type]
        (lambda: StepDecay(0.1, 1, 0.1).lr(-1), "step"),
        (lambda: set_lr(optimizer(), -1.0), "lr must be"),
    ],
)
def test_misuse_is_a_sentence_that_names_the_argument(
    make: Callable[[], object], word: str
) -> None:
    with pytest.raises(ValueError, match=word):
        make()


def test_a_length_that_is_not_whole_is_a_type_error() -> None:
    with pytest.raises(TypeError, match=r"total_steps must be a whole number, got 2\.5"):
        CosineScheduler(0.1, 0.0, 2.5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="inner must be a Scheduler"):
        WarmupScheduler(0.1, None, 3)  # type: ignore[arg-type]


def test_schedules_and_rng_do_not_import_torch() -> None:
    script = (
        "import sys; from epochal.torch import CosineScheduler, Rng, WarmupScheduler\n"
        "WarmupScheduler(CosineScheduler(1e-3, 1e-6, 1000), None, 100).lr(5); Rng(1).f64()\n"
        "print(sorted({'torch', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
