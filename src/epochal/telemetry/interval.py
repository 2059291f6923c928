"""Collects samples of one device and reduces them to mean, minimum and maximum.

Figures are rounded to what a chart of hours can show, the extremes outwards. The noise below that
is what would fill the disk.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from epochal.telemetry.gpu import THROTTLE_WORDS
from epochal.telemetry.source import Metric

_MIB = 1024**2


@dataclass(frozen=True, slots=True)
class _Steps:
    """What means and extremes of one unit are multiples of."""

    mean: float = 1
    extreme: int = 1


_STEPS: Mapping[str, _Steps] = {
    "%": _Steps(0.5, 2),
    "mW": _Steps(1000, 5000),
    "MHz": _Steps(5, 15),
    "bytes": _Steps(_MIB, _MIB),
}
_ANY_UNIT = _Steps()
_RATE = "bytes/s"


class Interval:
    """The samples of one thing since the last ``summary``, by a source's table."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._metrics = metrics
        self._values: dict[str, list[float]] = {}
        self._means: dict[str, list[float]] = {}
        self._words: dict[str, list[str]] = {}
        self.num_samples = 0

    def add(self, sample: object, *, is_full: bool = False) -> None:
        """Take in one sample; what it does not know is left out of the means.

        A full one is itself a mean, of what its table marks so, and outweighs the others there.
        """
        self.num_samples += 1
        for metric in self._metrics:
            value = getattr(sample, metric.attribute)
            if isinstance(value, str):
                self._words.setdefault(metric.name, []).append(value)
            elif value is not None:
                self._values.setdefault(metric.name, []).append(value)
                if is_full and metric.averaged:
                    self._means.setdefault(metric.name, []).append(value)

    def summary(self) -> dict[str, Any]:
        """The fields of a record: means under their names, ``min`` and ``max``; starts anew.

        What nobody knew is left out. A word is the gravest of those seen. Rates have no least: it
        is nearly always 0.
        """
        fields: dict[str, Any] = {}
        least: dict[str, float] = {}
        greatest: dict[str, float] = {}
        for metric in self._metrics:
            if metric.name in self._words:
                fields[metric.name] = _gravest(self._words[metric.name])
            values = self._values.get(metric.name)
            if not values:
                continue
            if metric.steady:
                fields[metric.name] = values[-1]
                continue
            fields[metric.name] = _mean(self._means.get(metric.name, values), metric.unit)
            greatest[metric.name] = _rounded_up(max(values), metric.unit)
            if metric.unit != _RATE:
                least[metric.name] = -_rounded_up(-min(values), metric.unit)
        self._values, self._means, self._words, self.num_samples = {}, {}, {}, 0
        extremes = {"min": least, "max": greatest}
        return {**fields, **{name: found for name, found in extremes.items() if found}}


def _mean(values: Sequence[float], unit: str) -> float:
    mean = math.fsum(values) / len(values)
    step = _rate_step(mean, digits=2) if unit == _RATE else _STEPS.get(unit, _ANY_UNIT).mean
    return round(mean / step) * step


def _rounded_up(value: float, unit: str) -> float:
    step = _rate_step(value, digits=1) if unit == _RATE else _STEPS.get(unit, _ANY_UNIT).extreme
    return math.ceil(value / step) * step


def _rate_step(value: float, *, digits: int) -> int:
    """Rates differ by orders of magnitude: what counts is their leading digits."""
    if value < 10**digits:
        return 1
    return int(10 ** (math.floor(math.log10(value)) - (digits - 1)))


def _gravest(words: Sequence[str]) -> str:
    known = [word for word in THROTTLE_WORDS if word in words]
    return known[0] if known else words[-1]
