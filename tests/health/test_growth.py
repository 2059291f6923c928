import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochal.health.growth import Growth, GrowthWatch


def growth_of(values: list[float]) -> Growth | None:
    watch = GrowthWatch(window=60, blocks=6, swing=2.0, steady=0.25, lasting=0.6)
    for place, value in enumerate(values):
        watch.push(10.0 * place, value)
    return watch.growth()


@given(st.floats(1, 1e9), st.floats(0, 1e12))
def test_a_line_grows_at_its_own_pace(slope: float, start: float) -> None:
    found = growth_of([start + slope * n for n in range(60)])
    assert found is not None
    assert found.per_second == pytest.approx(slope / 10, rel=0.02)


def test_what_stands_still_or_falls_does_not_grow() -> None:
    assert growth_of([5.0] * 60) is None
    assert growth_of([100.0 - n for n in range(60)]) is None


def test_what_fills_up_does_not_grow() -> None:
    assert growth_of([1 - math.exp(-n / 20) for n in range(60)]) is None


def test_a_jump_is_not_growth() -> None:
    assert growth_of([1.0] * 30 + [2.0] * 30) is None


def test_nothing_is_known_before_the_window_is_full() -> None:
    assert growth_of([float(n) for n in range(59)]) is None
