"""Learning rates that optimizers are used with, by the name of the optimizer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from epochal.health.evaluations import configured


@dataclass(frozen=True, slots=True)
class UsualRates:
    """An optimizer as people call it, and the range of its usual peak rates.

    Steps of an adaptive one do not depend on the scale of the loss.
    """

    optimizer: str
    lowest: float
    highest: float
    is_adaptive: bool = True


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


def usual_rates(config: Mapping[str, Any]) -> UsualRates | None:
    """The usual rates of the configured optimizer; None if there is none that is known."""
    names = (value for value in configured(config, part="optim") if isinstance(value, str))
    words = re.findall("[a-z]+", next(names, "").lower())
    found = next((_USUAL[word] for word in words if word in _USUAL), None)
    if found is None and "sgd" in words:
        momenta = configured(config, ("momentum",))
        has_momentum = any(isinstance(one, (int, float)) and one > 0 for one in momenta)
        return _MOMENTUM if has_momentum else None
    return found
