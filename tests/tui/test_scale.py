from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochal.tui.scale import Scale, scale_of, short_number, tick_labels, ticks

FINITE = st.floats(-1e300, 1e300)


@pytest.mark.parametrize(
    ("low", "high", "count", "labels"),
    [
        (0, 400, 4, ["0", "100", "200", "300", "400"]),
        (2.9, 3.4, 4, ["3.0", "3.2", "3.4"]),
        (0, 500_000, 3, ["0", "200k", "400k"]),
        (1_500_000, 2_600_000, 3, ["1.5M", "2.0M", "2.5M"]),
        (0.0001, 0.0006, 3, ["2e-4", "4e-4", "6e-4"]),
        (-1, 1, 2, ["-1", "0", "1"]),
    ],
)
def test_ticks_are_round_and_their_labels_short(
    low: float, high: float, count: int, labels: list[str]
) -> None:
    assert tick_labels(ticks(Scale(low, high), count)) == labels


def test_a_logarithmic_axis_has_powers_of_ten() -> None:
    assert ticks(Scale(0.02, 30, is_log=True), 5) == pytest.approx([0.1, 1, 10])


@given(FINITE, FINITE, st.integers(1, 12))
def test_ticks_lie_inside_and_ascend(a: float, b: float, count: int) -> None:
    scale = scale_of(min(a, b), max(a, b))
    found = ticks(scale, count)
    slack = (scale.high / 2 - scale.low / 2) * 1e-6
    assert found == sorted(found)
    assert all(scale.low - slack <= tick <= scale.high + slack for tick in found)
    assert len(found) <= 4 * count + 4
    assert len(tick_labels(found)) == len(found)


@given(FINITE, FINITE, st.lists(st.floats(), max_size=20))
def test_every_value_has_a_dot(a: float, b: float, values: list[float]) -> None:
    dots = scale_of(min(a, b), max(a, b)).dots(np.array(values, dtype=np.float64), 50)
    assert ((dots >= 0) & (dots < 50)).all()


def test_equal_values_get_room_around_them() -> None:
    assert scale_of(5, 5) == Scale(4.5, 5.5)
    assert scale_of(0, 0) == Scale(-1, 1)
    assert scale_of(8, 8, is_log=True) == Scale(4, 16, is_log=True)


def test_large_numbers_are_written_in_thousands_and_millions() -> None:
    assert short_number(3_221_225_472.0) == "3.2B"
    assert short_number(16_568.55) == "16568.55"
    assert short_number(float("nan")) == "nan"
