from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import astuple

from epochal.series.blocks import Blocks, blocks_of, join
from epochal.series.series import Series
from tests.series.points import assert_exact, points

SIZE = 4


def drawn_points(seed: int, size: int) -> Series:
    """Steps with gaps, and some values that are equal or not finite."""
    random = np.random.default_rng(seed)
    steps = random.choice([1, 2, 40], size, p=[0.8, 0.199, 0.001]).cumsum()
    values = np.round(random.standard_normal(size) * 1e6, -random.integers(-3, 6))
    share = random.choice([0.0, 0.01, 0.5])
    strange = random.random(size) < share
    values[strange] = random.choice([math.nan, math.inf, -math.inf], int(strange.sum()))
    return points(steps, values)


def blocks(series: Series, *ends: int) -> Blocks:
    """The blocks of a series that lies in several parts."""
    bounds = sorted({0, *(end % len(series) for end in ends), len(series)})
    pieces = [series.select(slice(*pair)) for pair in itertools.pairwise(bounds)]
    found = [blocks_of(piece, size=SIZE) for piece in pieces]
    return join([piece for piece in found if piece is not None])


bound = st.none() | st.integers(-5, 900)


@given(
    st.builds(drawn_points, st.integers(0), st.integers(1, 600)),
    st.lists(st.integers(0, 600), max_size=3),
    st.integers(1, 20),
    st.tuples(bound, bound),
)
def test_a_chart_of_blocks_is_exact(
    series: Series, ends: list[int], pixels: int, bounds: tuple[int | None, int | None]
) -> None:
    lo, hi = bounds
    if lo is not None and hi is not None:
        lo, hi = min(lo, hi), max(lo, hi)
    inside, known = series.between(lo, hi), blocks(series, *ends)
    for one, other in zip(astuple(known.summary), astuple(series.summary), strict=True):
        assert one is other or one == pytest.approx(other, rel=1e-9, abs=1e-6, nan_ok=True)
    found = known.downsample(pixels, lo=lo, hi=hi)
    if found is None:
        return
    assert (found.lo, found.hi) == (series.steps[0], series.steps[-1])
    if isinstance(found.shown, Series):
        assert found.shown.steps.tolist() == inside.steps.tolist()
        np.testing.assert_array_equal(found.shown.values, inside.values)
        return
    pairs = list(zip(inside.steps.tolist(), inside.values.tolist(), strict=True))
    slices = found.shown
    assert len(slices) <= pixels < len(inside)
    assert slices.count.sum() == len(inside)
    assert slices.start.tolist() == [0, *slices.count.cumsum()[:-1]]
    ends_at = inside.steps[slices.last_index]
    assert [at for at, n in zip(ends_at, slices.finite, strict=True) if n] == [
        at for at, n in zip(slices.last_step, slices.finite, strict=True) if n
    ]
    assert_exact(slices, pairs)
    marked = list(zip(slices.nonfinite_steps.tolist(), slices.nonfinite_values, strict=True))
    assert {(at, str(one)) for at, one in marked} <= {(at, str(one)) for at, one in pairs}
    strange = {str(one) for _, one in pairs if not math.isfinite(one)}
    assert {str(one) for _, one in marked} == strange
    first = inside.steps[slices.start]
    owners = np.searchsorted(first, slices.nonfinite_steps, side="right") - 1
    assert set(owners) == set(np.flatnonzero(slices.nonfinite))


def test_a_long_series_is_drawn_from_its_blocks_alone() -> None:
    whole = points(range(100_000), np.sin(np.arange(100_000)))
    known = blocks(whole)

    def unread(start: int, stop: int) -> Series:
        raise AssertionError(f"the points of the blocks {start} to {stop} were read")

    found = Blocks(known.axis, known.rows, known.marks, unread).downsample(1000)
    assert found is not None
    assert not isinstance(found.shown, Series)
    assert (len(found.shown), found.shown.count.sum()) == (1000, 100_000)


def test_a_range_has_the_marks_of_its_blocks() -> None:
    values = np.zeros(40)
    values[[7, 8]] = math.nan
    known = blocks(points(range(40), values))
    for bounds, steps in (((0, 9), [7, 8]), ((0, 7), [7]), ((1, 6), []), ((8, 39), [8])):
        assert known.between(*bounds).marks["step"].tolist() == steps


def test_a_gap_is_wider_than_a_pixel() -> None:
    """A block on both sides of a gap would be drawn across it."""
    steps = [*range(1001), *range(900_000, 901_001)]
    assert blocks(points(range(2002), steps)).downsample(100) is not None
    assert blocks(points(steps, steps)).downsample(100) is None


def test_points_that_repeat_a_step_have_no_blocks() -> None:
    assert blocks_of(points([1, 2, 2, 3], [0.0] * 4)) is None


def test_no_block_begins_at_a_time_at_which_another_ends() -> None:
    seconds = points([-1] * 4, [0.0] * 4)
    for times, is_known in (([1.0, 2.0, 2.0, 3.0], False), ([1.0, 1.0, 2.0, 2.0], True)):
        series = replace(seconds, axis="time", times=np.array(times))
        assert (blocks_of(series, size=2) is not None) == is_known
