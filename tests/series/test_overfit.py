from __future__ import annotations

import math

import pytest

from epochal.series.trend import gap_grade, gap_percent


@pytest.mark.parametrize(
    ("evaluated", "train", "percent"), [(2.2, 2.0, 10.0), (1.0, 2.0, -50.0), (-1.0, -2.0, 50.0)]
)
def test_the_gap_is_in_percent_of_the_training_loss(
    evaluated: float, train: float, percent: float
) -> None:
    assert gap_percent(evaluated, train) == pytest.approx(percent)


@pytest.mark.parametrize(
    ("evaluated", "train"), [(1.0, 0.0), (math.nan, 1.0), (1.0, math.inf), (1e308, 1e-308)]
)
def test_a_gap_that_cannot_be_told_is_none(evaluated: float, train: float) -> None:
    assert gap_percent(evaluated, train) is None


@pytest.mark.parametrize(
    ("percent", "grade"),
    [(-5.0, "good"), (10.0, "good"), (10.1, "warn"), (25.0, "warn"), (25.1, "bad")],
)
def test_grades(percent: float, grade: str) -> None:
    assert gap_grade(percent) == grade
