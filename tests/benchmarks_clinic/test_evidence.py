"""The rules on a sample of the clinic's trainings, all of kinds on which they were tuned."""

from pathlib import Path

import pytest

from benchmarks.clinic.verdict import judge_folder

SAMPLE = Path(__file__).parent / "evidence"

pytestmark = pytest.mark.slow


def test_causes_are_named_and_healthy_trainings_are_left_alone() -> None:
    verdict = judge_folder(SAMPLE, jobs=2)
    assert len(verdict.faults) >= 20
    assert verdict.rate("everything", "cause", "advice") >= 0.95
    assert verdict.rate("scalars", "cause", "advice") >= 0.65
    assert verdict.rate("everything", "missed") <= 0.05
    for view in ("everything", "scalars"):
        assert verdict.false(view, "error") == {}
        assert verdict.false(view, "warning") == {}
        assert sum(verdict.false(view, "info").values()) <= 1
    assert verdict.contradicted() == []
