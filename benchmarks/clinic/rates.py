"""Are healthy trainings healthy? Each runs again with other rates and with a warm-up, unrecorded.

A rate is too high if a third of it is better beyond the spread of seeds, and too low if three times
of it are. A warm-up is missing if one is better beyond that spread. All this is told before any
rule is asked about these trainings. A wider choice of rates tells which one to take instead.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal, cast

import torch

from benchmarks.clinic.harness import prepare, train
from benchmarks.clinic.kinds import KINDS
from epochal.run.run import Run

# What is changed: the factor of the rate, and the share of the steps that is a warm-up at least.
VARIANTS: dict[str, tuple[float, float]] = {
    "as it is": (1.0, 0.0),
    "a third": (1 / 3, 0.0),
    "three times": (3.0, 0.0),
    "warm-up": (1.0, 0.1),
}
# More of them, to find a rate of which neither a third nor three times is better.
WIDER: dict[str, tuple[float, float]] = {
    "a ninth": (1 / 9, 0.0),
    "nine times": (9.0, 0.0),
    "a third, warm-up": (1 / 3, 0.1),
    "three times, warm-up": (3.0, 0.1),
    "27 times": (27.0, 0.0),
}
_FACTORS = ("a ninth", "a third", "as it is", "three times", "nine times", "27 times")
_SHOWN = (*_FACTORS, "warm-up", "a third, warm-up", "three times, warm-up")
Device = Literal["cpu", "cuda", "both"]


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


def attempt(place: str, variant: str, seed: int, device: str = "cpu") -> Trial:
    """Train once, as fast as it goes; several ranks are one with the batches of all."""
    torch.set_num_threads(1)
    name, _, optimizer = place.partition("/")
    factor, share = (VARIANTS | WIDER)[variant]
    kind = KINDS[name]
    alone = replace(kind, pace_ms=0.0, world=1, batch_size=kind.batch_size * kind.world)
    bench = prepare(alone, optimizer, seed, device=device)
    bench.rate *= factor
    bench.warmup = max(bench.warmup, int(share * bench.steps))
    run = _Unrecorded()
    result = float(train(bench, cast(Run, run), watched=False)["result"])
    last = run.losses[-max(1, len(run.losses) // 10) :]
    return Trial(place, variant, seed, result, sum(last) / len(last))


def trials(
    places: Sequence[str],
    *,
    seeds: int,
    jobs: int,
    wide: bool = False,
    minutes: float | None = None,
    device: Device = "cpu",
    to: Path | None = None,
) -> list[Trial]:
    """All variants of all places, with as many seeds; when the time is up, those that are done.

    With the device ``both`` every second seed is on the GPU. Each trial is written to a file when
    it is done.
    """
    variants = [*VARIANTS, *(WIDER if wide else ())]
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        begun = [
            pool.submit(attempt, place, variant, seed, _device(device, seed))
            for seed in range(seeds)
            for variant in variants
            for place in places
        ]
        found = list(_ended(begun, minutes, to))
        pool.shutdown(cancel_futures=True)
    return found


def _device(device: Device, seed: int) -> str:
    return ("cpu", "cuda")[seed % 2] if device == "both" else device


def _ended(
    begun: Sequence[Future[Trial]], minutes: float | None, to: Path | None
) -> Iterator[Trial]:
    with contextlib.ExitStack() as open_files, contextlib.suppress(TimeoutError):
        file = open_files.enter_context(to.open("w")) if to is not None else None
        for done in as_completed(begun, None if minutes is None else 60 * minutes):
            if file is not None:
                file.write(json.dumps(asdict(done.result())) + "\n")
                file.flush()
            yield done.result()


def is_better(results: Sequence[float], than: Sequence[float]) -> bool:
    """Whether every seed is lower, in the mean by more than seeds differ about it, and by 1 %."""
    if not all(map(math.isfinite, (*results, *than))):
        return all(map(math.isfinite, results))
    gains = [other - own for own, other in zip(results, than, strict=True)]
    least = max(max(gains) - min(gains), 0.01 * abs(sum(than)) / len(than))
    return min(gains) > 0 and sum(gains) / len(gains) > least


Results = Mapping[str, Mapping[int, float]]  # of each seed, by variant


def _beats(results: Results, variant: str, than: str) -> bool:
    """By the seeds that both have."""
    own, other = results.get(variant, {}), results.get(than, {})
    both = sorted(own.keys() & other.keys())
    return bool(both) and is_better([own[one] for one in both], [other[one] for one in both])


def best_factor(results: Results) -> str:
    """The variant from which neither a third nor three times is better, nearest to "as it is"."""
    at = _FACTORS.index("as it is")
    step = -1 if _beats(results, "a third", "as it is") else 1
    while 0 <= at + step < len(_FACTORS) and _beats(results, _FACTORS[at + step], _FACTORS[at]):
        at += step
    return _FACTORS[at]


def markdown(found: Sequence[Trial]) -> str:
    """A row for each kind and optimizer, with the results of every seed."""
    shown = [one for one in _SHOWN if any(one == trial.variant for trial in found)]
    lines = [f"| training | {' | '.join(shown)} | verdict |", "|" + " --- |" * (len(shown) + 2)]
    for place in sorted({one.place for one in found}):
        results: dict[str, dict[int, float]] = {variant: {} for variant in shown}
        for trial in found:
            if trial.place == place:
                results[trial.variant][trial.seed] = trial.result
        verdict = [
            word
            for variant, word in (
                ("a third", "too high"),
                ("three times", "too low"),
                ("warm-up", "needs a warm-up"),
            )
            if _beats(results, variant, "as it is")
        ]
        best = best_factor(results)
        if best in WIDER:
            verdict.append(f"best {best}")
        cells = [", ".join(f"{r[seed]:.4g}" for seed in sorted(r)) for r in results.values()]
        lines.append(f"| {place} | {' | '.join(cells)} | {', '.join(verdict) or 'healthy'} |")
    return "\n".join(lines)
