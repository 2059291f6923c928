"""Phrases that findings share."""

from __future__ import annotations

from epochal.format import format_number
from epochal.health.curve import Curve
from epochal.health.rate import RateJump

# Kinds of records that points of a curve come from.
CURVE_KINDS = frozenset({"step", "metrics", "eval", "epoch"})
# What to check where a model's output does not depend on its input.
INPUTS_REACH_THE_OUTPUT = (
    "that inputs reach the output: no ReLU that is always 0, no initialisation near 0."
)
# The series of the gradient norm after clipping.
CLIPPED = "train/norm_clipped"


def steps_of(curve: Curve, first: int, last: int) -> tuple[int, int] | None:
    """A stretch as a finding's steps; None on an axis that is not of steps."""
    return (min(first, last), max(first, last)) if curve.axis == "step" else None


def times(ratio: float) -> str:
    """A factor in few digits: ``3.4``, ``28``, ``1,200``."""
    return f"{ratio:.1f}" if ratio < 10 else f"{ratio:,.0f}" if ratio < 1e6 else f"{ratio:.1e}"


def rate_rose(curve: Curve, jump: RateJump) -> str:
    """A jump of the learning rate as the beginning of a sentence."""
    return (
        f"The learning rate rose {times(jump.factor)} times at {curve.at(jump.position)}, "
        f"from {format_number(jump.before)} to {format_number(jump.after)}"
    )


def percent(share: float) -> str:
    """A share as per cent: ``12 %``, ``0.4 %``."""
    return f"{100 * share:.1f} %" if abs(share) < 0.0995 else f"{100 * share:.0f} %"
