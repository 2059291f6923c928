"""Counting where the values are gives what counting on the host gives."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from epochal.records.values import DeviceParts
from epochal.run.histogram import histogram_record, with_distribution
from epochal.torch.measure import distribution


def on_host(values: Any, bins: int) -> dict[str, Any]:
    return histogram_record(0.0, name="w", values=values, step=0, bins=bins)


def on_device(values: Any, bins: int) -> dict[str, Any]:
    record = {"log": "histogram", "t": 0.0, "step": 0, "name": "w", "values": None, "bins": bins}
    return with_distribution(record, distribution(values, bins=bins).tolist())


@given(st.lists(st.floats(), min_size=1, max_size=50), st.integers(1, 20))
def test_any_floats_are_counted_alike(values: list[float], bins: int) -> None:
    tensor = torch.tensor(values, dtype=torch.float64)
    host, device = on_host(tensor, bins), on_device(tensor, bins)
    assert sum(device["counts"]) == device["count"] == host["count"]
    assert device.get("nonfinite_count") == host.get("nonfinite_count")
    for name in ("lo", "hi", "min", "max"):
        assert device.get(name) == pytest.approx(host.get(name))


def test_ordinary_values_fall_into_the_same_bins() -> None:
    values = torch.randn(10_000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    host, device = on_host(values, 64), on_device(values.reshape(100, 100).T, 64)
    assert device["counts"] == host["counts"]
    assert device["mean"] == pytest.approx(host["mean"])
    assert device["std"] == pytest.approx(host["std"])


def test_of_many_values_the_same_ones_are_counted() -> None:
    values = torch.arange(2_500_000, dtype=torch.float32).reshape(5, -1)
    assert on_device(values, 8) == on_host(values, 8)
    assert on_device(values, 8)["sampled_from"] == 2_500_000


def test_a_list_with_tensors_is_one_row() -> None:
    parts = DeviceParts((torch.ones(2, 2), 3.0, True, torch.tensor(7)))
    assert on_device(parts, 2)["counts"] == [6, 1]
