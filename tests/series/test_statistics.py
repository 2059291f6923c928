from __future__ import annotations

import math

import numpy as np
import pytest

from epochal.series.statistics import (
    f_above,
    holm,
    partial_effect,
    rank_correlation,
    ranks,
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
@pytest.mark.parametrize("share", [0.6, 0.9, 0.975, 0.9995])
def test_a_quantile_of_t_is_the_inverse(share: float, df: float) -> None:
    t = t_quantile(share, df)
    assert 1 - t_two_sided(t, df) / 2 == pytest.approx(share, abs=1e-12)


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


def test_effects_are_those_of_the_analysis_of_variance() -> None:
    # By SciPy: f_oneway of [1, 2, 3], [2, 4, 6], [9, 8, 10] and spearmanr of the lists below.
    codes = np.repeat(np.arange(3), 3)
    y = np.array([1, 2, 3, 2, 4, 6, 9, 8, 10], dtype=float)
    effect = partial_effect([], codes, y)
    assert effect.share == pytest.approx(1 - 12 / 90)
    assert effect.p == pytest.approx(0.0023703703703703703, abs=1e-12)
    rho, p = rank_correlation([1, 2, 3, 4, 5, 6], [2, 1, 4, 3, 7, 5])
    assert (rho, p) == pytest.approx((0.8285714285714287, 0.04156268221574334))
    assert ranks([3, 1, 3, 2]).tolist() == [3.5, 1, 3.5, 2]


def test_an_effect_beside_a_larger_one_is_seen() -> None:
    large, small = np.repeat(np.arange(4), 4), np.tile(np.arange(2), 8)
    noise = np.random.default_rng(2).normal(scale=0.05, size=16)
    y = 10.0 * large + 0.3 * small + noise
    assert partial_effect([], small, y).p > 0.9
    assert partial_effect([large], small, y).p < 1e-4


def test_holm_is_the_step_down_correction() -> None:
    corrected = holm([0.01, 0.04, math.nan, 0.03, 0.005])
    assert corrected[:2] == pytest.approx([0.03, 0.06])
    assert math.isnan(corrected[2])
    assert corrected[3:] == pytest.approx([0.06, 0.02])
