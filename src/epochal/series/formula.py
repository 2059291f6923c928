"""Evaluates formulas over series, such as ``ema(loss, 0.9)``; ``query/formula.py`` parses them.

Values are computed at the points that all operands have; nothing is interpolated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epochal.errors import MetricNotFoundError
from epochal.query.formula import AXES, NEGATION, SMOOTHING, Formula
from epochal.series.series import Floats, Series, SeriesRun, merge
from epochal.series.smooth import Smoothing

_POINTWISE: Mapping[str, Callable[..., Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "**": np.power,
    NEGATION: np.negative,
    "abs": np.abs,
    "log": np.log,
    "log10": np.log10,
    "exp": np.exp,
    "sqrt": np.sqrt,
    "min": lambda *values: reduce(np.minimum, values),
    "max": lambda *values: reduce(np.maximum, values),
}


def evaluate(formula: Formula, operands: Mapping[str, Series], run: SeriesRun) -> Series:
    """The result at the points that all operands have; ``operands`` are series of one axis.

    They are keyed by the names in the formula. One that has only axes is evaluated at the points
    of any other series among them. Results that are not finite stay, as those of a metric.
    """
    stack: list[Series | np.float64] = []
    with np.errstate(all="ignore"):
        for kind, text, arity in formula.code:
            if kind == "number":
                stack.append(np.float64(text))
            elif kind == "metric":
                stack.append(operands[text])
            elif kind == "axis":
                stack.append(_along(text, list(operands.values()), run))
            else:
                stack[-arity:] = [_call(text, stack[-arity:])]
    (result,) = stack
    assert isinstance(result, Series)
    has_goal = formula.has_goal_of_metric
    goal = next(iter(operands.values())).goal if has_goal else None
    return replace(result, name=formula.text, goal=goal, unit=None, duplicates=0, hidden=0)


def _call(name: str, values: Sequence[Series | np.float64]) -> Series | np.float64:
    first = values[0]
    if isinstance(first, Series) and name in SMOOTHING:
        smoothing = Smoothing(SMOOTHING[name], float(values[1]))  # type: ignore[arg-type]
        return first.smoothed(smoothing)
    if isinstance(first, Series) and len(values) == 1 and name in ("min", "max"):
        so_far = np.fmin if name == "min" else np.fmax
        return replace(first, values=so_far.accumulate(first.floats))
    if isinstance(first, Series) and name == "diff":
        return replace(first.select(slice(1, None)), values=np.diff(first.floats))
    if isinstance(first, Series) and name == "cumsum":
        known = np.isfinite(first.floats)
        sums = np.where(known, first.floats, 0.0).cumsum()
        return replace(first, values=np.where(known, sums, first.floats))
    series = _aligned([one for one in values if isinstance(one, Series)])
    rest = iter(series)
    numbers = [next(rest).floats if isinstance(one, Series) else one for one in values]
    result = _POINTWISE[name](*numbers)
    if not series:
        return np.float64(result)
    times: Floats = reduce(np.fmax, (one.times for one in series))
    return replace(series[0], values=result, times=times)


def _aligned(series: Sequence[Series]) -> list[Series]:
    """The points of series at the positions that all of them have."""
    places: list[NDArray[Any]] = [one.at for one in series]
    if all(at is places[0] or np.array_equal(at, places[0]) for at in places[1:]):
        return list(series)
    common = min(places, key=len)
    # Only the time axis may have a position twice.
    common = common[np.append(True, common[1:] != common[:-1])[: common.size]]
    for at in places:
        index = np.minimum(np.searchsorted(at, common), at.size - 1)
        common = common[at[index] == common]
    return [one.select(np.searchsorted(one.at, common)) for one in series]


def _along(name: str, operands: Sequence[Series], run: SeriesRun) -> Series:
    """An axis as a series: its value at every point of the operands."""
    first = operands[0]
    is_same = all(np.array_equal(one.at, first.at) for one in operands[1:])
    points = first if is_same else merge((None, one) for one in operands)
    moved = points.along(AXES[name], run)
    if moved.x != AXES[name]:
        is_recorded = name == "step" or first.axis != "step"
        reason = (
            f"{first.name!r} was logged by {first.axis}" if is_recorded else "this run has none"
        )
        raise MetricNotFoundError(f"`{name}` cannot be used in this formula: {reason}.")
    return replace(points, values=moved.at.astype(np.float64))
