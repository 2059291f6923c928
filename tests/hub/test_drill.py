"""Nothing is lost or doubled when things go wrong at random; the long drill is a benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.hub.drill import Outcome, run_drill
from benchmarks.hub.faults import SmallDisk

pytestmark = pytest.mark.slow


def drill(place: Path, faults: Sequence[str], *, num_faults: int) -> Outcome:
    outcome = run_drill(
        place,
        num_lines=40_000,
        num_runs=4,
        num_faults=num_faults,
        faults=faults,
        bytes_per_s=100_000,
    )
    assert (outcome.num_lost, outcome.num_doubled) == (0, 0)
    return outcome


def test_nothing_is_lost_when_both_sides_are_killed(tmp_path: Path) -> None:
    outcome = drill(tmp_path, ["kill"], num_faults=5)
    assert outcome.faults["kill"] + outcome.faults["kill shipper"] == 5


def test_nothing_is_lost_or_doubled_over_a_bad_network(tmp_path: Path) -> None:
    assert drill(tmp_path, ["cut", "repeat"], num_faults=3).faults["cut"] == 3


def test_a_hub_with_another_clock_or_yesterdays_copy_catches_up(tmp_path: Path) -> None:
    outcome = drill(tmp_path, ["skew", "restore"], num_faults=4)
    assert outcome.faults == {"skew": 2, "copy": 1, "restore": 1}


def test_nothing_is_lost_when_the_disk_is_full(tmp_path: Path) -> None:
    try:
        SmallDisk(tmp_path / "probe", size=1 << 20).close()
    except OSError as error:
        pytest.skip(str(error))
    assert drill(tmp_path, ["full"], num_faults=3).faults["full"] == 3
