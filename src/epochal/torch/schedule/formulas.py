"""The schedules that are one formula each.

Sources of the formulas: step decay, multi-step, exponential and cosine annealing as in
`torch.optim.lr_scheduler`; the triangle of Smith 2017 (cyclical rates); one cycle as linear up and
cosine down; warm-up, stable, decay as in Hu et al. 2024 with the 1-sqrt decay of Hägele et al.
2024; the inverse square root of Vaswani et al. 2017.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from typing import Literal, get_args

from epochal.errors import UsageError
from epochal.torch.schedule.scheduler import (
    Scheduler,
    check_factor,
    check_length,
    check_order,
    check_rate,
    check_share,
    check_step,
    checked_lengths,
    power,
)

DecayShape = Literal["sqrt", "linear", "cosine"]

_ONE_CYCLE_FLOOR = 25.0


@dataclass(frozen=True, slots=True)
class ConstantLR(Scheduler):
    """The same rate at every step."""

    base_lr: float

    def __post_init__(self) -> None:
        check_rate(self.base_lr, name="base_lr")

    def lr(self, step: int) -> float:
        """Return `base_lr`."""
        check_step(step)
        return self.base_lr


@dataclass(frozen=True, slots=True)
class LinearLR(Scheduler):
    """A straight line from one rate to another, up or down, then the end rate."""

    start_lr: float
    end_lr: float
    total_steps: int

    def __post_init__(self) -> None:
        check_rate(self.start_lr, name="start_lr")
        check_rate(self.end_lr, name="end_lr")
        check_length(self.total_steps, name="total_steps")

    def lr(self, step: int) -> float:
        """Return the rate on the line; `end_lr` from `total_steps` on."""
        done = min(check_step(step), self.total_steps) / self.total_steps
        return blend(self.start_lr, self.end_lr, done)

    def horizon(self) -> int:
        """Return the length of the line."""
        return self.total_steps


@dataclass(frozen=True, slots=True)
class StepDecay(Scheduler):
    """The base rate times `gamma` once more after every `step_size` steps."""

    base_lr: float
    step_size: int
    gamma: float

    def __post_init__(self) -> None:
        check_rate(self.base_lr, name="base_lr")
        check_length(self.step_size, name="step_size")
        check_factor(self.gamma, name="gamma")

    def lr(self, step: int) -> float:
        """Return base_lr * gamma ** (step // step_size)."""
        return grown(self.base_lr, self.gamma, check_step(step) // self.step_size)

    def horizon(self) -> int:
        """Return five treads of the stairs."""
        return 5 * self.step_size


@dataclass(frozen=True, slots=True)
class MultiStepLR(Scheduler):
    """The base rate times `gamma` once more from each milestone on; milestones in any order."""

    base_lr: float
    milestones: tuple[int, ...]
    gamma: float

    def __post_init__(self) -> None:
        check_rate(self.base_lr, name="base_lr")
        check_factor(self.gamma, name="gamma")
        milestones = checked_lengths(self.milestones, name="milestones", least=0)
        if not milestones:
            raise UsageError("milestones must name at least one step.")
        object.__setattr__(self, "milestones", tuple(sorted(milestones)))

    def lr(self, step: int) -> float:
        """Return base_lr * gamma ** (milestones passed); one on `step` itself is passed."""
        return grown(self.base_lr, self.gamma, bisect_right(self.milestones, check_step(step)))

    def horizon(self) -> int:
        """Return a little more than the last milestone."""
        return max(self.milestones[-1] * 5 // 4, self.milestones[-1] + 2)


@dataclass(frozen=True, slots=True)
class ExponentialLR(Scheduler):
    """The base rate times `gamma` at every step.

    With `gamma` above 1 (a range test) the rate reaches infinity in the end instead of failing.
    """

    base_lr: float
    gamma: float

    def __post_init__(self) -> None:
        check_rate(self.base_lr, name="base_lr")
        check_factor(self.gamma, name="gamma")

    def lr(self, step: int) -> float:
        """Return base_lr * gamma ** step."""
        return grown(self.base_lr, self.gamma, check_step(step))

    def horizon(self) -> int:
        """Return the steps in which the rate changes a hundredfold."""
        change = abs(math.log(self.gamma))
        return max(2, min(round(math.log(100) / change), 1_000_000)) if change else 1000


@dataclass(frozen=True, slots=True)
class CosineScheduler(Scheduler):
    """Half a cosine from the base rate down to `min_lr`, then `min_lr`."""

    base_lr: float
    min_lr: float
    total_steps: int

    def __post_init__(self) -> None:
        check_rate(self.base_lr, name="base_lr")
        check_rate(self.min_lr, name="min_lr")
        check_order(self.min_lr, self.base_lr, names=("min_lr", "base_lr"))
        check_length(self.total_steps, name="total_steps")

    def lr(self, step: int) -> float:
        """Return the rate on the cosine; `min_lr` from `total_steps` on."""
        done = min(check_step(step), self.total_steps) / self.total_steps
        return blend(self.base_lr, self.min_lr, decay_done(done, "cosine"))

    def horizon(self) -> int:
        """Return the length of the half wave."""
        return self.total_steps


@dataclass(frozen=True, slots=True)
class OneCycleLR(Scheduler):
    """Linear from a 25th of the highest rate up to it, then half a cosine back to the 25th.

    The first `warmup_frac` of the steps lead up (three tenths unless told).
    """

    max_lr: float
    total_steps: int
    warmup_frac: float = 0.3

    def __post_init__(self) -> None:
        check_rate(self.max_lr, name="max_lr")
        check_length(self.total_steps, name="total_steps")
        check_share(self.warmup_frac, name="warmup_frac")

    @classmethod
    def with_warmup_frac(cls, max_lr: float, total_steps: int, frac: float) -> OneCycleLR:
        """Make one whose way up takes the share `frac` of the steps, 0 to 1."""
        return cls(max_lr, total_steps, frac)

    def lr(self, step: int) -> float:
        """Return the rate of the cycle; its floor from `total_steps` on."""
        at = min(check_step(step), self.total_steps)
        up = round(self.warmup_frac * self.total_steps)
        floor = self.max_lr / _ONE_CYCLE_FLOOR
        if at < up:
            return blend(floor, self.max_lr, at / up)
        if up == self.total_steps:
            return self.max_lr
        done = (at - up) / (self.total_steps - up)
        return blend(self.max_lr, floor, decay_done(done, "cosine"))

    def horizon(self) -> int:
        """Return the length of the cycle."""
        return self.total_steps


@dataclass(frozen=True, slots=True)
class CyclicLR(Scheduler):
    """A triangle wave between two rates, for ever.

    Each cycle climbs for `step_size` steps and falls for `step_size_down` (as many unless told).
    """

    base_lr: float
    max_lr: float
    step_size: int
    step_size_down: int | None = None

    def __post_init__(self) -> None:
        check_rate(self.base_lr, name="base_lr")
        check_rate(self.max_lr, name="max_lr")
        check_order(self.base_lr, self.max_lr, names=("base_lr", "max_lr"))
        check_length(self.step_size, name="step_size")
        if self.step_size_down is not None:
            check_length(self.step_size_down, name="step_size_down")

    @classmethod
    def asymmetric(cls, base_lr: float, max_lr: float, up: int, down: int) -> CyclicLR:
        """Make one that climbs for `up` steps and falls for `down`."""
        return cls(base_lr, max_lr, up, down)

    def lr(self, step: int) -> float:
        """Return the rate on the triangle; the peak is `step_size` steps into each cycle."""
        down = self._down()
        at = check_step(step) % (self.step_size + down)
        height = at / self.step_size if at <= self.step_size else 1 - (at - self.step_size) / down
        return blend(self.base_lr, self.max_lr, height)

    def horizon(self) -> int:
        """Return three cycles."""
        return 3 * (self.step_size + self._down())

    def _down(self) -> int:
        return self.step_size if self.step_size_down is None else self.step_size_down


@dataclass(frozen=True, slots=True)
class WSD(Scheduler):
    """Warm up, stay, decay; the decay takes the last tenth of the steps, or `decay_frac` of them.

    `shape` is the way down: 'sqrt' (one minus the square root), 'linear' or 'cosine'. Without
    `warmup_steps` it starts at the highest rate.
    """

    max_lr: float
    min_lr: float
    total_steps: int
    warmup_steps: int = 0
    decay_frac: float = 0.1
    shape: DecayShape = "sqrt"

    def __post_init__(self) -> None:
        check_rate(self.max_lr, name="max_lr")
        check_rate(self.min_lr, name="min_lr")
        check_order(self.min_lr, self.max_lr, names=("min_lr", "max_lr"))
        check_length(self.total_steps, name="total_steps")
        check_length(self.warmup_steps, name="warmup_steps", least=0)
        check_share(self.decay_frac, name="decay_frac")
        check_shape(self.shape)
        if self.warmup_steps + self._decay_steps() > self.total_steps:
            raise UsageError(
                f"warmup_steps ({self.warmup_steps}) and the decay ({self._decay_steps()} steps) "
                f"must fit into total_steps ({self.total_steps})."
            )

    def lr(self, step: int) -> float:
        """Return the rate of the phase that `step` is in; `min_lr` from `total_steps` on."""
        if check_step(step) < self.warmup_steps:
            return self.max_lr * (step + 1) / self.warmup_steps
        decay_steps = self._decay_steps()
        into = min(step, self.total_steps) - (self.total_steps - decay_steps)
        if into <= 0:
            return self.max_lr
        return blend(self.max_lr, self.min_lr, decay_done(into / decay_steps, self.shape))

    def horizon(self) -> int:
        """Return the length of the three phases."""
        return self.total_steps

    def _decay_steps(self) -> int:
        return max(1, round(self.decay_frac * self.total_steps))


@dataclass(frozen=True, slots=True)
class InverseSqrt(Scheduler):
    """The base rate over sqrt(1 + step / timescale), without an end.

    Behind a warm-up of `timescale` steps this is the schedule of the first transformers.
    """

    base_lr: float
    timescale: int

    def __post_init__(self) -> None:
        check_rate(self.base_lr, name="base_lr")
        check_length(self.timescale, name="timescale")

    def lr(self, step: int) -> float:
        """Return base_lr / sqrt(1 + step / timescale)."""
        return self.base_lr / math.sqrt(1 + check_step(step) / self.timescale)

    def horizon(self) -> int:
        """Return the steps in which the rate falls to about a third."""
        return 10 * self.timescale


def blend(start: float, end: float, done: float) -> float:
    """The point `done` of the way from one rate to another; exact at both ends."""
    return end if done >= 1 else start + (end - start) * done


def grown(base: float, factor: float, times: int) -> float:
    """A rate multiplied so many times; 0 stays 0 however large the factor grows."""
    return base * power(factor, times) if base else 0.0


def decay_done(done: float, shape: DecayShape) -> float:
    """How much of a decay has happened when `done` of its steps have, both from 0 to 1."""
    if shape == "sqrt":
        return math.sqrt(done)
    return (1 - math.cos(math.pi * done)) / 2 if shape == "cosine" else done


def check_shape(shape: DecayShape) -> None:
    """Refuse an unknown way down."""
    if shape not in get_args(DecayShape):
        raise UsageError(f"shape must be 'sqrt', 'linear' or 'cosine', got {shape!r}.")
