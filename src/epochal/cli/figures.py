"""A series' value with its unit, where the unit is known: bytes, percent, whole counts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from epochal.format import UNKNOWN, format_bytes, format_number
from epochal.records import unit_of

# Units of what is counted: their values are whole.
_COUNTED = frozenset({"tokens", "tokens/s", "experts", "errors", "processes", "threads"})
_WRITERS: Mapping[str, Callable[[float], str]] = {
    "bytes": format_bytes,
    "B": format_bytes,
    "bytes/s": lambda value: f"{format_bytes(value)}/s",
    "B/s": lambda value: f"{format_bytes(value)}/s",
    "%": lambda value: f"{value:.1f} %",
}
_DECLARED_WRITERS: Mapping[str, Callable[[float], str]] = {
    **_WRITERS,
    "mW": lambda value: f"{value / 1000:.0f} W",
    **dict.fromkeys(_COUNTED, lambda value: f"{value:.0f}"),
}


def format_figure(name: str, value: float | None, *, unit: str | None = None) -> str:
    """A value of the series ``name``; ``unit`` is what the run has defined for it."""
    return format_figures(name, value, unit=unit)[0]


def format_figures(name: str, *values: float | None, unit: str | None = None) -> list[str]:
    """Several values of one series."""
    write = _WRITERS.get(unit or "") or _DECLARED_WRITERS.get(unit_of(name))
    return [
        UNKNOWN
        if value is None
        else format_number(value)
        if write is None or not math.isfinite(value)
        else write(value)
        for value in values
    ]
