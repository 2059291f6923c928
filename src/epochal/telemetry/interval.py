"""Collects samples of one device and reduces them to mean, minimum and maximum.

Figures are rounded to what a chart of hours can show, the extremes outwards. The noise below that
is what would fill the disk.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from epochal.records import KINDS
from epochal.telemetry.gpu import THROTTLE_WORDS

_MIB = 1024**2


# What means and extremes of one unit are multiples of.
_STEPS = {"%": (0.5, 2), "mW": (1000, 5000), "MHz": (5, 15), "bytes": (_MIB, _MIB)}
_ANY_UNIT = (1, 1)
_RATE = "bytes/s"


# What hardly moves or only counts up: of several samples the newest says it all.
_STEADY = frozenset(
    "max_clock power_limit temp_slowdown dram_total energy ecc_corrected ecc_uncorrected"
    " ram_total threads disk_total".split()
)
# What a full reading of a GPU gives as a mean since the last one.
_AVERAGED = frozenset({"power", "gpu_util", "mem_util"})


class Interval:
    """The readings of one thing since the last ``summary``, as fields of a kind of record."""

    def __init__(self, kind: str) -> None:
        self._units = {field.name: field.unit for field in KINDS[kind].fields}
        self._values: dict[str, list[float]] = {}
        self._means: dict[str, list[float]] = {}
        self._words: dict[str, list[str]] = {}
        self.num_samples = 0

    def add(self, readings: Mapping[str, Any], *, is_full: bool = False) -> None:
        """Take in some readings by name; a full one is itself a mean, and outweighs the others."""
        self.num_samples += 1
        for name, value in readings.items():
            if isinstance(value, str):
                self._words.setdefault(name, []).append(value)
                continue
            self._values.setdefault(name, []).append(value)
            if is_full and name in _AVERAGED:
                self._means.setdefault(name, []).append(value)

    def summary(self) -> dict[str, Any]:
        """The fields of a record: means under their names, ``min`` and ``max``; starts anew.

        What nobody knew is left out. A word is the gravest of those seen. Rates have no least: it
        is nearly always 0.
        """
        fields: dict[str, Any] = {name: _gravest(seen) for name, seen in self._words.items()}
        least: dict[str, float] = {}
        greatest: dict[str, float] = {}
        for name, unit in self._units.items():
            values = self._values.get(name)
            if not values:
                continue
            if name in _STEADY:
                fields[name] = values[-1]
                continue
            fields[name] = _mean(self._means.get(name, values), unit)
            greatest[name] = _rounded_up(max(values), unit)
            if unit != _RATE:
                least[name] = -_rounded_up(-min(values), unit)
        self._values, self._means, self._words, self.num_samples = {}, {}, {}, 0
        extremes = {"min": least, "max": greatest}
        return {**fields, **{name: found for name, found in extremes.items() if found}}


def _mean(values: Sequence[float], unit: str) -> float:
    mean = math.fsum(values) / len(values)
    step = _rate_step(mean, digits=2) if unit == _RATE else _STEPS.get(unit, _ANY_UNIT)[0]
    return round(mean / step) * step


def _rounded_up(value: float, unit: str) -> float:
    step = _rate_step(value, digits=1) if unit == _RATE else _STEPS.get(unit, _ANY_UNIT)[1]
    return math.ceil(value / step) * step


def _rate_step(value: float, *, digits: int) -> int:
    """Rates differ by orders of magnitude: what counts is their leading digits."""
    if value < 10**digits:
        return 1
    return int(10 ** (math.floor(math.log10(value)) - (digits - 1)))


def _gravest(words: Sequence[str]) -> str:
    known = [word for word in THROTTLE_WORDS if word in words]
    return known[0] if known else words[-1]
