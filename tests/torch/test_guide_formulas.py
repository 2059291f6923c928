"""The formulas that the guide prints are the program's, and what it says of PyTorch is so."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler

from epochal.torch import OneCycleLR, PlateauScheduler, Scheduler, parse_schedule, trunc_normal
from epochal.torch.schedule.catalogue import KINDS, parameters_of
from epochal.torch.schedule.formulas import decay_done

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "around_the_loop.md").read_text("utf-8")
SECTION = GUIDE.partition("### The formulas")[2]
ROWS = {
    name: (rate, re.findall(r"`([^`]+)`", with_))
    for name, rate, with_ in re.findall(r"^\| `(\w+)` \| `([^`]+)`([^|]*) \|", SECTION, re.M)
}
EXAMPLES = {
    "constant": "constant(0.1)",
    "linear": "linear(0.1,0.01,40)",
    "step": "step(0.1,7,0.5)",
    "multistep": "multistep(0.1,[5,20,33],0.3)",
    "exponential": "exponential(0.1,0.9)",
    "cosine": "cosine(0.1,0.001,40)",
    "onecycle": "onecycle(0.1,40)",
    "cyclic": "cyclic(0.01,0.1,7,5)",
    "wsd": "wsd(0.1,0.001,40,5,0.25)",
    "inverse_sqrt": "inverse_sqrt(0.1,10)",
    "warmup": "warmup(cosine(0.1,0.001,30),10,0.1)",
    "cooldown": "cooldown(constant(0.1),20,10,0.01)",
    "override": "override(cosine(0.1,0.001,50),0.01,10,8,4)",
    "reduce": "reduce(cosine(0.1,0.001,50),0.5,20)",
    "scale": "scale(cosine(0.1,0.001,50),0.3)",
    "sequence": "sequence([linear(0.01,0.1,10),constant(0.05)],[12])",
}


def names_of(schedule: Scheduler, kind: str) -> dict[str, Any]:
    """Every name that a formula may use, but for the step."""
    given = {one.name: getattr(schedule, one.name) for one in parameters_of(kind)}
    shape = given.get("shape", "sqrt")
    return {
        **given,
        **{name: getattr(math, name) for name in ("cos", "pi", "sqrt")},
        "min": min,
        "max": max,
        "round": round,
        "sum": sum,
        "down": lambda share: decay_done(share, shape),
    }


def printed_rates(kind: str, schedule: Scheduler, steps: int) -> Iterator[float]:
    rate, with_ = ROWS[kind]
    names = names_of(schedule, kind)
    for step in range(steps):
        scope = {"__builtins__": {}, **names, "s": step}
        if "total_steps" in names:
            scope["d"] = min(step, names["total_steps"]) / names["total_steps"]
        for extra in with_:
            exec(extra, scope)
        yield eval(rate, scope)


def test_the_guide_prints_a_formula_for_every_schedule_of_the_step() -> None:
    assert ROWS.keys() == KINDS.keys() - {"plateau"}


@pytest.mark.parametrize("kind", EXAMPLES)
def test_the_printed_formula_is_that_of_the_program(kind: str) -> None:
    schedule = parse_schedule(EXAMPLES[kind])
    rates = [schedule.lr(step) for step in range(60)]
    assert list(printed_rates(kind, schedule, 60)) == pytest.approx(rates)


def torch_rates(kind: type[lr_scheduler.LRScheduler], steps: int, **options: Any) -> list[float]:
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1)
    theirs = kind(optimizer, **options)
    rates = []
    for step in range(steps):
        if step:
            optimizer.step()
            theirs.step()
        rates.append(optimizer.param_groups[0]["lr"])
    return rates


@pytest.mark.parametrize(
    ("text", "kind", "steps", "options"),
    [
        ("step(0.1,7,0.5)", lr_scheduler.StepLR, 60, {"step_size": 7, "gamma": 0.5}),
        (
            "multistep(0.1,[5,20],0.3)",
            lr_scheduler.MultiStepLR,
            60,
            {"milestones": [5, 20], "gamma": 0.3},
        ),
        ("exponential(0.1,0.9)", lr_scheduler.ExponentialLR, 60, {"gamma": 0.9}),
        (
            "cosine(0.1,0.001,40)",
            lr_scheduler.CosineAnnealingLR,
            41,
            {"T_max": 40, "eta_min": 0.001},
        ),
        (
            "cyclic(0.01,0.1,7,5)",
            lr_scheduler.CyclicLR,
            60,
            {
                "base_lr": 0.01,
                "max_lr": 0.1,
                "step_size_up": 7,
                "step_size_down": 5,
                "cycle_momentum": False,
            },
        ),
    ],
)
def test_what_is_called_equal_is_equal(
    text: str, kind: type[lr_scheduler.LRScheduler], steps: int, options: dict[str, Any]
) -> None:
    ours = parse_schedule(text)
    theirs = torch_rates(kind, steps, **options)
    assert [ours.lr(step) for step in range(steps)] == pytest.approx(theirs)


def test_one_cycle_differs_as_the_guide_says() -> None:
    theirs = torch_rates(lr_scheduler.OneCycleLR, 100, max_lr=0.1, total_steps=100)
    ours = [OneCycleLR(0.1, 100).lr(step) for step in range(101)]
    assert theirs.index(max(theirs)) == ours.index(max(ours)) - 1
    assert theirs[0] == pytest.approx(ours[0])
    assert ours[-1] == pytest.approx(ours[0])
    assert theirs[-1] == pytest.approx(theirs[0] / 10_000)
    middle_up = theirs[0] + (0.1 - theirs[0]) * 7 / 29  # on a straight line
    assert theirs[7] < 0.8 * middle_up
    with pytest.raises(ValueError, match="Tried to step"):
        torch_rates(lr_scheduler.OneCycleLR, 102, max_lr=0.1, total_steps=100)


def test_a_plateau_acts_one_observation_earlier_than_torch_does() -> None:
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    theirs = lr_scheduler.ReduceLROnPlateau(
        optimizer, factor=0.5, patience=2, threshold=0.0, threshold_mode="abs"
    )
    ours = PlateauScheduler(1.0, 3, 0.5, 0.0)
    for value in (1.0, 2.0, 2.0, 2.0, 0.5, 2.0, 2.0, 2.0, 2.0):
        theirs.step(value)
        assert ours.observe(value) == optimizer.param_groups[0]["lr"]


def test_bounds_of_a_truncated_normal_can_be_plain_values() -> None:
    low, high, mean, std = -0.5, 1.0, 0.25, 0.5
    drawn = trunc_normal([20_000], mean, std, (low - mean) / std, (high - mean) / std)
    torch.manual_seed(0)
    theirs = nn.init.trunc_normal_(torch.empty(20_000), mean, std, low, high)
    assert (drawn.min().item(), drawn.max().item()) == pytest.approx((low, high), abs=0.01)
    assert drawn.mean().item() == pytest.approx(theirs.mean().item(), abs=0.02)
