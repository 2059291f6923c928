import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochal.records.format import (
    format_bytes,
    format_clock,
    format_count,
    format_duration,
    format_number,
    format_tps,
)

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86400
any_float = st.floats(allow_nan=True, allow_infinity=True)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (-0.0, "0"),
        (1.234e-4, "1.23e-04"),
        (-1.234e-4, "-1.23e-04"),
        (5e-324, "4.94e-324"),
        (0.001, "0.0010"),
        (0.0012, "0.0012"),
        (0.003317, "0.00332"),
        (-0.009994, "-0.00999"),
        (0.009996, "0.0100"),
        (0.012345, "0.0123"),
        (1.5264, "1.5264"),
        (-2.0, "-2.0000"),
        (99.9999, "99.9999"),
        (100, "100.00"),
        (12345.678, "12345.68"),
        (99_949_994.0, "99949994.00"),
        (99_999_999.0, "1.000e+08"),
        (15764840887091.2, "1.576e+13"),
        (-1e15, "-1.000e+15"),
        (math.nan, "nan"),
        (math.inf, "inf"),
        (-math.inf, "-inf"),
    ],
)
def test_number(value: float, text: str) -> None:
    assert format_number(value) == text


def test_number_that_rounds_up_to_a_border_takes_the_form_beyond_it() -> None:
    assert format_number(99.99996) == "100.00"
    assert format_number(0.000999999) == "0.0010"


@given(st.floats(min_value=-1e308, max_value=1e308))
def test_number_is_short_and_reads_back_near(value: float) -> None:
    text = format_number(value)
    assert len(text) <= 19
    assert float(text) == pytest.approx(value, rel=0.0051)


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_number_keeps_order(one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert float(format_number(low)) <= float(format_number(high))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0ms"),
        (0.0495, "49ms"),
        (0.057, "57ms"),
        (0.9999, "999ms"),
        (0.9999999, "1s"),
        (1, "1s"),
        (1.5, "1.5s"),
        (4.89, "4.8s"),
        (59.99, "59.9s"),
        (60, "1m 00s"),
        (272.9, "4m 32s"),
        (3 * HOUR_S + 12 * MINUTE_S + 59, "3h 12m"),
        (DAY_S - 1, "23h 59m"),
        (DAY_S, "1d 00h"),
        (34 * DAY_S + 5 * HOUR_S, "34d 05h"),
    ],
)
def test_duration(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize("seconds", [-1, -1e-9, math.nan, math.inf, -math.inf, 1e300])
def test_unknown_duration_is_a_dash(seconds: float) -> None:
    assert format_duration(seconds) == "—"
    assert format_clock(seconds) == "—"


@given(st.integers(min_value=0, max_value=999))
def test_whole_milliseconds_are_never_lost_to_rounding(milliseconds: int) -> None:
    assert format_duration(milliseconds / 1000) == f"{milliseconds}ms"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (59.9, "59s"),
        (60, "00h01m"),
        (15 * MINUTE_S, "00h15m"),
        (2 * HOUR_S + 15 * MINUTE_S + 59, "02h15m"),
        (DAY_S - 1, "23h59m"),
        (3 * DAY_S + 2 * HOUR_S, "3d02h"),
    ],
)
def test_clock(seconds: float, text: str) -> None:
    assert format_clock(seconds) == text


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (512, "512 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (1024**2 - 1, "1.0 MiB"),
        (2.1 * 1024**3, "2.1 GiB"),
        (1024**4, "1.0 TiB"),
        (2000 * 1024**4, "2000.0 TiB"),
        (-1536, "-1.5 KiB"),
        (math.nan, "—"),
    ],
)
def test_bytes(size_bytes: float, text: str) -> None:
    assert format_bytes(size_bytes) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0"),
        (950, "950"),
        (999.6, "1.0k"),
        (1000, "1.0k"),
        (125_300, "125.3k"),
        (999_960, "1.0M"),
        (1_200_000, "1.2M"),
        (3.4e9, "3.4B"),
        (5.6e12, "5.6T"),
        (-125_300, "-125.3k"),
        (math.inf, "—"),
    ],
)
def test_count(count: float, text: str) -> None:
    assert format_count(count) == text


@pytest.mark.parametrize(
    ("tokens_per_second", "text"),
    [
        (125_300, "125.3k"),
        (9_940, "  9.9k"),
        (999.96, "  1.0k"),
        (950, "950.0 "),
        (0, "  0.0 "),
        (math.inf, "    - "),
        (-1, "    - "),
    ],
)
def test_tps(tokens_per_second: float, text: str) -> None:
    assert format_tps(tokens_per_second) == text


@given(any_float)
def test_every_format_takes_every_float(value: float) -> None:
    for write in (
        format_number,
        format_duration,
        format_clock,
        format_bytes,
        format_count,
        format_tps,
    ):
        assert write(value)
