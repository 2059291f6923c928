"""The mode of a model where it runs without gradients: in evaluations.

A hook on the model itself counts these passes. Modes are read from the modules, never from tensors,
so nothing waits for a device. A compiled model does not run the hook.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from epochal.torch.guarded import ModuleHook, guarded_hook
from epochal.torch.names import plain_name

# More evaluations in training mode say nothing new.
_MOST_REPORTS = 4


class EvaluationModes:
    """Reports passes without gradients in training mode, when the next optimizer step begins.

    ``report`` gets the facts of the event ``evaluation-passes``. It is called if every pass since
    the last step was in training mode, and once more when one is not. A model without dropout and
    BatchNorm computes the same in both modes: it gets no hook.
    """

    def __init__(self, model: nn.Module, run: object, report: Callable[..., None]) -> None:
        self._run = run
        self._report = report
        modules = [(plain_name(name), module) for name, module in model.named_modules()]
        self._dropouts = [(name, one) for name, one in modules if drop_share(one) > 0]
        self._norms = [(name, one) for name, one in modules if isinstance(one, _BatchNorm)]
        self._passes = 0
        self._in_training = 0
        self._found: dict[str, Any] = {}
        self._num_reported = 0
        self._hook: Any = None
        if self._dropouts or self._norms:
            self._hook = model.register_forward_pre_hook(ModuleHook(model, self._count))

    def settle(self) -> None:
        """Report the passes since the last call."""
        if not self._passes:
            return
        is_training = self._in_training == self._passes
        if is_training and self._num_reported < _MOST_REPORTS:
            self._num_reported += 1
            self._report(passes=self._passes, **self._found)
        elif not is_training and self._num_reported:
            self._num_reported = 0
            self._report(passes=self._passes, dropouts=0, batchnorms=0)
        self._passes = self._in_training = 0

    def remove(self) -> None:
        """Take the hook out."""
        if self._hook is not None:
            self._hook.remove()

    @guarded_hook("watch")
    def _count(self) -> None:
        if torch.is_grad_enabled():
            return
        self._passes += 1
        dropouts = [(name, one) for name, one in self._dropouts if one.training]
        norms = [(name, one) for name, one in self._norms if one.training]
        if not dropouts and not norms:
            return
        self._in_training += 1
        name, module = (dropouts or norms)[0]
        self._found = {"dropouts": len(dropouts), "batchnorms": len(norms), "module": name}
        if dropouts:
            self._found["share"] = drop_share(module)


def drop_share(module: nn.Module) -> float:
    """The share that a module drops at random in training; 0 if it drops nothing."""
    if isinstance(module, _DropoutNd):
        return float(module.p)
    if isinstance(module, (nn.MultiheadAttention, nn.RNNBase)):
        return float(module.dropout)
    share = getattr(module, "drop_prob", None)  # stochastic depth, as several libraries name it
    return float(share) if isinstance(share, float) and 0 < share <= 1 else 0.0
