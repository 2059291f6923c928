import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochal.health.course import fit_line


@given(st.floats(-100, 100), st.floats(-100, 100), st.integers(3, 50))
def test_a_line_is_found_without_error(slope: float, base: float, count: int) -> None:
    fit = fit_line([base + slope * n for n in range(count)])
    assert fit.slope == pytest.approx(slope, abs=1e-9)
    assert fit.slope_error == pytest.approx(0, abs=1e-6)


def test_noise_makes_the_slope_unsure() -> None:
    fit = fit_line([0.0, 1.0] * 20)
    assert abs(fit.slope) < 2 * fit.slope_error
