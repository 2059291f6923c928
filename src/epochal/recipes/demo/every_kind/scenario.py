"""What happens in the made-up run, and when: two ranks, two attempts, a few accidents.

Everything here follows from the seed, the step and the time the run is said to have begun.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

NUM_STEPS = 400
STEPS_PER_EPOCH = 100
NUM_EPOCHS = NUM_STEPS // STEPS_PER_EPOCH
BATCH_TOKENS = 65_536
# Tokens per second at the speed of light.
SPEED_OF_LIGHT_TPS = 4.2e4
SECONDS_PER_STEP = 2.0
# Between the death of the first attempt and the first step of the second.
PAUSE_S = 90.0

NAN_STEP = 150
SPIKE_STEP = 310
SPIKE_RISE = 6.0
SPIKE_NORM = 34.0
# The loader had nothing to give at this step of the second attempt.
SLOW_STEP = 356
SLOW_S = 4.6
LATE_METRIC_FROM = 120
HOT_GPU = 1
HOT_STEPS = range(165, 190)
TRAINED_TOKENS = NUM_STEPS * BATCH_TOKENS


@dataclass(frozen=True, slots=True)
class Attempt:
    """One life of the process: the first step it logs and the step after its last."""

    number: int
    first: int
    end: int
    begins_s: float

    @property
    def steps(self) -> range:
        """Every step it logs."""
        return range(self.first, self.end)

    def seconds_at(self, step: float) -> float:
        """When a step ends, in seconds since the run began."""
        waited_s = SLOW_S if self.number == 2 and step >= SLOW_STEP else 0.0
        return self.begins_s + (step - self.first + 1) * SECONDS_PER_STEP + waited_s

    @property
    def ends_s(self) -> float:
        """When the last step ends."""
        return self.seconds_at(self.end - 1)


# The first is killed at step 260; the second goes on from the checkpoint before step 200, so that
# steps 200 to 259 were logged twice.
FIRST = Attempt(1, 0, 260, 0.0)
SECOND = Attempt(2, 200, NUM_STEPS, FIRST.ends_s + PAUSE_S)
ATTEMPTS = (FIRST, SECOND)
DURATION_S = SECOND.ends_s


@dataclass(frozen=True, slots=True)
class Step:
    """The figures of one step on one rank."""

    step: int
    seconds: float
    loss: float
    norm: float
    lr: float
    duration_ms: float

    @property
    def epoch(self) -> float:
        """Epochs completed after this step, with a fraction."""
        return (self.step + 1) / STEPS_PER_EPOCH


def make_steps(attempt: Attempt, *, rank: int, seed: int) -> Iterator[Step]:
    """An attempt's steps on one rank: a falling loss with noise, one NaN and one spike."""
    rng = np.random.default_rng((seed, attempt.number, rank))
    for step in attempt.steps:
        loss, norm = expected_loss(step) + 0.06 * rng.standard_normal(), rng.uniform(0.6, 1.1)
        if step == NAN_STEP:
            loss, norm = math.nan, math.inf
        elif step == SPIKE_STEP:
            loss, norm = expected_loss(step) + SPIKE_RISE, SPIKE_NORM
        yield Step(
            step=step,
            seconds=attempt.seconds_at(step),
            loss=float(loss),
            norm=float(norm),
            lr=learning_rate(step),
            duration_ms=round(1000 * _seconds(step, attempt) * (0.93 + 0.06 * rng.random()), 3),
        )


def phase(step: int) -> str:
    """What the training would call its own state."""
    if step < 40:
        return "warm-up"
    if SPIKE_STEP <= step < SPIKE_STEP + 15:
        return "unstable"
    return "plateau" if step >= 340 else "converging"


def _seconds(step: int, attempt: Attempt) -> float:
    return SECONDS_PER_STEP + (SLOW_S if attempt.number == 2 and step == SLOW_STEP else 0.0)


def expected_loss(step: int) -> float:
    """The loss without noise."""
    return 3.0 + 8.0 * math.exp(-step / 70.0)


def learning_rate(step: int) -> float:
    """Warm-up, then a cosine."""
    if step < 40:
        return 6e-4 * (step + 1) / 40
    return 3e-4 * (1.0 + math.cos(math.pi * (step - 40) / (NUM_STEPS - 40)))
