"""Says when a training may stop, from its evaluations and losses; it stops nothing itself."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from epochal.errors import UsageError
from epochal.run.current import OPEN_RUNS
from epochal.torch.checks import check_number, check_whole

Goal = Literal["min", "max"]
_STATE = ("reason", "best", "best_step", "num_bad")


@dataclass(slots=True, kw_only=True)
class EarlyStopping:
    """Takes in evaluations and losses; `reason` is None until there is one to stop.

    The findings of the run report plateaus and divergence.

    Args:
        patience: Stop after so many evaluations in a row that did not improve on the best one. 0
            switches this off.
        min_delta: The least improvement that counts, as a share of the best metric.
        goal: Whether a lower metric is better, ``min``, or a higher one, ``max``.
        nonfinite_steps: Stop after so many steps with a loss that is NaN or infinite. 0 switches
            this off.
    """

    patience: int = 5
    min_delta: float = 0.0
    goal: Goal = "min"
    nonfinite_steps: int = 20
    reason: str | None = field(default=None, init=False)
    best: float | None = field(default=None, init=False)
    best_step: int | None = field(default=None, init=False)
    num_bad: int = field(default=0, init=False, repr=False)
    _nonfinite_since: int | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        check_whole(self.patience, name="patience", least=0)
        check_whole(self.nonfinite_steps, name="nonfinite_steps", least=0)
        if self.goal not in get_args(Goal):
            raise UsageError(f"goal must be 'min' or 'max', got {self.goal!r}.")
        check_number(self.min_delta, name="min_delta")

    @property
    def should_stop(self) -> bool:
        """Whether there is a reason to stop."""
        return self.reason is not None

    def observe(self, step: int, loss: float) -> str | None:
        """Take in one step's training loss; returns the reason to stop, once there is one.

        Args:
            step: The step.
            loss: The training loss of the step.
        """
        value = float(loss)
        if math.isfinite(value):
            self._nonfinite_since = None
            return self.reason
        since = step if self._nonfinite_since is None else self._nonfinite_since
        self._nonfinite_since = since
        if self.nonfinite_steps and step - since >= self.nonfinite_steps:
            self._stop_for(f"the loss is {value} since step {since}", step)
        return self.reason

    def observe_eval(self, step: int, metric: float) -> str | None:
        """Take in one evaluation; returns the reason to stop, once there is one.

        A value that is not finite is never the best one.

        Args:
            step: The step of the evaluation.
            metric: The metric of the evaluation.
        """
        value = float(metric)
        if self._is_better(value):
            self.best, self.best_step, self.num_bad = value, step, 0
        else:
            self.num_bad += 1
        if self.patience and self.num_bad >= self.patience:
            best = "never finite" if self.best is None else f"{self.best:.6g} at {self.best_step}"
            self._stop_for(f"{self.num_bad} evaluations did not beat the best ({best})", step)
        return self.reason

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint must keep."""
        return {name: getattr(self, name) for name in _STATE}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state_dict()`.

        Args:
            state: What `state_dict()` returned.
        """
        if missing := [name for name in _STATE if name not in state]:
            raise UsageError(f"state must be a state_dict(); it lacks {', '.join(missing)}.")
        for name in _STATE:
            setattr(self, name, state[name])

    def _is_better(self, value: float) -> bool:
        if not math.isfinite(value) or self.best is None:
            return math.isfinite(value)
        gained = self.best - value if self.goal == "min" else value - self.best
        return gained > self.min_delta * abs(self.best)

    def _stop_for(self, reason: str, step: int) -> None:
        if self.reason is None:
            self.reason = reason
            if OPEN_RUNS.current is not None:
                OPEN_RUNS.current.event("early-stop", reason=reason, at_step=step)
