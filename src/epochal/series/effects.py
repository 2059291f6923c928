"""How much a quantity depends on a parameter: rank correlation, and variance between levels."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from epochal.series.distributions import f_above, t_two_sided

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

# Fewer degrees of freedom than this leave nothing to compare an effect with.
_FEWEST_DF = 3


class Effect(msgspec.Struct, frozen=True):
    """The share of the variance that an effect explains, and its p-value; nan where unknown.

    ``adjusted`` is the share without what as many levels explain by chance; it may be below 0.
    """

    share: float
    adjusted: float
    p: float


NO_EFFECT = Effect(math.nan, math.nan, math.nan)


def holm(p: Sequence[float]) -> list[float]:
    """Holm's correction of p-values; nan stays, and counts for none."""
    known = sorted((value, index) for index, value in enumerate(p) if not math.isnan(value))
    corrected = [math.nan] * len(p)
    highest = 0.0
    for place, (value, index) in enumerate(known):
        highest = max(highest, min(1.0, value * (len(known) - place)))
        corrected[index] = highest
    return corrected


def ranks(values: ArrayLike) -> Floats:
    """The ranks of values, from 1; equal values share the mean of their ranks."""
    found = np.asarray(values, dtype=np.float64)
    _, inverse, counts = np.unique(found, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    shared: Floats = (last - (counts - 1) / 2)[inverse.reshape(-1)]
    return shared


def rank_correlation(x: ArrayLike, y: ArrayLike) -> tuple[float, float]:
    """Spearman's rank correlation and its two-sided p-value; nan where one side is constant."""
    first, second = ranks(x), ranks(y)
    n = first.size
    if n < _FEWEST_DF or np.ptp(first) == 0 or np.ptp(second) == 0:
        return math.nan, math.nan
    rho = float(np.clip(np.corrcoef(first, second)[0, 1], -1.0, 1.0))
    if abs(rho) == 1.0:
        return rho, 0.0
    return rho, t_two_sided(rho * math.sqrt((n - 2) / (1 - rho * rho)), n - 2)


def between_levels(codes: Codes, y: Floats) -> Effect:
    """The share of the variance of ``y`` between levels (η²), by the analysis of variance."""
    return partial_effect([], codes, y)


def partial_effect(others: Sequence[Codes], codes: Codes, y: Floats) -> Effect:
    """The effect of a parameter beside others, each given as the numbers of its levels.

    ``share`` is of all the variance, as if the parameter were alone. ``p`` tests what it adds to
    the others, or the parameter alone where the others leave nothing to test.
    """
    total = float(((y - y.mean()) ** 2).sum()) if y.size else 0.0
    num_levels = int(np.unique(codes).size)
    if total == 0 or num_levels < 2:
        return NO_EFFECT
    alone, _ = _residual([codes], y)
    share = 1 - alone / total
    within = y.size - num_levels
    adjusted = 1 - (alone / within) * (y.size - 1) / total if within else math.nan
    without, rank_without = _residual(others, y)
    rest, rank_with = _residual([*others, codes], y)
    df_effect, df_rest = rank_with - rank_without, y.size - rank_with
    if df_effect < 1 or df_rest < _FEWEST_DF:
        return between_levels(codes, y) if others else Effect(share, adjusted, math.nan)
    if rest <= 1e-12 * total:
        return Effect(share, adjusted, 0.0 if without > 1e-12 * total else 1.0)
    return Effect(
        share,
        adjusted,
        f_above(max(0.0, without - rest) / df_effect / (rest / df_rest), df_effect, df_rest),
    )


def _residual(parameters: Sequence[Codes], y: Floats) -> tuple[float, int]:
    """The squared rest of ``y`` that levels do not explain, and how many numbers explain it."""
    columns = [np.ones(y.size)]
    for codes in parameters:
        columns += [(codes == one).astype(np.float64) for one in np.unique(codes)[1:]]
    design = np.column_stack(columns)
    fitted, _, rank, _ = np.linalg.lstsq(design, y, rcond=None)
    return float(((y - design @ fitted) ** 2).sum()), int(rank)
