"""The values that a sweep may choose for a parameter: grids, distributions, nested parameters."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Mapping
from typing import Any

from epochal.wandb.errors import UsageError

_NORMAL = ("normal", "q_normal", "log_normal", "q_log_normal")
_LOG = ("log_uniform", "q_log_uniform", "inv_log_uniform", "inv_log_uniform_values")
_LOG_VALUES = ("log_uniform_values", "q_log_uniform_values", "inv_log_uniform_values")
# Between the names of nested parameters; no name holds it.
_JOINED = "\x1f"
DISTRIBUTIONS = (
    *("constant", "categorical", "categorical_w_probabilities", "int_uniform", "uniform"),
    *("q_uniform", *_NORMAL, *_LOG, *_LOG_VALUES),
)


class Parameter:
    """One parameter of a sweep."""

    def __init__(self, name: str, spec: Mapping[str, Any]) -> None:
        self.name = name
        self.spec = spec
        self.distribution = str(spec.get("distribution") or _guess(name, spec))
        if self.distribution not in DISTRIBUTIONS:
            raise UsageError(
                f"the distribution {self.distribution!r} of {name!r} is not known: use one of"
                f" {', '.join(dict.fromkeys(DISTRIBUTIONS))}."
            )

    def grid(self) -> list[Any]:
        """Every value; raises for a parameter that has infinitely many."""
        if "value" in self.spec:
            return [self.spec["value"]]
        if "values" in self.spec:
            return list(self.spec["values"])
        if self.distribution == "int_uniform":
            return list(range(int(self.spec["min"]), int(self.spec["max"]) + 1))
        if self.distribution == "q_uniform":
            low, high, q = self.spec["min"], self.spec["max"], self._q
            if type(q) is int and low == int(low):
                low = int(low)
            return [low + q * number for number in range(int((high - low) / q + 1e-9) + 1)]
        raise UsageError(
            f"a grid needs 'values' for {self.name!r}: a {self.distribution} distribution has no"
            " end."
        )

    def draw(self, rng: random.Random) -> Any:
        """One value at random."""
        spec, kind = self.spec, self.distribution
        if "value" in spec:
            return spec["value"]
        if "values" in spec:
            return rng.choices(list(spec["values"]), weights=spec.get("probabilities"))[0]
        if kind == "int_uniform":
            return rng.randint(int(spec["min"]), int(spec["max"]))
        if kind in _NORMAL:
            drawn = rng.gauss(float(spec.get("mu", 0.0)), float(spec.get("sigma", 1.0)))
            return self._rounded(math.exp(drawn) if "log" in kind else drawn)
        low, high = float(spec["min"]), float(spec["max"])
        if kind in _LOG_VALUES:
            return self._rounded(math.exp(rng.uniform(math.log(low), math.log(high))))
        if kind in _LOG:
            return self._rounded(math.exp(rng.uniform(low, high)))
        return self._rounded(rng.uniform(low, high))

    def suggest(self, trial: Any) -> Any:
        """One value that Optuna proposes."""
        spec, kind = self.spec, self.distribution
        if "value" in spec:
            return spec["value"]
        if "values" in spec:
            values = list(spec["values"])
            return values[trial.suggest_categorical(self.name, list(range(len(values))))]
        if kind == "int_uniform":
            return trial.suggest_int(self.name, int(spec["min"]), int(spec["max"]))
        if kind in _NORMAL:
            mu, sigma = float(spec.get("mu", 0.0)), float(spec.get("sigma", 1.0))
            drawn = trial.suggest_float(self.name, mu - 3 * sigma, mu + 3 * sigma)
            return self._rounded(math.exp(drawn) if "log" in kind else drawn)
        low, high = float(spec["min"]), float(spec["max"])
        if kind in _LOG and kind not in _LOG_VALUES:
            low, high = math.exp(low), math.exp(high)
        is_log = kind in _LOG or kind in _LOG_VALUES
        return self._rounded(trial.suggest_float(self.name, low, high, log=is_log))

    @property
    def _q(self) -> float:
        """The distance of neighbouring values; one that is an integer makes all of them integers.

        W&B does the same, whatever the bounds are.
        """
        q: float = self.spec.get("q", 1)
        return q

    def _rounded(self, value: float) -> float:
        return round(value / self._q) * self._q if self.distribution.startswith("q_") else value


def parameters_of(config: Mapping[str, Any]) -> list[Parameter]:
    """The parameters of a sweep's configuration; names of nested ones are joined."""
    given = config.get("parameters")
    if not isinstance(given, Mapping) or not given:
        raise UsageError("a sweep needs 'parameters': names with 'values', or 'min' and 'max'.")
    return list(_flat(given, ""))


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by joined names as nested dicts."""
    result: dict[str, Any] = {}
    for name, value in values.items():
        *folders, last = name.split(_JOINED)
        inner = result
        for folder in folders:
            inner = inner.setdefault(folder, {})
        inner[last] = value
    return result


def grid(parameters: list[Parameter]) -> Iterator[dict[str, Any]]:
    """Every combination, the last parameter changing first."""
    columns = [parameter.grid() for parameter in parameters]
    for values in itertools.product(*columns):
        yield dict(zip((one.name for one in parameters), values, strict=True))


def _flat(given: Mapping[str, Any], prefix: str) -> Iterator[Parameter]:
    for name, spec in given.items():
        if not isinstance(spec, Mapping):
            raise UsageError(f"the parameter {name!r} must be a mapping such as {{'values': [1]}}.")
        if isinstance(spec.get("parameters"), Mapping):
            yield from _flat(spec["parameters"], f"{prefix}{name}{_JOINED}")
        else:
            yield Parameter(f"{prefix}{name}", spec)


def _guess(name: str, spec: Mapping[str, Any]) -> str:
    if "value" in spec:
        return "constant"
    if "values" in spec:
        return "categorical"
    if "mu" in spec or "sigma" in spec:
        return "normal"
    if "min" in spec and "max" in spec:
        whole = all(type(spec[key]) is int for key in ("min", "max"))
        return "int_uniform" if whole else "uniform"
    raise UsageError(f"the parameter {name!r} needs 'value', 'values', or 'min' and 'max'.")
