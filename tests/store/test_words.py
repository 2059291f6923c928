from __future__ import annotations

import math

import pytest

from epochal.store.words import format_value


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("system/ram_used", 1550843904, "1.4 GiB"),
        ("gpu/0/pcie_rx", 2048.0, "2.0 KiB/s"),
        ("gpu/1/power", 312000.0, "312 W"),
        ("system/cpu_pct", 12.25, "12.2 %"),
        ("train/step_tokens", 4096.0, "4096"),
        ("memory/gpu0/activations/device", 1024.0, "1.0 KiB"),
        ("train/loss", 4096.0, "4096.00"),
        ("my/ram_used", 12.0, "12.0000"),
        ("train/loss", math.nan, "nan"),
        ("train/loss", None, "—"),
    ],
)
def test_a_value_has_its_unit_where_it_is_known(name: str, value: float | None, shown: str) -> None:
    assert format_value(name, value) == shown


def test_a_unit_that_was_defined_counts() -> None:
    assert format_value("cache", 2048.0, unit="bytes") == "2.0 KiB"
