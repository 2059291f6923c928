"""The t and F distributions, accurate to about 1e-12, and the studentised range, to about 1e-6.

SciPy has them too, but is no dependency of a base install, and this is all that is needed of it.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

_TINY = 1e-300
_MOST_TERMS = 100_000
_MOST_STEPS = 200
_CONVERGED = 1e-15
# The studentised range is integrated over the normal distribution and over the deviation.
_NORMAL_POINTS, _NORMAL_REACH = 64, 8.0
_DEVIATION_POINTS, _DEVIATION_REACH = 48, 7.0
# Chebyshev's polynomial of the error function, to 1e-7 ("Numerical Recipes", section 6.2).
_ERROR_FUNCTION = (
    *(0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807),
    *(-0.18628806, 0.09678418, 0.37409196, 1.00002368, -1.26551223),
)


def t_two_sided(t: float, df: float) -> float:
    """The probability of a value at least as far from 0 as ``t``, with ``df`` degrees of freedom.

    ``df`` may be a fraction, as in Welch's test.
    """
    _check(df)
    if math.isnan(t):
        return math.nan
    if math.isinf(t):
        return 0.0
    square = t * t
    if square < df:  # close to 0, the complement has more digits
        return 1 - incomplete_beta(0.5, df / 2, square / (df + square))
    return incomplete_beta(df / 2, 0.5, df / (df + square))


@lru_cache(maxsize=4096)
def t_quantile(share: float, df: float) -> float:
    """The value that a share of the t distribution lies below; ``share`` is between 0 and 1."""
    _check(df)
    if not 0 < share < 1:
        raise ValueError(f"share must be between 0 and 1, got {share!r}")
    if share < 0.5:
        return -t_quantile(1 - share, df)
    tail = 2 * (1 - share)
    low, high = 0.0, 1.0
    while t_two_sided(high, df) > tail:
        low, high = high, 2 * high
    # Newton's method, and halves where it would leave the bounds.
    log_density = math.lgamma((df + 1) / 2) - math.lgamma(df / 2) - math.log(df * math.pi) / 2
    t = (low + high) / 2
    for _ in range(_MOST_STEPS):
        beyond = t_two_sided(t, df) - tail
        low, high = (t, high) if beyond > 0 else (low, t)
        slope = 2 * math.exp(log_density - (df + 1) / 2 * math.log1p(t * t / df))
        step = beyond / slope if slope > 0 else math.inf
        after = t + step if low < t + step < high else (low + high) / 2
        if abs(after - t) <= 1e-13 * t:
            return after
        t = after
    return t


def f_above(f: float, df_between: float, df_within: float) -> float:
    """The probability of a value of the F distribution that is at least ``f``."""
    _check(df_between)
    _check(df_within)
    if math.isnan(f):
        return math.nan
    if f <= 0:
        return 1.0
    if math.isinf(f):
        return 0.0
    return incomplete_beta(df_within / 2, df_between / 2, df_within / (df_within + df_between * f))


def range_above(q: float, count: int, df: float) -> float:
    """The probability that the range of some means is at least ``q`` standard errors of a mean.

    ``count`` means of one distribution are compared, and the standard error is estimated with
    ``df`` degrees of freedom. For two means this is the t test: q is then √2 times t.
    """
    _check(df)
    if math.isnan(q) or math.isinf(q):
        return math.nan if math.isnan(q) else 0.0
    # The share of means within q of the smallest one, for each place of that and each deviation.
    at, weights = _legendre(_NORMAL_POINTS)
    at = _NORMAL_REACH * at
    density = _NORMAL_REACH * weights * np.exp(-at * at / 2) / math.sqrt(2 * math.pi)
    reach = _DEVIATION_REACH / math.sqrt(2 * df)
    low, high = max(0.0, 1 - reach), 1 + reach
    place, each = _legendre(_DEVIATION_POINTS)
    deviations = (low + high) / 2 + (high - low) / 2 * place
    log_front = math.log(2) + df / 2 * math.log(df / 2) - math.lgamma(df / 2)
    logs = log_front + (df - 1) * np.log(deviations) - df * deviations**2 / 2
    chances = (high - low) / 2 * each * np.exp(logs)
    inside = _normal_below(at[:, None] + q * deviations) - _normal_below(at)[:, None]
    within = count * density @ np.maximum(inside, 0.0) ** (count - 1)
    return float(np.clip(chances.sum() - chances @ within, 0.0, 1.0))


@lru_cache(maxsize=4096)
def range_quantile(share: float, count: int, df: float) -> float:
    """The value that a share of the studentised range lies below, to six digits."""
    low, high = 0.0, math.sqrt(2) * t_quantile(0.5 + share / 2, df)
    while range_above(high, count, df) > 1 - share:
        low, high = high, 2 * high
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if range_above(middle, count, df) > 1 - share else (low, middle)
    return (low + high) / 2


@lru_cache
def _legendre(count: int) -> tuple[np.ndarray, np.ndarray]:
    at, weights = np.polynomial.legendre.leggauss(count)
    return at, weights


def _normal_below(z: np.ndarray) -> np.ndarray:
    distance = np.abs(z) / math.sqrt(2)
    t = 1 / (1 + distance / 2)
    above = t * np.exp(np.polyval(_ERROR_FUNCTION, t) - distance * distance) / 2
    below: np.ndarray = np.where(z < 0, above, 1 - above)
    return below


def incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function, for 0 <= ``x`` <= 1."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = math.exp(log_front + a * math.log(x) + b * math.log1p(-x))
    # The fraction converges fast on one side of the mean; the other side is its complement.
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(a, b, x) / a
    return 1 - front * _fraction(b, a, 1 - x) / b


def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function, by Lentz's method."""
    c, d = 1.0, 1 / _apart(1 - (a + b) * x / (a + 1))
    result = d
    for m in range(1, _MOST_TERMS):
        place = a + 2 * m
        even = m * (b - m) * x / ((place - 1) * place)
        d, c = 1 / _apart(1 + even * d), _apart(1 + even / c)
        result *= d * c
        odd = -(a + m) * (a + b + m) * x / (place * (place + 1))
        d, c = 1 / _apart(1 + odd * d), _apart(1 + odd / c)
        factor = d * c
        result *= factor
        if abs(factor - 1) < _CONVERGED:
            break
    return result


def _apart(value: float) -> float:
    """The value, kept from being 0."""
    return value if abs(value) > _TINY else _TINY


def _check(df: float) -> None:
    if not df > 0:
        raise ValueError(f"degrees of freedom must be above 0, got {df!r}")
