"""The rules on a sample of the clinic's trainings, all of kinds on which they were tuned."""

from pathlib import Path

import pytest

from benchmarks.clinic.verdict import Verdict, judge_folder

SAMPLE = Path(__file__).parent / "evidence"
MOST_BYTES = 5 * 1024**2

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def verdict() -> Verdict:
    return judge_folder(SAMPLE, jobs=2)


def test_the_sample_is_small() -> None:
    assert sum(path.stat().st_size for path in SAMPLE.iterdir()) < MOST_BYTES


def test_causes_are_named(verdict: Verdict) -> None:
    assert len(verdict.faults) >= 20
    assert verdict.rate("everything", "cause", "advice") >= 0.95
    assert verdict.rate("scalars", "cause", "advice") >= 0.65
    assert verdict.rate("everything", "missed") <= 0.05


def test_healthy_trainings_get_no_errors_and_no_warnings(verdict: Verdict) -> None:
    for view in ("everything", "scalars"):
        assert verdict.false(view, "error") == {}
        assert verdict.false(view, "warning") == {}
        assert sum(verdict.false(view, "info").values()) <= 1


def test_no_sentence_contradicts_its_figures(verdict: Verdict) -> None:
    assert verdict.contradicted() == []
