"""Are healthy trainings healthy? Each runs again with other rates and with a warm-up, unrecorded.

A rate is too high if a third of it is better beyond the spread of seeds. A warm-up is missing if
one is better beyond that spread. Both are told before any rule is asked about these trainings.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from typing import Any, cast

import torch

from benchmarks.clinic.harness import prepare, train
from benchmarks.clinic.kinds import KINDS
from epochal.run.run import Run

# What is changed: the factor of the rate, and the share of the steps that is a warm-up at least.
VARIANTS: dict[str, tuple[float, float]] = {
    "a third": (1 / 3, 0.0),
    "as it is": (1.0, 0.0),
    "three times": (3.0, 0.0),
    "warm-up": (1.0, 0.1),
}


class _Unrecorded:
    """A run that keeps the training losses and nothing else."""

    def __init__(self) -> None:
        self.losses: list[float] = []

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        yield

    def log_step(self, *values: Any, **more: Any) -> None:
        self.losses.append(float(values[5]))

    def log_eval(self, *values: Any, **more: Any) -> None:
        pass

    def log(self, values: dict[str, float], step: int) -> None:
        if "loss" in values:
            self.losses.append(values["loss"])


@dataclass(frozen=True, slots=True)
class Trial:
    """One training with one variant, and what came of it."""

    place: str  # kind/optimizer
    variant: str
    seed: int
    result: float
    final_loss: float  # of training, the mean of the last tenth


def attempt(place: str, variant: str, seed: int) -> Trial:
    """Train once, as fast as it goes."""
    torch.set_num_threads(1)
    name, _, optimizer = place.partition("/")
    factor, share = VARIANTS[variant]
    kind = replace(KINDS[name], pace_ms=0.0)
    bench = prepare(kind, optimizer, seed)
    bench.rate *= factor
    bench.warmup = max(bench.warmup, int(share * bench.steps))
    run = _Unrecorded()
    result = float(train(bench, cast(Run, run), watched=False)["result"])
    last = run.losses[-max(1, len(run.losses) // 10) :]
    return Trial(place, variant, seed, result, sum(last) / len(last))


def trials(places: Sequence[str], *, seeds: int, jobs: int) -> list[Trial]:
    """All variants of all places, with as many seeds."""
    wanted = [(p, variant, seed) for p in places for variant in VARIANTS for seed in range(seeds)]
    if jobs == 1:
        return [attempt(*one) for one in wanted]
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        return list(pool.map(attempt, *zip(*wanted, strict=True)))


def is_better(results: Sequence[float], than: Sequence[float]) -> bool:
    """Whether every seed is lower, in the mean by more than seeds differ about it, and by 1 %."""
    if not all(map(math.isfinite, (*results, *than))):
        return all(map(math.isfinite, results))
    gains = [other - own for own, other in zip(results, than, strict=True)]
    least = max(max(gains) - min(gains), 0.01 * abs(sum(than)) / len(than))
    return min(gains) > 0 and sum(gains) / len(gains) > least


def markdown(found: Sequence[Trial]) -> str:
    """A row for each kind and optimizer, with the results of every seed."""
    lines = [f"| training | {' | '.join(VARIANTS)} | verdict |", "| --- |" + " --- |" * 5]
    for place in dict.fromkeys(one.place for one in found):
        by_variant = {
            variant: [o.result for o in found if o.place == place and o.variant == variant]
            for variant in VARIANTS
        }
        own = by_variant["as it is"]
        verdict = [
            word
            for variant, word in (("a third", "too high"), ("warm-up", "needs a warm-up"))
            if is_better(by_variant[variant], own)
        ]
        cells = [", ".join(f"{one:.4g}" for one in results) for results in by_variant.values()]
        lines.append(f"| {place} | {' | '.join(cells)} | {' and '.join(verdict) or 'healthy'} |")
    return "\n".join(lines)
