"""A learning rate that jumps in mid-run, in real trainings: a destroyed model is an error."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

import epochal
from epochal.health.finding import Finding
from epochal.run.run import Run
from epochal.store.local.by_path import load_run

CLASSES, FEATURES, BATCH = 10, 20, 64
Schedule = Callable[[int], float]


def train(run: Run, *, steps: int, rate: Schedule, adam: bool = False) -> None:
    """Three layers that tell ten classes apart, trained with a rate by step."""
    source = torch.Generator().manual_seed(4)
    centres = torch.randn(CLASSES, FEATURES, generator=source)
    model = nn.Sequential(
        nn.Linear(FEATURES, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, CLASSES)
    )
    optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=rate(0))
    if adam:
        optimizer = torch.optim.Adam(model.parameters(), lr=rate(0))
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = rate(step)
        labels = torch.randint(CLASSES, (BATCH,), generator=source)
        inputs = centres[labels] + 2.0 * torch.randn(BATCH, FEATURES, generator=source)
        guesses = model(inputs)
        loss = functional.cross_entropy(guesses, labels)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        accuracy = (guesses.argmax(1) == labels).float().mean()
        run.log({"loss": loss, "accuracy": accuracy, "lr": rate(step)}, step=step)


def diagnose(folder: Path, *, steps: int, rate: Schedule, adam: bool = False) -> list[Finding]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    run = epochal.init("jumps", dir=folder, console=False, companion=False)
    try:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            train(run, steps=steps, rate=rate, adam=adam)
    finally:
        torch.set_num_threads(threads)
        run.finish()
    found = [Finding.from_record(e.record) for e in load_run(Path(run.dir)).findings(most=None)]
    return list({finding.id: finding for finding in found if finding is not None}.values())


def grave(found: list[Finding]) -> list[str]:
    return [f"{f.rule}: {f.sentence}" for f in found if f.severity != "info"]


def jump(rate: float, factor: float, *, at: int = 300) -> Schedule:
    return lambda step: rate * (factor if step >= at else 1.0)


@pytest.mark.parametrize(("steps", "factor"), [(600, 30), (1500, 60)])
def test_a_rate_many_times_as_high_in_mid_run_is_an_error_that_names_it(
    steps: int, factor: int, tmp_path: Path
) -> None:
    found = diagnose(tmp_path, steps=steps, rate=jump(0.05, factor))
    lost = next(finding for finding in found if finding.rule == "divergence")
    assert (lost.severity, lost.state) == ("error", "open")
    assert lost.sentence.startswith(f"The learning rate rose {factor} times at step 30")
    assert lost.steps is not None
    assert lost.steps[0] in range(300, 305)
    assert [f.rule for f in found if f.rule == "plateau"] == []


def test_the_same_jump_is_found_with_adam(tmp_path: Path) -> None:
    found = diagnose(tmp_path, steps=600, rate=jump(3e-3, 30.0), adam=True)
    assert [f.severity for f in found if f.rule == "divergence"] == ["error"]


def test_a_rate_raised_threefold_that_goes_on_learning_is_left_alone(tmp_path: Path) -> None:
    assert grave(diagnose(tmp_path, steps=900, rate=jump(0.02, 3.0))) == []


def test_warm_restarts_are_left_alone(tmp_path: Path) -> None:
    def cosine(step: int) -> float:
        return 0.001 + 0.3 * (1 + math.cos(math.pi * (step % 300) / 300)) / 2

    assert grave(diagnose(tmp_path, steps=1200, rate=cosine)) == []
