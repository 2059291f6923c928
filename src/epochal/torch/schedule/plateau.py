"""The one schedule that reacts: it lowers the rate when a metric stops improving."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

from epochal.errors import UsageError
from epochal.torch.schedule.scheduler import (
    Scheduler,
    check_factor,
    check_length,
    check_order,
    check_rate,
)

Mode = Literal["min", "max"]


@dataclass(slots=True)
class PlateauScheduler(Scheduler):
    """Multiply the rate by `factor` after `patience` observations in a row without improvement.

    An improvement beats the best value so far by more than `min_delta`; `mode` says whether
    smaller or larger is better. For `cooldown` observations after a reduction none counts as bad.
    NaN is never an improvement. The rate never falls below `min_lr`.
    """

    base_lr: float
    patience: int
    factor: float
    min_lr: float
    mode: Mode = field(default="min", kw_only=True)
    min_delta: float = field(default=0.0, kw_only=True)
    cooldown: int = field(default=0, kw_only=True)
    rate: float = field(init=False)
    best: float | None = field(init=False, default=None)
    num_bad: int = field(init=False, default=0)
    num_cooling: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        check_rate(self.base_lr, name="base_lr")
        check_length(self.patience, name="patience")
        check_factor(self.factor, name="factor")
        if self.factor >= 1:
            raise UsageError(f"factor must be below 1, got {self.factor!r}.")
        check_rate(self.min_lr, name="min_lr")
        check_order(self.min_lr, self.base_lr, names=("min_lr", "base_lr"))
        if self.mode not in get_args(Mode):
            raise UsageError(f"mode must be 'min' or 'max', got {self.mode!r}.")
        check_rate(self.min_delta, name="min_delta")
        check_length(self.cooldown, name="cooldown", least=0)
        self.rate = self.base_lr

    def observe(self, metric: float) -> float:
        """Take one value of the metric and return the rate that follows from it."""
        value = float(metric)
        if self._improves(value):
            self.best = value
            self.num_bad = 0
        else:
            self.num_bad += 1
        if self.num_cooling:
            self.num_cooling -= 1
            self.num_bad = 0
        if self.num_bad >= self.patience:
            self.rate = max(self.rate * self.factor, self.min_lr)
            self.num_bad = 0
            self.num_cooling = self.cooldown
        return self.rate

    def lr(self, step: int | None = None) -> float:
        """Return the present rate; it follows what was observed, not the step."""
        return self.rate

    def _improves(self, value: float) -> bool:
        if self.best is None:
            return value == value  # nan is the one float that differs from itself
        if self.mode == "min":
            return value < self.best - self.min_delta
        return value > self.best + self.min_delta
