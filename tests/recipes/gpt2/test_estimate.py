from __future__ import annotations

import re
from pathlib import Path

import pytest

from epochal.recipes.gpt2.estimate import evaluations_of, record_bytes
from epochal.recipes.gpt2.flags import Flags

ROOT = Path(__file__).parents[3]
MEASURED = (ROOT / "benchmarks" / "gpt2_disk.txt").read_text(encoding="utf-8")
# Of the 124M model.
NUM_TENSORS = 148


def measured(name: str) -> float:
    found = re.search(rf"^{name} +([\d.]+) MB$", MEASURED, flags=re.MULTILINE)
    assert found is not None
    return float(found[1]) * 1e6


def test_the_whole_run_takes_what_was_measured() -> None:
    record, board = record_bytes(Flags(), num_tensors=NUM_TENSORS)
    assert record == pytest.approx(measured("sealed"), rel=0.05)
    assert board == pytest.approx(measured("event file of Epochal's sink"), rel=0.05)


def test_the_record_of_the_whole_run_is_within_8_mb_and_the_guide_says_so() -> None:
    assert measured("sealed") <= 8e6
    guide = (ROOT / "docs" / "guides" / "gpt2.md").read_text(encoding="utf-8")
    assert f"| {measured('sealed') / 1e6:.1f} MB" in guide


def test_without_histograms_it_is_smaller() -> None:
    with_them, _ = record_bytes(Flags(), num_tensors=NUM_TENSORS)
    without, _ = record_bytes(Flags(histogram_freq=0), num_tensors=NUM_TENSORS)
    assert without < with_them


@pytest.mark.parametrize(("steps", "expected"), [(1, 2), (250, 2), (251, 3), (500, 3)])
def test_the_start_and_the_end_are_judged(steps: int, expected: int) -> None:
    assert evaluations_of(Flags(max_steps=steps)) == expected
