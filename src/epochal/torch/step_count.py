"""Which training step an optimizer's step belongs to, as the run numbers its steps.

Optimizers tell that a step was made and not which one. A run that was resumed may go on anywhere:
its next step is a guess until the loop logs one. Later the count follows the run when both move
alike, by as many steps between two logs. A loop that restarts does so; one that logs epochs or
tokens as steps does not.
"""

from __future__ import annotations

import weakref
from collections.abc import Container
from typing import Any, Protocol

# A loop that has logged nothing for so long is taken at the count.
_GUESSING_STEPS = 100


class Stepping(Protocol):
    """A run, as far as counting needs it."""

    @property
    def step(self) -> int:
        """The last training step that was logged."""


def owns(optimizer: Any, ids: Container[int]) -> bool:
    """Whether an optimizer has a parameter of a model, by the ``id`` of its parameters."""
    return any(id(one) in ids for group in optimizer.param_groups for one in group["params"])


class StepCount:
    """Counts steps; one in which several optimizers step, each once, is one step.

    ``shift`` is by how much the newest step was found to differ from the count before it.
    """

    def __init__(self, run: Stepping, step: int | None = None) -> None:
        self._run = run
        self._logged = run.step
        self.step = run.step + 1 if step is None else step
        self.is_guess = step is None and run.step >= 0
        self.shift = 0
        self._guessed = 0
        self._logs_first: bool | None = None
        self._apart: tuple[int, int] | None = None
        self._optimizers: weakref.WeakSet[Any] = weakref.WeakSet()
        self._num_optimizers = 0

    @property
    def upcoming(self) -> int:
        """The number of the step whose forward pass is under way."""
        return self.step + bool(self._num_optimizers)

    def begins_with(self, optimizer: Any) -> bool:
        """Count an optimizer that is about to step; tells whether a new step begins with it."""
        # One that is gone was replaced by this one, which then steps in its place.
        is_gone = len(self._optimizers) < self._num_optimizers
        is_new = not self._num_optimizers or is_gone or optimizer in self._optimizers
        if is_new:
            self._advance()
        self._optimizers.add(optimizer)
        self._num_optimizers += 1
        return is_new

    def end(self) -> None:
        """No more steps will come: what the run has logged by now is the last word."""
        self._advance()
        self.is_guess = False

    def _advance(self) -> None:
        if self._num_optimizers:
            self._optimizers.clear()
            self._num_optimizers = 0
            self.step += 1
        self.shift = self._follow()
        self.step += self.shift
        self._guessed += 1
        self.is_guess = self.is_guess and self._guessed <= _GUESSING_STEPS

    def _follow(self) -> int:
        """By how much the run's own steps differ from the count, where that is certain."""
        logged, is_news = self._run.step, self._run.step != self._logged
        if self._logs_first is None:
            # Before its first optimizer step a loop has logged that step, or nothing.
            self._logs_first = is_news
        if not is_news:
            return 0
        self._logged = logged
        shift = logged - (self.step if self._logs_first else self.step - 1)
        before, self._apart = self._apart, None if shift == 0 else (logged, self.step)
        moves_alike = before is not None and logged - before[0] == self.step - before[1] > 0
        if not (shift and (self.is_guess or moves_alike)):
            shift = 0
        else:
            self._apart = None
        self.is_guess = False
        return shift
