from typing import Any

from epochal.health.rules.data_answer import DataAnswer
from epochal.records import Record
from tests.health.curve_records import falling, steps
from tests.health.data_records import epoch
from tests.health.machine_records import opened, updated

TOLD = {"samples": 640, "classes": 4, "features": [7, 9]}


def read(number: int = 1, *, size: int = 1000, **fields: Any) -> Record:
    figures = {"targets": {"samples": 640, "classes": 4, "entropy": 1.38}, **fields}
    return epoch(number, range(8), dataset_samples=size, **figures)


def test_features_with_one_value_for_each_label_are_a_warning() -> None:
    (found,) = opened(DataAnswer, [read(telling=TOLD)])
    assert found.severity == "warning"
    assert "The answer is among the inputs of 'train': values 7, 9 of each sample" in found.sentence
    assert "in 640 samples of 4 labels" in found.sentence
    assert found.evidence["features"] == "7, 9"


def test_few_different_samples_may_agree_by_chance() -> None:
    assert opened(DataAnswer, [read(size=80, telling=TOLD)]) == []


def test_a_sample_that_contradicts_closes_it() -> None:
    said = updated(DataAnswer, [read(telling=TOLD), read(2)])
    assert [one.state for one in said] == ["open", "closed"]


def test_records_without_the_figures_say_nothing() -> None:
    assert opened(DataAnswer, [epoch(1, range(8)), read(telling=3), read(telling={})]) == []


def test_an_answer_that_is_hard_to_find_is_a_task() -> None:
    records = [*steps([2.08] * 150), read(telling=TOLD), *steps([0.1] * 300)[150:]]
    assert opened(DataAnswer, [*records, read(2, telling=TOLD)]) == []
    assert len(opened(DataAnswer, [*steps(falling(150)), read(telling=TOLD)])) == 1
