from __future__ import annotations

import math

import pytest

from epochal.series.distributions import (
    f_above,
    range_above,
    range_quantile,
    t_quantile,
    t_two_sided,
)

mpmath = pytest.importorskip("mpmath")

DEGREES = [1, 2, 2.7, 4, 9.31, 30, 120.5, 5000]


def beta(a: float, b: float, x: float) -> float:
    with mpmath.workdps(40):
        return float(mpmath.betainc(a, b, 0, x, regularized=True))


@pytest.mark.parametrize("df", DEGREES)
@pytest.mark.parametrize("t", [0.0, 1e-9, 0.3, 1.0, 2.5, 12.7, 80.0])
def test_the_tail_of_t_is_that_of_an_exact_incomplete_beta(t: float, df: float) -> None:
    expected = beta(df / 2, 0.5, df / (df + t * t))
    assert t_two_sided(t, df) == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert t_two_sided(-t, df) == t_two_sided(t, df)


@pytest.mark.parametrize("df", DEGREES)
@pytest.mark.parametrize("share", [0.001, 0.3, 0.9, 0.975, 0.9995])
def test_a_quantile_of_t_is_the_inverse(share: float, df: float) -> None:
    t = t_quantile(share, df)
    below = 1 - t_two_sided(t, df) / 2 if t > 0 else t_two_sided(t, df) / 2
    assert below == pytest.approx(share, abs=1e-12)


# Tables of the t distribution have three digits; these are its exact values.
@pytest.mark.parametrize(
    ("df", "expected"),
    [
        (1, 12.706204736174694),
        (2, 4.302652729749462),
        (4, 2.7764451051977934),
        (30, 2.042272456301238),
    ],
)
def test_the_usual_quantile_is_that_of_tables(df: float, expected: float) -> None:
    assert t_quantile(0.975, df) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize(("between", "within"), [(1, 5), (3, 56), (11, 49.5)])
@pytest.mark.parametrize("f", [0.01, 1.0, 4.2, 60.0])
def test_the_tail_of_f_is_that_of_an_exact_incomplete_beta(
    f: float, between: float, within: float
) -> None:
    expected = beta(within / 2, between / 2, within / (within + between * f))
    assert f_above(f, between, within) == pytest.approx(expected, rel=1e-9, abs=1e-14)


def test_what_has_no_limits_is_answered() -> None:
    assert t_two_sided(math.inf, 3) == 0.0
    assert f_above(math.inf, 2, 3) == 0.0
    assert f_above(-1.0, 2, 3) == 1.0
    assert math.isnan(t_two_sided(math.nan, 3))
    with pytest.raises(ValueError, match="above 0"):
        t_two_sided(1.0, 0)
    with pytest.raises(ValueError, match="between 0 and 1"):
        t_quantile(1.0, 3)


@pytest.mark.parametrize("df", [1, 2, 4.5, 30, 400])
@pytest.mark.parametrize("t", [0.1, 1.0, 2.5, 12.7])
def test_the_range_of_two_means_is_the_test_of_t(t: float, df: float) -> None:
    assert range_above(math.sqrt(2) * t, 2, df) == pytest.approx(t_two_sided(t, df), abs=1e-6)


# By the tables of Harter (1960).
@pytest.mark.parametrize(
    ("count", "df", "expected"), [(3, 2, 8.331), (3, 6, 4.339), (5, 30, 4.102), (15, 30, 5.211)]
)
def test_the_usual_quantile_of_the_range_is_that_of_tables(
    count: int, df: float, expected: float
) -> None:
    assert range_quantile(0.95, count, df) == pytest.approx(expected, abs=6e-4)
