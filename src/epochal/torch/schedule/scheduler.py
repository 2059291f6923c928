"""What a learning-rate schedule is: a pure answer to "which rate at this step?".

A schedule knows nothing of an optimizer: `lr(step)` is called and the rate set by the caller, or
`to_torch(optimizer)` does both the way PyTorch users expect. Steps count from 0. A schedule holds
its last rate for every step past its end.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from epochal.errors import UsageError, ValueTypeError
from epochal.registered import Registered

if TYPE_CHECKING:
    from torch.optim import Optimizer

    from epochal.torch.schedule.adapter import TorchSchedule


class Conversions(NamedTuple):
    """What a schedule can be turned into; these functions import every kind of schedule."""

    state_of: Callable[[Scheduler], dict[str, Any]]
    schedule_from: Callable[[Mapping[str, Any]], Scheduler]
    torch_schedule: Callable[..., TorchSchedule]  # (optimizer, *schedules)


conversions: Registered[Conversions] = Registered()
"""Returns the functions, which `epochal.torch.schedule` registers."""


class Scheduler(ABC):
    """A learning rate for every step; subclass it and write `lr` for a shape of your own."""

    __slots__ = ()

    @abstractmethod
    def lr(self, step: int) -> float:
        """Return the rate of one step, counted from 0; a negative step is a ValueError."""

    def horizon(self) -> int:
        """Return how many steps a picture of this schedule should show."""
        return 1000

    def state(self) -> dict[str, Any]:
        """Return everything this schedule is, as JSON can hold it."""
        return conversions().state_of(self)

    @staticmethod
    def from_state(state: Mapping[str, Any]) -> Scheduler:
        """Give back the schedule whose `state()` this is; the kind is named inside it."""
        return conversions().schedule_from(state)

    def to_torch(self, optimizer: Optimizer) -> TorchSchedule:
        """Drive every parameter group of an optimizer, as a torch `LRScheduler`."""
        return conversions().torch_schedule(optimizer, self)


def check_step(step: int) -> int:
    """Refuse a step before the first."""
    if step < 0:
        raise UsageError(f"step must be at least 0, got {step!r}.")
    return step


def check_rate(value: float, *, name: str) -> None:
    """Refuse a rate that is negative or no number."""
    if not _is_number(value) or not math.isfinite(value) or value < 0:
        raise UsageError(f"{name} must be a finite rate of at least 0, got {value!r}.")


def check_factor(value: float, *, name: str) -> None:
    """Refuse a factor that is not a finite number above 0."""
    if not _is_number(value) or not math.isfinite(value) or value <= 0:
        raise UsageError(f"{name} must be a finite number above 0, got {value!r}.")


def check_share(value: float, *, name: str) -> None:
    """Refuse a share outside 0 to 1."""
    if not _is_number(value) or not 0 <= value <= 1:
        raise UsageError(f"{name} must be a share between 0 and 1, got {value!r}.")


def check_length(value: int, *, name: str, least: int = 1) -> None:
    """Refuse a number of steps that is not whole or is below `least`."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueTypeError(f"{name} must be a whole number of steps, got {value!r}.")
    if value < least:
        raise UsageError(f"{name} must be at least {least}, got {value}.")


def checked_lengths(values: Iterable[int], *, name: str, least: int) -> tuple[int, ...]:
    """Several numbers of steps as a tuple, each at least `least`."""
    if not isinstance(values, Iterable):
        raise ValueTypeError(f"{name} must be a list of steps, got {values!r}.")
    lengths = tuple(values)
    for length in lengths:
        check_length(length, name=f"each of {name}", least=least)
    return lengths


def checked_schedules(values: Iterable[Scheduler], *, name: str) -> tuple[Scheduler, ...]:
    """At least one schedule, as a tuple."""
    if not isinstance(values, Iterable):
        raise ValueTypeError(f"{name} must be a list of schedules, got {values!r}.")
    schedules = tuple(values)
    if not schedules:
        raise UsageError(f"{name} must hold at least one schedule.")
    for schedule in schedules:
        check_inner(schedule, name=f"each of {name}")
    return schedules


def check_order(low: float, high: float, *, names: tuple[str, str]) -> None:
    """Refuse two rates given the wrong way round."""
    if low > high:
        raise UsageError(f"{names[0]} must not exceed {names[1]}, got {low!r} and {high!r}.")


def check_inner(value: object, *, name: str = "inner") -> None:
    """Refuse what is no schedule."""
    if not isinstance(value, Scheduler):
        raise ValueTypeError(f"{name} must be a Scheduler, got {type(value).__name__}.")


def power(base: float, exponent: int) -> float:
    """A float power that ends in infinity instead of an OverflowError."""
    try:
        return float(base**exponent)
    except OverflowError:
        return math.inf


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
