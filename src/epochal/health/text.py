"""Fills the templates of findings and of the guide with thresholds and evidence."""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping
from typing import Any

from epochal.health.curve import Curve
from epochal.health.rate import RateJump
from epochal.records.format import format_bytes, format_duration, format_number

# What to check where a model's output does not depend on its input.
INPUTS_REACH_THE_OUTPUT = (
    "that inputs reach the output: no ReLU that is always 0, no initialisation near 0."
)
# The series of the gradient norm after clipping.
CLIPPED = "train/norm_clipped"


def steps_of(curve: Curve, first: int, last: int) -> tuple[int, int] | None:
    """Return a range as a finding's steps; None on an axis that is not of steps."""
    return (min(first, last), max(first, last)) if curve.axis == "step" else None


def rate_rose(curve: Curve, jump: RateJump) -> str:
    """Return the beginning of a sentence about a jump of the learning rate."""
    return (
        f"The learning rate rose {times(jump.factor)} times at {curve.at(jump.position)}, "
        f"from {format_number(jump.before)} to {format_number(jump.after)}"
    )


def times(ratio: float) -> str:
    """Format a factor in few digits: ``3.4``, ``28``, ``1,200``."""
    return f"{ratio:.1f}" if ratio < 10 else f"{ratio:,.0f}" if ratio < 1e6 else f"{ratio:.1e}"


def percent(share: float) -> str:
    """Format a share as per cent: ``12 %``, ``0.4 %``."""
    return f"{100 * share:.1f} %" if abs(share) < 0.0995 else f"{100 * share:.0f} %"


_FORMATS: dict[str, Callable[[Any], str]] = {
    "times": times,
    "percent": percent,
    "bytes": format_bytes,
    "duration": format_duration,
    "plain": lambda value: f"{value:g}",
}


class _Formatter(string.Formatter):
    """Formats numbers as findings show them; the part after ``:`` may name another format."""

    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec in _FORMATS:
            return _FORMATS[format_spec](value)
        if format_spec or isinstance(value, (str, bool)):
            return format(value, format_spec)
        return f"{value:,}" if isinstance(value, int) else format_number(value)


_FORMATTER = _Formatter()


def fill(template: str, values: Mapping[str, Any]) -> str:
    """Fill a template such as ``"The loss rose {ratio:times} times at step {step}."``."""
    return _FORMATTER.vformat(template, (), values)
