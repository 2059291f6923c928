"""Parameters that never get a gradient, and how many backward passes a step has."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from torch import Tensor

from epochal.torch.watch_checks import Detector, Fact, is_dense

WITHOUT_GRADIENT = "parameters-without-gradient"
PASSES = "passes"
_FIRST_REPORT = 10
_SHOWN = 8
# After so many steps, only some are checked.
_CHECKED_STEPS = 50
_PASSES_REPORT = 20


class AbsentGradients(Detector):
    """Parameters in optimizers whose ``.grad`` was None after every step so far.

    An optimizer without any gradient gets its gradients in another way, and is left out.
    """

    def __init__(self, name_of: Callable[[Tensor], str | None]) -> None:
        super().__init__()
        self._name_of = name_of
        self._optimizers: weakref.WeakKeyDictionary[Any, _Parameters] = weakref.WeakKeyDictionary()
        self._reported = 0

    def after_step(self, optimizer: Any, step: int) -> None:
        """Note which parameters of an optimizer have a gradient now."""
        known = self._optimizers.get(optimizer)
        if known is None:
            known = self._optimizers[optimizer] = _Parameters(optimizer)
        if not known.absent:
            return
        known.steps += 1
        if known.steps > _CHECKED_STEPS and not is_dense(known.steps):
            return
        known.check()
        is_due = is_dense(known.steps) or not known.absent
        if known.steps >= _FIRST_REPORT and is_due:
            self._report(step)

    def _report(self, step: int) -> None:
        all_known = list(self._optimizers.values())
        absent = [one for known in all_known for ref in known.absent if (one := ref()) is not None]
        if len(absent) == self._reported:
            return
        self._reported = len(absent)
        names = [self._name_of(one) for one in absent[:_SHOWN]]
        fields = {
            "parameters": len(absent),
            "of": sum(known.count for known in all_known),
            "elements": sum(one.numel() for one in absent),
            "of_elements": sum(known.elements for known in all_known),
            "names": [name or f"parameter {place}" for place, name in enumerate(names)],
        }
        self._facts.append(Fact(WITHOUT_GRADIENT, fields, step))


class _Parameters:
    """The parameters of one optimizer, and those that had no gradient yet."""

    def __init__(self, optimizer: Any) -> None:
        given = [one for group in optimizer.param_groups for one in group["params"]]
        trained = [one for one in given if one.requires_grad]
        self.count, self.elements = len(trained), sum(one.numel() for one in trained)
        self.steps = 0
        self.absent = [weakref.ref(one) for one in trained if one.grad is None]
        if len(self.absent) == len(trained):
            self.absent = []

    def check(self) -> None:
        """Forget those that have a gradient now, are frozen or gone."""
        self.absent = [
            ref
            for ref in self.absent
            if (one := ref()) is not None and one.grad is None and one.requires_grad
        ]


class PassCount(Detector):
    """Counts the backward passes between two steps by the gradients of one parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.total = 0
        self._before = self._steps = 0
        self._least, self._most = 1 << 62, 0
        self._reported = 0, 0

    def on_gradient(self) -> None:
        """Count a backward pass."""
        self.total += 1

    def after_step(self, step: int) -> None:
        """Count a step; some steps record how many passes they had."""
        passes, self._before = self.total - self._before, self.total
        self._steps += 1
        self._least, self._most = min(self._least, passes), max(self._most, passes)
        counts = self._least, self._most
        if self._steps < _PASSES_REPORT or not is_dense(self._steps) or counts == self._reported:
            return
        self._reported = counts
        fields = {"least": self._least, "most": self._most, "passes": self.total}
        self._facts.append(Fact(PASSES, {**fields, "steps": self._steps}, step))
