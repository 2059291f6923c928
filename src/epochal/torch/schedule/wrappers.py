"""Schedules made of other schedules: before, after, over and beside them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from epochal.errors import UsageError
from epochal.torch.schedule.formulas import DecayShape, blend, check_shape, decay_done
from epochal.torch.schedule.scheduler import (
    Scheduler,
    check_factor,
    check_inner,
    check_length,
    check_order,
    check_rate,
    check_step,
    checked_lengths,
    checked_schedules,
    conversions,
)

if TYPE_CHECKING:
    from torch.optim import Optimizer

    from epochal.torch.schedule.adapter import TorchSchedule


@dataclass(frozen=True, slots=True)
class WarmupScheduler(Scheduler):
    """A linear climb before any other schedule, which then starts from its own step 0.

    The climb is target_lr * (step + 1) / warmup_steps, so that no step is spent at rate 0;
    `target_lr` None climbs to where the other schedule starts.
    """

    inner: Scheduler
    target_lr: float | None
    warmup_steps: int

    def __post_init__(self) -> None:
        check_inner(self.inner)
        if self.target_lr is not None:
            check_rate(self.target_lr, name="target_lr")
        check_length(self.warmup_steps, name="warmup_steps")

    def lr(self, step: int) -> float:
        """Return the rate on the climb, then `inner.lr(step - warmup_steps)`."""
        if check_step(step) >= self.warmup_steps:
            return self.inner.lr(step - self.warmup_steps)
        target = self.inner.lr(0) if self.target_lr is None else self.target_lr
        return target * (step + 1) / self.warmup_steps

    def horizon(self) -> int:
        """Return the climb and what follows."""
        return self.warmup_steps + self.inner.horizon()


@dataclass(frozen=True, slots=True)
class Cooldown(Scheduler):
    """Another schedule until `at_step`, then a decay from the rate it had there to `final_lr`.

    `shape` is the way down: 'sqrt' (one minus the square root), 'linear' or 'cosine'.
    """

    inner: Scheduler
    at_step: int
    cooldown_steps: int
    final_lr: float = 0.0
    shape: DecayShape = "sqrt"

    def __post_init__(self) -> None:
        check_inner(self.inner)
        check_length(self.at_step, name="at_step", least=0)
        check_length(self.cooldown_steps, name="cooldown_steps")
        check_rate(self.final_lr, name="final_lr")
        start_lr = self.inner.lr(self.at_step)
        check_order(self.final_lr, start_lr, names=("final_lr", "the rate at at_step"))
        check_shape(self.shape)

    def lr(self, step: int) -> float:
        """Return the inner rate before `at_step`, the decaying one after it."""
        if check_step(step) <= self.at_step:
            return self.inner.lr(step)
        done = min(step - self.at_step, self.cooldown_steps) / self.cooldown_steps
        return blend(self.inner.lr(self.at_step), self.final_lr, decay_done(done, self.shape))

    def horizon(self) -> int:
        """Return the step at which the decay ends."""
        return self.at_step + self.cooldown_steps


@dataclass(frozen=True, slots=True)
class TemporaryOverride(Scheduler):
    """A rate of its own from `at_step` on that blends back linearly into another schedule.

    It is held for `hold_steps` and then fades over `blend_steps`.
    """

    inner: Scheduler
    override_lr: float
    at_step: int
    blend_steps: int
    hold_steps: int = 0

    def __post_init__(self) -> None:
        check_inner(self.inner)
        check_rate(self.override_lr, name="override_lr")
        check_length(self.at_step, name="at_step", least=0)
        check_length(self.blend_steps, name="blend_steps")
        check_length(self.hold_steps, name="hold_steps", least=0)

    def lr(self, step: int) -> float:
        """Return the override, what is left of it, or the inner rate."""
        planned = self.inner.lr(step)
        if step < self.at_step:
            return planned
        faded = max(0, step - self.at_step - self.hold_steps) / self.blend_steps
        return blend(self.override_lr, planned, faded)

    def horizon(self) -> int:
        """Return enough steps to see the way back."""
        return max(self.inner.horizon(), self.at_step + self.hold_steps + 2 * self.blend_steps)


@dataclass(frozen=True, slots=True)
class PermanentReduction(Scheduler):
    """Another schedule times `factor`, below 1, from `at_step` on."""

    inner: Scheduler
    factor: float
    at_step: int

    def __post_init__(self) -> None:
        check_inner(self.inner)
        check_factor(self.factor, name="factor")
        if self.factor >= 1:
            raise UsageError(f"factor must be below 1 to reduce a rate, got {self.factor!r}.")
        check_length(self.at_step, name="at_step", least=0)

    def lr(self, step: int) -> float:
        """Return the inner rate, reduced from `at_step` on."""
        planned = self.inner.lr(step)
        return planned if step < self.at_step else planned * self.factor

    def horizon(self) -> int:
        """Return enough steps to see the reduction."""
        return max(self.inner.horizon(), self.at_step * 5 // 4)


@dataclass(frozen=True, slots=True)
class ScaledLR(Scheduler):
    """Another schedule times a factor at every step."""

    inner: Scheduler
    factor: float

    def __post_init__(self) -> None:
        check_inner(self.inner)
        check_factor(self.factor, name="factor")

    def lr(self, step: int) -> float:
        """Return factor * inner.lr(step)."""
        return self.inner.lr(step) * self.factor

    def horizon(self) -> int:
        """Return what the inner schedule shows."""
        return self.inner.horizon()


@dataclass(frozen=True, slots=True)
class SequentialLR(Scheduler):
    """Schedules one after another, each from its own step 0, changing at the milestones."""

    schedules: tuple[Scheduler, ...]
    milestones: tuple[int, ...]

    def __post_init__(self) -> None:
        schedules = checked_schedules(self.schedules, name="schedules")
        milestones = checked_lengths(self.milestones, name="milestones", least=1)
        object.__setattr__(self, "schedules", schedules)
        object.__setattr__(self, "milestones", milestones)
        if len(self.milestones) != len(self.schedules) - 1:
            raise UsageError(
                f"milestones must be one fewer than schedules, got {len(self.milestones)} for "
                f"{len(self.schedules)}."
            )
        if any(later <= earlier for earlier, later in pairwise(self.milestones)):
            raise UsageError(f"milestones must rise, got {list(self.milestones)}.")

    def lr(self, step: int) -> float:
        """Return the rate of the schedule whose turn it is."""
        turn = bisect_right(self.milestones, check_step(step))
        return self.schedules[turn].lr(step - (self.milestones[turn - 1] if turn else 0))

    def horizon(self) -> int:
        """Return the last milestone and what follows it."""
        return sum(self.milestones[-1:]) + self.schedules[-1].horizon()


@dataclass(frozen=True, slots=True)
class GroupRates:
    """A schedule for each parameter group of an optimizer, in the optimizer's order."""

    schedules: tuple[Scheduler, ...]

    def __post_init__(self) -> None:
        schedules = checked_schedules(self.schedules, name="schedules")
        object.__setattr__(self, "schedules", schedules)

    @classmethod
    def scaled(cls, schedule: Scheduler, factors: Iterable[float]) -> GroupRates:
        """Make one from a single schedule and a factor per group."""
        return cls(tuple(ScaledLR(schedule, factor) for factor in factors))

    def lrs(self, step: int) -> tuple[float, ...]:
        """Return one rate per group."""
        return tuple(schedule.lr(step) for schedule in self.schedules)

    def to_torch(self, optimizer: Optimizer) -> TorchSchedule:
        """Drive each parameter group by its own schedule, as a torch `LRScheduler`."""
        return conversions().torch_schedule(optimizer, *self.schedules)
