"""What lists and commands say of a run: how far it is, what was found, a value with its unit."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import datetime

from epochal.records import unit_of
from epochal.records.format import UNKNOWN, format_bytes, format_number, plural
from epochal.store.row import RunRow

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


def format_value(name: str, value: float | None, *, unit: str | None = None) -> str:
    """A value of the series ``name``; ``unit`` is what the run has defined for it."""
    return format_values(name, value, unit=unit)[0]


def format_values(name: str, *values: float | None, unit: str | None = None) -> list[str]:
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


def format_moment(t: float) -> str:
    """A time in Unix seconds as local date and clock: ``2026-05-01 12:00:00``."""
    try:
        return datetime.fromtimestamp(t).isoformat(sep=" ", timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return f"{t} s"


def progress_text(info: RunRow, *, between: str = "/") -> str | None:
    """The steps, or the epochs, that are done of those there are to be; None before the first.

    A run that has gone beyond what it was meant to do says both, but not as a share.
    """
    if info.step is not None:
        if info.steps_done is None or info.total_steps is None:
            return str(info.step)
        if info.step > info.total_steps:
            return f"{info.step} (of {info.total_steps})"
        return f"{info.steps_done}{between}{info.total_steps}"
    epochs = epochs_text(info, between=between)
    return None if epochs is None else f"ep {epochs}"


def epochs_text(info: RunRow, *, between: str = "/") -> str | None:
    """The epochs that are done of those there are to be; None before the first."""
    if info.epoch is None or info.num_epochs is None:
        return None if info.epoch is None else str(info.epoch)
    if info.epoch > info.num_epochs:
        return f"{info.epoch} (of {info.num_epochs})"
    return f"{info.epoch}{between}{info.num_epochs}"


def most_severe_text(info: RunRow) -> str | None:
    """The errors, or the warnings where there are no errors; None if no rules ran.

    A ``+`` behind it means that an attempt was not watched to its end.
    """
    if info.errors is None:
        return None
    number, num_open, word = info.errors, info.open_errors or 0, "error"
    if not number:
        number, num_open, word = info.warnings or 0, info.open_warnings or 0, "warning"
    found = plural(number, word) if number else "none"
    if num_open != number:
        found += f" ({num_open} open)" if num_open else " (resolved)"
    return f"{found} +" if info.is_partly_watched else found
