"""Learning-rate schedules: pure functions from a step to a rate.

A schedule knows nothing of an optimizer. Call `lr(step)` and set the rate yourself, or let
`to_torch(optimizer)` do both. Steps count from 0. After its end a schedule keeps its last rate.

The formulas are those of `torch.optim.lr_scheduler`; the cyclic triangle is from Smith 2017.
This module does not import torch.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, get_args

from epochal.errors import UsageError
from epochal.torch.checks import check, check_number, check_whole

if TYPE_CHECKING:
    from torch.optim import Optimizer

    from epochal.torch.clip import TorchSchedule

_ONE_CYCLE_FLOOR = 25.0
_OBSERVED = ("rate", "best", "num_bad")


class Scheduler(ABC):
    """A learning rate for every step; subclass it and write `lr` for a shape of your own."""

    __slots__ = ()

    def __post_init__(self) -> None:
        """Refuse rates, factors and numbers of steps that cannot be, by the names of fields."""
        names = [one.name for one in fields(self) if one.name in _CHECKS]  # type: ignore[arg-type]
        given = {name: getattr(self, name) for name in names}
        for name, value in given.items():
            if value is not None or name not in _OPTIONAL:
                _CHECKS[name](value, name=name)
        for low, high in (("min_lr", "base_lr"), ("base_lr", "max_lr")):
            if low in given and high in given and given[low] > given[high]:
                raise UsageError(
                    f"{low} must not exceed {high}, got {given[low]!r} and {given[high]!r}."
                )

    @abstractmethod
    def lr(self, step: int) -> float:
        """Return the rate of one step, counted from 0; a negative step is a ValueError.

        Args:
            step: The step, counted from 0.
        """

    def to_torch(self, optimizer: Optimizer) -> TorchSchedule:
        """Drive every parameter group of an optimizer, as a torch `LRScheduler`.

        Args:
            optimizer: The optimizer whose learning rates follow.
        """
        from epochal.torch.clip import TorchSchedule  # schedules work without torch

        return TorchSchedule(optimizer, self)

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint must keep: nothing, for a function of the step alone."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:  # noqa: B027 (nothing to load)
        """Go on from a `state_dict()`.

        Args:
            state: What `state_dict()` returned.
        """


@dataclass(frozen=True, slots=True)
class StepDecay(Scheduler):
    """The base rate times `gamma` once more after every `step_size` steps.

    Args:
        base_lr: The learning rate at step 0.
        step_size: The number of steps between two falls.
        gamma: The factor of each fall.
    """

    base_lr: float
    step_size: int
    gamma: float

    def lr(self, step: int) -> float:
        """Return base_lr * gamma ** (step // step_size).

        Args:
            step: The step, counted from 0.
        """
        return _decayed(self.base_lr, self.gamma, _checked(step) // self.step_size)


@dataclass(frozen=True, slots=True)
class MultiStepLR(Scheduler):
    """The base rate times `gamma` once more from each milestone on; milestones in any order.

    Args:
        base_lr: The learning rate at step 0.
        milestones: The steps at which the rate falls.
        gamma: The factor of each fall.
    """

    base_lr: float
    milestones: tuple[int, ...]
    gamma: float

    def __post_init__(self) -> None:
        Scheduler.__post_init__(self)
        given = self.milestones
        steps = sorted(check_whole(step, name="each of milestones", least=0) for step in given)
        object.__setattr__(self, "milestones", tuple(steps))

    def lr(self, step: int) -> float:
        """Return base_lr * gamma ** (milestones passed); one on `step` itself is passed."""
        return _decayed(self.base_lr, self.gamma, bisect_right(self.milestones, _checked(step)))


@dataclass(frozen=True, slots=True)
class ExponentialLR(Scheduler):
    """The base rate times `gamma` at every step.

    With `gamma` above 1 (a range test) the rate reaches infinity in the end instead of failing.

    Args:
        base_lr: The learning rate at step 0.
        gamma: The factor of each step.
    """

    base_lr: float
    gamma: float

    def lr(self, step: int) -> float:
        """Return base_lr * gamma ** step.

        Args:
            step: The step, counted from 0.
        """
        return _decayed(self.base_lr, self.gamma, _checked(step))


@dataclass(frozen=True, slots=True)
class CosineScheduler(Scheduler):
    """Half a cosine from the base rate down to `min_lr`, then `min_lr`.

    Args:
        base_lr: The learning rate at step 0.
        min_lr: The learning rate at the end.
        total_steps: The number of steps of the schedule.
    """

    base_lr: float
    min_lr: float
    total_steps: int

    def lr(self, step: int) -> float:
        """Return the rate on the cosine; `min_lr` from `total_steps` on.

        Args:
            step: The step, counted from 0.
        """
        return _cosine(self.base_lr, self.min_lr, _checked(step) / self.total_steps)


@dataclass(frozen=True, slots=True)
class OneCycleLR(Scheduler):
    """Linear from a 25th of the highest rate up to it, then half a cosine back to the 25th.

    The first `warmup_frac` of the steps lead up (30 % by default).

    Args:
        max_lr: The highest learning rate.
        total_steps: The number of steps of the schedule.
        warmup_frac: The share of the steps that the way up takes.
    """

    max_lr: float
    total_steps: int
    warmup_frac: float = 0.3

    def __post_init__(self) -> None:
        Scheduler.__post_init__(self)
        check_number(self.warmup_frac, name="warmup_frac")
        if self.warmup_frac > 1:
            raise UsageError(f"warmup_frac must be between 0 and 1, got {self.warmup_frac!r}.")

    @classmethod
    def with_warmup_frac(cls, max_lr: float, total_steps: int, frac: float) -> OneCycleLR:
        """Make one whose way up takes the share `frac` of the steps, 0 to 1.

        Args:
            max_lr: The highest learning rate.
            total_steps: The number of steps of the schedule.
            frac: The share of the steps that the way up takes, 0 to 1.
        """
        return cls(max_lr, total_steps, frac)

    def lr(self, step: int) -> float:
        """Return the rate of the cycle; its floor from `total_steps` on.

        Args:
            step: The step, counted from 0.
        """
        at = min(_checked(step), self.total_steps)
        up = round(self.warmup_frac * self.total_steps)
        floor = self.max_lr / _ONE_CYCLE_FLOOR
        if at < up:
            return _blend(floor, self.max_lr, at / up)
        if up == self.total_steps:
            return self.max_lr
        return _cosine(self.max_lr, floor, (at - up) / (self.total_steps - up))


@dataclass(frozen=True, slots=True)
class CyclicLR(Scheduler):
    """A triangle wave between two rates, without an end.

    Each cycle climbs for `step_size` steps and falls for `step_size_down` (by default as many).

    Args:
        base_lr: The learning rate at step 0.
        max_lr: The highest learning rate.
        step_size: The number of steps of a climb.
        step_size_down: The number of steps of a fall, by default as many.
    """

    base_lr: float
    max_lr: float
    step_size: int
    step_size_down: int | None = None

    @classmethod
    def asymmetric(cls, base_lr: float, max_lr: float, up: int, down: int) -> CyclicLR:
        """Make one that climbs for `up` steps and falls for `down`.

        Args:
            base_lr: The learning rate at step 0.
            max_lr: The highest learning rate.
            up: The number of steps of a climb.
            down: The number of steps of a fall.
        """
        return cls(base_lr, max_lr, up, down)

    def lr(self, step: int) -> float:
        """Return the rate on the triangle; the peak is `step_size` steps into each cycle.

        Args:
            step: The step, counted from 0.
        """
        down = self.step_size_down or self.step_size
        at = _checked(step) % (self.step_size + down)
        height = at / self.step_size if at <= self.step_size else 1 - (at - self.step_size) / down
        return _blend(self.base_lr, self.max_lr, height)


@dataclass(frozen=True, slots=True)
class WarmupScheduler(Scheduler):
    """A linear climb before any other schedule, which then starts from its own step 0.

    The climb is target_lr * (step + 1) / warmup_steps, so that no step is spent at rate 0;
    `target_lr` None climbs to where the other schedule starts.

    Args:
        inner: The schedule after the warm-up.
        target_lr: The learning rate at the end of the climb.
        warmup_steps: The number of steps of the climb.
    """

    inner: Scheduler
    target_lr: float | None
    warmup_steps: int

    def __post_init__(self) -> None:
        Scheduler.__post_init__(self)
        check(isinstance(self.inner, Scheduler), self.inner, "a Scheduler", name="inner")

    def lr(self, step: int) -> float:
        """Return the rate on the climb, then `inner.lr(step - warmup_steps)`.

        Args:
            step: The step, counted from 0.
        """
        if _checked(step) >= self.warmup_steps:
            return self.inner.lr(step - self.warmup_steps)
        target = self.inner.lr(0) if self.target_lr is None else self.target_lr
        return target * (step + 1) / self.warmup_steps

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the inner schedule."""
        return self.inner.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the inner schedule.

        Args:
            state: What `state_dict()` returned.
        """
        self.inner.load_state_dict(state)


@dataclass(slots=True)
class PlateauScheduler(Scheduler):
    """Multiply the rate by `factor` after `patience` observations in a row without improvement.

    An improvement beats the best value so far by more than `min_delta`; `mode` says whether
    smaller or larger is better. NaN is never an improvement. The rate never falls below `min_lr`.

    Args:
        base_lr: The learning rate at step 0.
        patience: How many observations without improvement are accepted.
        factor: The factor of each fall.
        min_lr: The lowest learning rate.
        mode: ``min`` or ``max``: which way is better.
        min_delta: The least improvement that counts.
    """

    base_lr: float
    patience: int
    factor: float
    min_lr: float
    mode: Literal["min", "max"] = field(default="min", kw_only=True)
    min_delta: float = field(default=0.0, kw_only=True)
    rate: float = field(init=False)
    best: float | None = field(init=False, default=None)
    num_bad: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        Scheduler.__post_init__(self)
        if self.factor >= 1:
            raise UsageError(f"factor must be below 1, got {self.factor!r}.")
        if self.mode not in get_args(Literal["min", "max"]):
            raise UsageError(f"mode must be 'min' or 'max', got {self.mode!r}.")
        self.rate = self.base_lr

    def observe(self, metric: float) -> float:
        """Take one value of the metric and return the rate that follows from it.

        Args:
            metric: The metric of an evaluation.
        """
        value = float(metric)
        if self._improves(value):
            self.best = value
            self.num_bad = 0
        else:
            self.num_bad += 1
        if self.num_bad >= self.patience:
            self.rate = max(self.rate * self.factor, self.min_lr)
            self.num_bad = 0
        return self.rate

    def lr(self, step: int | None = None) -> float:
        """Return the present rate; it follows what was observed, not the step.

        Args:
            step: Ignored; the other schedules need it.
        """
        return self.rate

    def state_dict(self) -> dict[str, Any]:
        """Return what was observed so far; the arguments are not part of it."""
        return {name: getattr(self, name) for name in _OBSERVED}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state_dict()`.

        Args:
            state: What `state_dict()` returned.
        """
        for name in _OBSERVED:
            setattr(self, name, state[name])

    def _improves(self, value: float) -> bool:
        if self.best is None:
            return not math.isnan(value)
        if self.mode == "min":
            return value < self.best - self.min_delta
        return value > self.best + self.min_delta


def _checked(step: int) -> int:
    return check_whole(step, name="step", least=0)


def _blend(start: float, end: float, done: float) -> float:
    """The point `done` of the way from one rate to another; exact at both ends."""
    return end if done >= 1 else start + (end - start) * done


def _cosine(start: float, end: float, done: float) -> float:
    return _blend(start, end, (1 - math.cos(math.pi * min(done, 1.0))) / 2)


def _decayed(base: float, factor: float, times: int) -> float:
    """A rate multiplied so many times: infinity instead of an OverflowError, and 0 stays 0."""
    try:
        return base * float(factor**times)
    except OverflowError:
        return math.inf if base else 0.0


_OPTIONAL = ("target_lr", "step_size_down")
_CHECKS: dict[str, Callable[..., object]] = {
    **dict.fromkeys(("base_lr", "min_lr", "max_lr", "target_lr", "min_delta"), check_number),
    **dict.fromkeys(("gamma", "factor"), partial(check_number, is_above=True)),
    **dict.fromkeys(("step_size", "step_size_down", "total_steps"), partial(check_whole, least=1)),
    **dict.fromkeys(("warmup_steps", "patience"), partial(check_whole, least=1)),
}
