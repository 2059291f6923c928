"""Backward passes of a watched model that no optimizer step follows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from epochal.torch.guarded import guarded_hook

# More than anybody accumulates gradients over before the first step.
_PASSES = 200


class MissingSteps:
    """Counts gradients of one parameter until the first step of any optimizer.

    ``report`` gets the number of passes if there are many and no step was taken. The hook is gone
    after the first step, or after the report.
    """

    def __init__(
        self, parameters: dict[str, torch.Tensor], run: object, report: Callable[[int], None]
    ) -> None:
        self._run = run
        self._report = report
        self._passes = 0
        trained = (one for one in parameters.values() if one.requires_grad and one.is_leaf)
        first = next(trained, None)
        self._handle: Any = None
        if first is not None:
            self._handle = first.register_post_accumulate_grad_hook(self._count)  # type: ignore[no-untyped-call]

    def end(self) -> None:
        """Count no more: a step was taken, or nobody watches any longer."""
        if self._handle is not None:
            self._handle.remove()
            self._handle = None

    @guarded_hook("watch")
    def _count(self, parameter: torch.Tensor) -> None:
        self._passes += 1
        if self._passes == _PASSES:
            self.end()
            self._report(self._passes)
