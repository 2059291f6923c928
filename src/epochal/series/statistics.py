"""Tests and their distributions: t and F, rank correlation, and levels.

SciPy has them too, but is no dependency of a base install, and this is all that is needed of it.
Both distributions are accurate to about 1e-12.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

_TINY = 1e-300
_MOST_TERMS = 100_000
# Fewer degrees of freedom than this leave nothing to compare an effect with.
_FEWEST_DF = 3


class Effect(msgspec.Struct, frozen=True):
    """The share of the variance that an effect explains, and its p-value; nan where unknown.

    ``adjusted`` is the share without what as many levels explain by chance; it may be below 0.
    """

    share: float = math.nan
    adjusted: float = math.nan
    p: float = math.nan


def t_two_sided(t: float, df: float) -> float:
    """The probability of a value at least as far from 0 as ``t``; ``df`` may be a fraction."""
    return f_above(t * t, 1, df)


@lru_cache(maxsize=4096)
def t_quantile(share: float, df: float) -> float:
    """The value that a share of the t distribution, at least one half, lies below."""
    tail, low, high = 2 * (1 - share), 0.0, 1.0
    while t_two_sided(high, df) > tail:
        low, high = high, 2 * high
    while high - low > 1e-14 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if t_two_sided(middle, df) > tail else (low, middle)
    return (low + high) / 2


def f_above(f: float, df_between: float, df_within: float) -> float:
    """The probability of a value of the F distribution that is at least ``f``."""
    return _incomplete_beta(df_within / 2, df_between / 2, df_within / (df_within + df_between * f))


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
    shared: Floats = (np.cumsum(counts) - (counts - 1) / 2)[inverse.reshape(-1)]
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


def partial_effect(others: Sequence[Codes], codes: Codes, y: Floats) -> Effect:
    """The effect of a parameter beside others, each given as the numbers of its levels.

    ``share`` is of all the variance, as if the parameter were alone (η²). ``p`` tests what it adds
    to the others, or the parameter alone where the others leave nothing to test.
    """
    total = float(((y - y.mean()) ** 2).sum()) if y.size else 0.0
    num_levels = int(np.unique(codes).size)
    if total == 0 or num_levels < 2:
        return Effect()
    alone, _ = _residual([codes], y)
    share, within = 1 - alone / total, y.size - num_levels
    adjusted = 1 - (alone / within) * (y.size - 1) / total if within else math.nan
    without, rank_without = _residual(others, y)
    rest, rank_with = _residual([*others, codes], y)
    df_effect, df_rest = rank_with - rank_without, y.size - rank_with
    if df_effect < 1 or df_rest < _FEWEST_DF:
        return partial_effect([], codes, y) if others else Effect(share, adjusted)
    if rest <= 1e-12 * total:
        return Effect(share, adjusted, 0.0 if without > 1e-12 * total else 1.0)
    f = max(0.0, without - rest) / df_effect / (rest / df_rest)
    return Effect(share, adjusted, f_above(f, df_effect, df_rest))


def _residual(parameters: Sequence[Codes], y: Floats) -> tuple[float, int]:
    """The squared rest of ``y`` that levels do not explain, and how many numbers explain it."""
    columns = [np.ones(y.size)]
    for codes in parameters:
        columns += [(codes == one).astype(np.float64) for one in np.unique(codes)[1:]]
    design = np.column_stack(columns)
    fitted, _, rank, _ = np.linalg.lstsq(design, y, rcond=None)
    return float(((y - design @ fitted) ** 2).sum()), int(rank)


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function, for 0 <= ``x`` <= 1."""
    if not 0 < x < 1:
        return float(x >= 1)
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = math.exp(log_front + a * math.log(x) + b * math.log1p(-x))
    # The fraction converges fast on one side of the mean; the other side is its complement.
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(a, b, x) / a
    return 1 - front * _fraction(b, a, 1 - x) / b


def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function, by Lentz's method."""
    c, d = 1.0, 1 / ((1 - (a + b) * x / (a + 1)) or _TINY)
    result = d
    for m in range(1, _MOST_TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d, c = 1 / ((1 + term * d) or _TINY), (1 + term / c) or _TINY
            result *= d * c
        if abs(d * c - 1) < 1e-15:
            break
    return result
