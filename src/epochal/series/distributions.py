"""The t and F distributions, from the incomplete beta function; accurate to about 1e-12.

SciPy has them too, but is no dependency of a base install, and this is all that is needed of it.
"""

from __future__ import annotations

import math
from functools import lru_cache

_TINY = 1e-300
_MOST_TERMS = 100_000
_MOST_STEPS = 200
_CONVERGED = 1e-15


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
