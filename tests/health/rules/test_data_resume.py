from typing import Any

from epochal.health.rules.data_resume import DataResume
from epochal.records import Record
from tests.health.data_records import epoch
from tests.health.machine_records import START, opened


def resume(step: int) -> Record:
    return {"log": "resume", "t": START, "attempt": 2, "step": step}


def after(samples: range, earlier: range, *, at: int = 5) -> Record:
    fields: dict[str, Any] = {
        "earlier": list(earlier),
        "earlier_steps": [at] * len(earlier),
        "earlier_bits": 0,
        "earlier_by": "index",
    }
    return {**epoch(1, samples), **fields}


def test_an_epoch_that_begins_again_is_found() -> None:
    (found,) = opened(DataResume, [resume(10), after(range(100), range(90))])
    assert found.severity == "warning"
    assert "90 % of the samples" in found.sentence
    assert found.evidence["common"] == 90


def test_a_part_of_an_epoch_is_a_note() -> None:
    (found,) = opened(DataResume, [resume(10), after(range(100), range(30))])
    assert found.severity == "info"


def test_an_epoch_that_goes_on_is_no_fault() -> None:
    assert opened(DataResume, [resume(10), after(range(50, 100), range(50))]) == []


def test_steps_that_are_made_again_have_the_same_samples() -> None:
    assert opened(DataResume, [resume(10), after(range(100), range(90), at=12)]) == []
