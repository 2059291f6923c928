from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from epochal.tui.glyphs import ASCII, UNICODE
from epochal.tui.spark import meter, progress_bar, sparkline


def test_a_rising_series_rises() -> None:
    assert sparkline(np.arange(8.0), 8, glyphs=UNICODE) == "▁▂▃▄▅▆▇█"
    assert sparkline(np.arange(80.0), 8, glyphs=ASCII) == "._-=+*%#"


def test_one_spike_does_not_flatten_the_rest() -> None:
    values = np.tile([1.0, 2.0], 60)
    values[70] = 1000.0
    assert len(set(sparkline(values, 120, glyphs=UNICODE))) > 1


def test_a_level_series_is_in_the_middle_and_what_is_not_finite_is_marked() -> None:
    assert sparkline(np.array([5.0, np.nan, 5.0]), 3, glyphs=UNICODE) == "▄×▄"
    assert sparkline(np.array([np.nan]), 3, glyphs=UNICODE) == "×"
    assert sparkline(np.empty(0), 3, glyphs=UNICODE) == ""


@given(st.lists(st.floats(), max_size=60), st.integers(0, 20))
def test_a_sparkline_is_no_wider_than_asked(values: list[float], columns: int) -> None:
    assert len(sparkline(np.array(values), columns, glyphs=UNICODE)) <= columns


@given(st.floats(-1, 2), st.integers(0, 30))
def test_meters_and_bars_have_their_width(share: float, columns: int) -> None:
    assert meter(share, columns, glyphs=UNICODE).cell_len == columns
    assert progress_bar(share, columns, glyphs=UNICODE).cell_len == columns


def test_a_meter_warns_towards_its_end() -> None:
    meters = [meter(share, 10, glyphs=UNICODE, warns=True) for share in (0.5, 0.9, 0.99)]
    styles = [drawn.spans[0].style for drawn in meters]
    assert styles == ["accent", "warn", "bad"]
    assert meter(0.5, 4, glyphs=UNICODE).plain == "██░░"
