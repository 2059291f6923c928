"""Optimizers for a copy of a model: of the class and with the settings of the training's own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch

from epochal.torch.preflight.answer import CannotTellError
from epochal.torch.preflight.subject import Subject, num_ranks

_DEFAULT_RATE = 1e-3


def optimizer_for_copy(subject: Subject, given: Any, factor: float) -> Any:
    """Return an optimizer like a given one for the model that is asked, with scaled rates.

    It is made of what an optimizer saves, and not by its constructor, whose arguments differ.
    """
    is_of_torch = type(given).__module__.startswith("torch.optim")
    if isinstance(given, torch.optim.LBFGS) or (num_ranks() > 1 and not is_of_torch):
        raise CannotTellError(f"a step of {type(given).__name__} needs more than gradients")
    originals = (*subject.original.parameters(), *subject.original.buffers())
    copies = (*subject.model.parameters(), *subject.model.buffers())
    by_id = {id(one): other for one, other in zip(originals, copies, strict=True)}
    groups = []
    for group in given.param_groups:
        parameters = [by_id[id(one)] for one in group["params"] if id(one) in by_id]
        rate = factor * _base_rate(group)
        is_tensor = torch.is_tensor(group["lr"])
        groups.append(
            {
                **group,
                "params": parameters,
                "lr": torch.full_like(group["lr"], rate) if is_tensor else rate,
            }
        )
    made: Any = object.__new__(type(given))
    made.__setstate__(
        {"defaults": dict(given.defaults), "state": defaultdict(dict), "param_groups": groups}
    )
    return made


def default_optimizer(subject: Subject, factor: float) -> torch.optim.Optimizer:
    """AdamW, for a training whose optimizer is not known."""
    trainable = [subject.parameters[name] for name in subject.trainable]
    return torch.optim.AdamW(trainable, lr=factor * _DEFAULT_RATE)


def rate_of(optimizers: Sequence[Any]) -> float:
    """The learning rate of the first group; that of a schedule, before it has begun."""
    return _base_rate(optimizers[0].param_groups[0]) if optimizers else _DEFAULT_RATE


def _base_rate(group: Any) -> float:
    return float(group.get("initial_lr", group["lr"])) or _DEFAULT_RATE
