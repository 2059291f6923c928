"""Nothing is lost or doubled when the hub and its shippers are killed at random."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.hub.drill import run_drill


@pytest.mark.slow
def test_nothing_is_lost_when_both_sides_are_killed(tmp_path: Path) -> None:
    outcome = run_drill(tmp_path, num_lines=120_000, num_runs=6, num_kills=6, bytes_per_s=400_000)
    assert outcome.num_hub_kills + outcome.num_shipper_kills >= 2
    assert (outcome.num_lost, outcome.num_doubled) == (0, 0)
