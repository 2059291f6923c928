"""Says when a training may stop, from its losses and evaluations; it stops nothing itself.

There are five reasons, each of which can be switched off. Evaluations no longer beat the best one.
The loss gained next to nothing over the last part of all steps, diverges, stays on a plateau, or is
no number. A curve that still falls, however slowly and however noisily, gives none of them.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, get_args

from epochal.errors import UsageError, ValueTypeError
from epochal.health.phase import PhaseDetector
from epochal.torch.schedule import check_length

Goal = Literal["min", "max"]
# Means of so many equal stretches of the run tell how much the last part of it gained.
_NUM_BLOCKS = 64
_LENGTHS = ("patience", "gain_after", "diverging_steps", "plateau_steps", "nonfinite_steps")


@dataclass(slots=True, kw_only=True)
class EarlyStopping:
    """Takes in losses and evaluations; `reason` is None until there is one to stop.

    `patience` evaluations in a row that do not beat the best by `min_delta` (a share of it) are one
    reason. Another: over the last `gain_share` of all steps, `gain_after` of them at least, the
    mean loss fell by less than `least_gain` of itself. `diverging_steps` and `plateau_steps` are
    how long either phase must last, `nonfinite_steps` how long the loss must be NaN or infinite. 0
    switches a reason off.
    """

    patience: int = 5
    min_delta: float = 0.0
    goal: Goal = "min"
    gain_share: float = 0.5
    least_gain: float = 1e-3
    gain_after: int = 1000
    diverging_steps: int = 200
    plateau_steps: int = 2000
    nonfinite_steps: int = 20
    reason: str | None = field(default=None, init=False)
    best: float | None = field(default=None, init=False)
    best_step: int | None = field(default=None, init=False)
    _num_bad: int = field(default=0, init=False, repr=False)
    _phase: PhaseDetector = field(default_factory=PhaseDetector, init=False, repr=False)
    _phase_since: tuple[str, int] | None = field(default=None, init=False, repr=False)
    _nonfinite_since: int | None = field(default=None, init=False, repr=False)
    _blocks: list[tuple[int, float, int]] = field(default_factory=list, init=False, repr=False)
    _block_steps: int = field(default=1, init=False, repr=False)

    def __post_init__(self) -> None:
        for name in _LENGTHS:
            check_length(getattr(self, name), name=name, least=0)
        if self.goal not in get_args(Goal):
            raise UsageError(f"goal must be 'min' or 'max', got {self.goal!r}.")
        if not (0 < self.gain_share < 1 and self.min_delta >= 0 and self.least_gain >= 0):
            raise UsageError(
                "gain_share must be between 0 and 1, min_delta and least_gain 0 or more."
            )

    @property
    def should_stop(self) -> bool:
        """Whether there is a reason to stop."""
        return self.reason is not None

    def observe(self, step: int, loss: float) -> str | None:
        """Take in one step's training loss; returns the reason to stop, once there is one."""
        step, value = _observed(step, loss, name="loss")
        if not math.isfinite(value):
            return self._observe_nonfinite(step, value)
        self._nonfinite_since = None
        phase = self._phase.observe(step, value)
        if self._phase_since is None or self._phase_since[0] != phase:
            self._phase_since = (phase, step)
        if self.reason is None:
            self._add(step, value)
            self._stop_for(self._lasting_phase(step) or self._no_gain(step), step)
        return self.reason

    def observe_eval(self, step: int, metric: float) -> str | None:
        """Take in one evaluation; returns the reason to stop, once there is one.

        A value that is not finite is never the best one.
        """
        step, value = _observed(step, metric, name="metric")
        if self._is_better(value):
            self.best, self.best_step, self._num_bad = value, step, 0
        else:
            self._num_bad += 1
        if self.reason is None and self.patience and self._num_bad >= self.patience:
            best = "never finite" if self.best is None else f"{self.best:.6g} at {self.best_step}"
            self._stop_for(f"{self._num_bad} evaluations did not beat the best ({best})", step)
        return self.reason

    def state_dict(self) -> dict[str, Any]:
        """What a resume needs; phases are found again within some tens of steps."""
        return {
            "reason": self.reason,
            "best": self.best,
            "best_step": self.best_step,
            "num_bad": self._num_bad,
            "blocks": [list(block) for block in self._blocks],
            "block_steps": self._block_steps,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what :meth:`state_dict` gave."""
        if missing := [name for name in self.state_dict() if name not in state]:
            raise UsageError(f"state must be a state_dict(); it lacks {', '.join(missing)}.")
        self.reason, self.best = state["reason"], state["best"]
        self.best_step, self._num_bad = state["best_step"], int(state["num_bad"])
        self._blocks = [(int(start), float(total), int(n)) for start, total, n in state["blocks"]]
        self._block_steps = int(state["block_steps"])

    def _observe_nonfinite(self, step: int, value: float) -> str | None:
        since = step if self._nonfinite_since is None else self._nonfinite_since
        self._nonfinite_since = since
        if self.nonfinite_steps and step - since >= self.nonfinite_steps:
            self._stop_for(f"the loss is {value} since step {since}", step)
        return self.reason

    def _is_better(self, value: float) -> bool:
        if not math.isfinite(value):
            return False
        if self.best is None:
            return True
        margin = self.min_delta * abs(self.best)
        gained = self.best - value if self.goal == "min" else value - self.best
        return gained > margin

    def _lasting_phase(self, step: int) -> str | None:
        if self._phase_since is None:
            return None
        phase, since = self._phase_since
        limit = {"diverging": self.diverging_steps, "plateau": self.plateau_steps}.get(phase, 0)
        if not limit or step - since < limit:
            return None
        if phase == "diverging":
            return f"the loss has risen since step {since} and has not come back"
        # A phase looks at some hundred losses: noise can hide in them what more of them show.
        return None if self._gained(since) is None else f"the loss stands still since step {since}"

    def _no_gain(self, step: int) -> str | None:
        if not self.gain_after or not self._blocks or step - self._blocks[0][0] < self.gain_after:
            return None
        begin = step - round(self.gain_share * (step - self._blocks[0][0]))
        gained = self._gained(begin)
        if gained is None:
            return None
        return f"the loss gained {100 * gained:.2g} % over the last {step - begin} steps"

    def _gained(self, begin: int) -> float | None:
        """The share gained since a step, if that is less than is worth it for certain."""
        late = [(total, n) for start, total, n in self._blocks if start >= begin]
        half = len(late) // 2
        if half < 4:
            return None
        before, after = _mean_of(late[:half]), _mean_of(late[half:])
        scale = max(abs(before), 1e-300)
        gained = (before - after) / scale
        # What noise alone could hide is not taken for a standstill.
        is_certain = 3 * _error_of(late) / scale <= max(self.least_gain, 1e-12)
        return gained if gained < self.least_gain and is_certain else None

    def _add(self, step: int, loss: float) -> None:
        blocks = self._blocks
        if blocks and 0 <= step - blocks[-1][0] < self._block_steps:
            start, total, count = blocks[-1]
            blocks[-1] = (start, total + loss, count + 1)
            return
        blocks.append((step, loss, 1))
        if len(blocks) > _NUM_BLOCKS:
            self._block_steps *= 2
            self._blocks = [_joined(blocks[i : i + 2]) for i in range(0, len(blocks), 2)]

    def _stop_for(self, reason: str | None, step: int) -> None:
        if reason is None or self.reason is not None:
            return
        self.reason = reason
        from epochal.run.current import OPEN_RUNS

        run = OPEN_RUNS.current
        if run is not None:
            run.event("early-stop", reason=reason, at_step=step)


def _observed(step: object, value: object, *, name: str) -> tuple[int, float]:
    """A whole number and a number, of Python or of an array library."""
    try:
        if not isinstance(value, (str, bytes)):
            return operator.index(step), float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, RuntimeError):
        pass  # a tensor of several elements raises the last of them
    raise ValueTypeError(
        f"step must be a whole number and {name} must be one number, got {step!r} and {value!r}."
    )


def _joined(blocks: list[tuple[int, float, int]]) -> tuple[int, float, int]:
    return blocks[0][0], sum(total for _, total, _ in blocks), sum(n for _, _, n in blocks)


def _mean_of(blocks: list[tuple[float, int]]) -> float:
    return sum(total for total, _ in blocks) / sum(n for _, n in blocks)


def _error_of(blocks: list[tuple[float, int]]) -> float:
    """The standard error of the difference of the two halves' means, from block to block."""
    means = [total / n for total, n in blocks]
    steps = [b - a for a, b in pairwise(means)]
    deviation = math.sqrt(sum(d * d for d in steps) / (2 * len(steps)))
    return deviation * 2 / math.sqrt(len(means))
