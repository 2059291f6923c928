"""What a training runs with: the mode of its model, and how much weight decay takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from epochal.torch.structure import named_modules
from epochal.torch.watch_checks import Detector, Fact, drop_share, is_dense

TRAINED_IN_EVALUATION = "training-in-evaluation-mode"
WEIGHT_DECAY = "weight-decay"
_STEPS = 10
# Of a weight in a step. The usual settings of AdamW take 10 to 100 times less.
_LEAST_DECAY = 2e-3
_NEWS = 1.5
# Optimizers that take the decay from the weights themselves, times the learning rate.
_DECOUPLED = frozenset({"AdamW", "SGD", "Lion", "Muon"})


class TrainingModes(Detector):
    """Steps in a row whose model is in evaluation mode, where dropout and BatchNorm do nothing."""

    def __init__(self) -> None:
        super().__init__()
        self._steps = 0
        self._is_reported = False

    def after_step(self, models: list[nn.Module], step: int) -> None:
        """Check the mode of the models."""
        wrong = [one for one in models if not one.training]
        self._steps = self._steps + 1 if wrong else 0
        if wrong and self._steps == _STEPS and not self._is_reported:
            self._report(wrong[0], step)
        elif not wrong and self._is_reported:
            self._is_reported = False
            self._facts.append(Fact(TRAINED_IN_EVALUATION, _counts([], []), step))

    def _report(self, model: nn.Module, step: int) -> None:
        modules = [(name, one) for name, one in named_modules(model) if not one.training]
        dropouts = [name for name, one in modules if drop_share(one) > 0]
        norms = [name for name, one in modules if isinstance(one, _BatchNorm)]
        if dropouts or norms:
            self._is_reported = True
            fields = {**_counts(dropouts, norms), "module": (dropouts + norms)[0]}
            self._facts.append(Fact(TRAINED_IN_EVALUATION, {**fields, "steps": _STEPS}, step))


def _counts(dropouts: list[str], norms: list[str]) -> dict[str, Any]:
    return {"dropouts": len(dropouts), "batchnorms": len(norms)}


class WeightDecay(Detector):
    """The largest share of a weight that weight decay takes in one step."""

    def __init__(self) -> None:
        super().__init__()
        self._steps = 0
        self._reported = 0.0

    def after_step(self, optimizer: Any, step: int) -> None:
        """Read the settings of an optimizer, at some steps."""
        self._steps += 1
        name = type(optimizer).__name__
        if self._steps < _STEPS or not is_dense(self._steps) or name not in _DECOUPLED:
            return
        group = max(optimizer.param_groups, key=_decay)
        decay = _decay(group)
        if decay >= max(_LEAST_DECAY, _NEWS * self._reported):
            self._reported = decay
            settings = {"lr": float(group["lr"]), "weight_decay": float(group["weight_decay"])}
            self._facts.append(Fact(WEIGHT_DECAY, {"decay": decay, **settings}, step))


def _decay(group: Mapping[str, Any]) -> float:
    rate, decay = group.get("lr", 0.0), group.get("weight_decay", 0.0)
    momentum = group.get("momentum", 0.0)
    # A tensor may be on a device, and is not waited for.
    if not all(isinstance(one, (int, float)) for one in (rate, decay, momentum)):
        return 0.0
    is_followed = 0 < momentum < 1 and not group.get("dampening")
    return float(rate * decay / (1 - momentum if is_followed else 1))
