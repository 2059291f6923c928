from __future__ import annotations

import math
import xml.etree.ElementTree as ET

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from epochal.errors import FormatError
from epochal.torch.checkpoint.loss_picture import LossHistory, draw_losses


def history(*losses: float) -> LossHistory:
    found = LossHistory()
    for step, loss in enumerate(losses):
        found.add(step, loss)
    return found


def test_memory_is_bounded_and_no_spike_is_lost() -> None:
    found = LossHistory()
    for step in range(100_000):
        found.add(step, 1000.0 if step == 54_321 else 1.0)
    buckets = found.buckets()
    assert len(buckets) <= 512
    assert max(b.high for b in buckets) == 1000.0
    assert sum(b.count for b in buckets) == 100_000


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=3000))
def test_lowest_highest_and_mean_are_exact(losses: list[float]) -> None:
    buckets = history(*losses).buckets()
    assert min(b.low for b in buckets) == min(losses)
    assert max(b.high for b in buckets) == max(losses)
    assert math.isclose(sum(b.total for b in buckets), math.fsum(losses), abs_tol=1e-3)
    assert [b.step for b in buckets] == sorted(b.step for b in buckets)


def test_tensors_are_taken_as_they_were() -> None:
    found, loss = LossHistory(), torch.tensor(1.0, requires_grad=True)
    found.add(0, loss)
    with torch.no_grad():
        loss.fill_(5)
    found.add(1, loss)
    assert [b.mean for b in found.buckets()] == [1.0, 5.0]


def test_numbers_and_tensors_may_be_mixed_and_nan_is_left_out() -> None:
    found = history(1.0, math.nan, 2.0, math.inf)
    found.add(4, torch.tensor(3.0))
    assert [(b.step, b.mean) for b in found.buckets()] == [(0, 1.0), (2, 2.0), (4, 3.0)]


def test_steps_that_will_be_run_again_can_be_forgotten() -> None:
    found = history(3.0, 2.0, 1.0)
    found.forget_from(1)
    assert [b.step for b in found.buckets()] == [0]


def test_the_state_comes_back() -> None:
    first, second = history(*range(2000)), LossHistory()
    second.load_state_dict(first.state_dict())
    for found in (first, second):
        found.add(2000, 7.0)
    assert first.buckets() == second.buckets()
    with pytest.raises(FormatError, match="damaged"):
        second.load_state_dict({"buckets": [[1]]})


@pytest.mark.parametrize("losses", [(), (1.0,), (1.0, 1.0), (3.0, 1.0, 2.0)])
def test_the_picture_is_xml_with_every_point_inside(losses: tuple[float, ...]) -> None:
    text = draw_losses(history(*losses).buckets(), title="a < b & c")
    root = ET.fromstring(text)
    assert "a < b & c" in "".join(root.itertext())
    line = root.find("{http://www.w3.org/2000/svg}polyline")
    assert line is not None
    points = [tuple(map(float, p.split(","))) for p in line.attrib["points"].split()]
    assert len(points) == len(losses)
    assert all(0 <= x <= 480 and 0 <= y <= 200 for x, y in points)
