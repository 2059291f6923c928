"""The optimizers of the clinic, by name; Lion is not one of torch's."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

from benchmarks.clinic.task import OptimizerChoice


def make_optimizer(
    choice: OptimizerChoice, rate: float, parameters: list[nn.Parameter]
) -> torch.optim.Optimizer:
    """An optimizer of parameters, with the options of its choice."""
    options = dict(choice.options)
    match choice.name:
        case "sgd":
            return torch.optim.SGD(parameters, lr=rate, **options)
        case "momentum":
            return torch.optim.SGD(parameters, lr=rate, momentum=0.9, **options)
        case "nesterov":
            return torch.optim.SGD(parameters, lr=rate, momentum=0.9, nesterov=True, **options)
        case "lion":
            return Lion(parameters, lr=rate, **options)
    others: dict[str, Callable[..., torch.optim.Optimizer]] = {
        "adam": torch.optim.Adam,
        "adamw": torch.optim.AdamW,
        "rmsprop": torch.optim.RMSprop,
        "adagrad": torch.optim.Adagrad,
        "adamax": torch.optim.Adamax,
        "nadam": torch.optim.NAdam,
        "radam": torch.optim.RAdam,
        "adafactor": torch.optim.Adafactor,
    }
    if choice.name not in others:
        raise ValueError(f"no optimizer {choice.name!r}")
    return others[choice.name](parameters, lr=rate, **options)


class Lion(torch.optim.Optimizer):
    """Steps of one size for every weight, in the direction of a momentum's sign."""

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        lr: float,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(parameters, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            (fast, slow), rate = group["betas"], group["lr"]
            for parameter in group["params"]:
                gradient = parameter.grad
                if gradient is None:
                    continue
                state = self.state[parameter]
                if not state:
                    state["momentum"] = torch.zeros_like(parameter)
                momentum = state["momentum"]
                parameter.mul_(1 - rate * group["weight_decay"])
                parameter.add_(momentum.lerp(gradient, 1 - fast).sign_(), alpha=-rate)
                momentum.lerp_(gradient, 1 - slow)
