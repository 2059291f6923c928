"""The optimizer of a run, by its class or its configuration, and the rates it is used with."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from epochal.health.context import Context, configured


class UsualRates(NamedTuple):
    """An optimizer as people call it, and the range of its usual peak rates."""

    optimizer: str
    lowest: float
    highest: float
    is_adaptive: bool = True  # its steps do not depend on the scale of the loss


# From what papers and libraries train networks with from scratch; fine-tuning goes lower. Plain SGD
# is not here: its rate depends on the scale of the loss. Nor are optimizers that find their rate.
_ADAM = UsualRates("Adam", 1e-4, 0.01)
_MOMENTUM = UsualRates("SGD with momentum", 0.01, 0.3, is_adaptive=False)
_USUAL: dict[str, UsualRates] = {
    **dict.fromkeys(("adam", "adamw", "nadam", "radam", "adamax", "fusedadam", "cpuadam"), _ADAM),
    "rmsprop": UsualRates("RMSprop", 1e-4, 0.01),
    "lion": UsualRates("Lion", 3e-5, 0.003),
    "adagrad": UsualRates("Adagrad", 0.01, 0.3),
    "adafactor": UsualRates("Adafactor", 0.001, 0.03),
    "momentum": _MOMENTUM,
    "nesterov": _MOMENTUM,
}


_ADAPTIVE = ("adam", "rmsprop", "lion", "adagrad", "adafactor")


def optimizer_words(context: Context) -> list[str]:
    """Return the words of the optimizer's name: its class if it was watched, else the config's."""
    event = context.facts.get("optimizer")
    if event is not None:
        words = re.findall("[a-z]+", str(event.get("optimizer")).lower())
        groups = event.get("groups")
        first: Any = groups[0] if isinstance(groups, list) and groups else {}
        has_momentum = isinstance(first, Mapping) and bool(first.get("momentum"))
    else:
        names = (one for one in configured(context.config, part="optim") if isinstance(one, str))
        words = re.findall("[a-z]+", next(names, "").lower())
        momenta = configured(context.config, ("momentum",))
        has_momentum = any(isinstance(one, (int, float)) and one > 0 for one in momenta)
    return [*words, "momentum"] if "sgd" in words and has_momentum else words


def usual_rates(context: Context) -> UsualRates | None:
    """Return the usual rates of the optimizer; None if it is not known."""
    return next((_USUAL[word] for word in optimizer_words(context) if word in _USUAL), None)


def is_adaptive(context: Context) -> bool:
    """Return True if the optimizer is known to divide by the size of gradients."""
    return any(name in word for word in optimizer_words(context) for name in _ADAPTIVE)
