"""Trainings with and without `LossGuard`: harmless to healthy ones, useful to disturbed ones?

Each training is run twice from the same seed, without pauses and without a run. Disturbed ones have
a rate that jumps twentyfold for good at a third of the run, or bad batches in a row.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from statistics import median

import torch
from torch import nn

from benchmarks.clinic.harness import Bench, prepare
from benchmarks.clinic.kinds import KINDS
from benchmarks.clinic.optimizers import make_optimizer
from epochal.torch import ConstantLR, LossGuard

STEPS = 400
PLACES = (("mlp", "momentum"), ("mlp", "adamw"), ("linear", "sgd"), ("tabular", "adam"))
SEEDS = (0, 1, 2, 3)
DISTURBANCES = ("none", "bad batches", "rate jump")
_JUMP = 20.0
_BAD_STEPS = 5


@dataclass(frozen=True, slots=True)
class Trial:
    """One pair: the result without and with the guard, and how often it cut the rate."""

    kind: str
    optimizer: str
    seed: int
    disturbance: str
    without: float
    guarded: float
    num_cuts: int


def trials(*, jobs: int = 2) -> list[Trial]:
    """Run all pairs."""
    wanted = [(*place, seed, one) for one in DISTURBANCES for place in PLACES for seed in SEEDS]
    with ProcessPoolExecutor(max_workers=jobs) as pool:
        return list(pool.map(_trial, *zip(*wanted, strict=True)))


def _trial(kind: str, optimizer: str, seed: int, disturbance: str) -> Trial:
    torch.set_num_threads(1)
    without, _ = train(kind, optimizer, seed, disturbance, guarded=False)
    guarded, num_cuts = train(kind, optimizer, seed, disturbance, guarded=True)
    return Trial(kind, optimizer, seed, disturbance, without, guarded, num_cuts)


def train(
    kind: str, optimizer: str, seed: int, disturbance: str, *, guarded: bool
) -> tuple[float, int]:
    """Train once; returns the honest result and the number of cuts."""
    bench = prepare(KINDS[kind], optimizer, seed)
    made = make_optimizer(bench.choice, bench.rate, [one for _, one in bench.trained])
    guard = LossGuard(inner=ConstantLR(1.0), acts=True)
    torch.manual_seed(2000 + seed)
    for step in range(STEPS):
        rate = bench.rate * _schedule(bench, step) * _disturbed_rate(disturbance, step)
        for group in made.param_groups:
            group["lr"] = rate * (guard.lr(step) if guarded else 1.0)
        loss, norm = _step(bench, made, _disturbed_batch(disturbance, step))
        if guarded:
            guard.observe(step, loss, norm)
    return bench.task.result(), len(guard.cuts)


def _schedule(bench: Bench, step: int) -> float:
    return min(1.0, (step + 1) / bench.warmup) if bench.warmup else 1.0


def _disturbed_rate(disturbance: str, step: int) -> float:
    return _JUMP if disturbance == "rate jump" and step >= STEPS // 3 else 1.0


def _disturbed_batch(disturbance: str, step: int) -> bool:
    return disturbance == "bad batches" and 0 <= step - STEPS // 2 < _BAD_STEPS


def _step(bench: Bench, made: torch.optim.Optimizer, is_bad: bool) -> tuple[float, float]:
    inputs, targets = bench.loader.take()
    if is_bad:
        inputs = inputs * 20 if inputs.is_floating_point() else inputs[torch.randperm(len(inputs))]
    bench.model.train()
    made.zero_grad()
    loss = bench.task.loss(bench.task.outputs(inputs), targets)
    loss.backward()  # type: ignore[no-untyped-call]
    parameters = [one for _, one in bench.trained if one.grad is not None]
    norm = nn.utils.clip_grad_norm_(parameters, bench.clip or math.inf)
    made.step()
    return float(loss.detach()), float(norm)


def markdown(found: list[Trial]) -> str:
    """The table of a trial, one line for each kind, and what came of it."""
    lines = [
        f"{len(found)} pairs of {STEPS} steps, {len(SEEDS)} seeds each. A figure is the median "
        "ratio of the result with the guard over the one without; below 1 is better. In brackets: "
        "cuts of the rate, and lost runs (not a number, or over twice the healthy result) without "
        "and with it.",
        "",
        "| kind | " + " | ".join(DISTURBANCES) + " |",
        "|---" * (1 + len(DISTURBANCES)) + "|",
    ]
    for kind, optimizer in PLACES:
        own = [one for one in found if (one.kind, one.optimizer) == (kind, optimizer)]
        healthy = median(one.without for one in own if one.disturbance == "none")
        cells = [
            _cell([one for one in own if one.disturbance == name], healthy) for name in DISTURBANCES
        ]
        lines.append(f"| {kind}, {optimizer} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(own: list[Trial], healthy: float) -> str:
    both = [one.guarded / one.without for one in own if math.isfinite(one.guarded / one.without)]
    ratio = f"{median(both):.3f}" if both else "-"

    def lost(result: Callable[[Trial], float]) -> int:
        return sum(not result(one) < 2 * healthy for one in own)

    cuts = sum(one.num_cuts for one in own)
    return f"{ratio} ({cuts} cuts, lost {lost(_without)} and {lost(_guarded)})"


def _without(trial: Trial) -> float:
    return trial.without


def _guarded(trial: Trial) -> float:
    return trial.guarded
