from epochal.health.rules.data_drift import DataDrift
from tests.health.data_records import epoch
from tests.health.machine_records import opened


def test_inputs_that_move_are_found() -> None:
    records = [epoch(1, range(100), mean=0.0, std=1.0), epoch(2, range(100), mean=0.9, std=1.0)]
    (found,) = opened(DataDrift, records)
    assert "the mean of the inputs is 0.9" in found.sentence


def test_inputs_of_another_scale_are_found() -> None:
    records = [epoch(1, range(100), mean=0.0, std=1.0), epoch(2, range(100), mean=0.0, std=255.0)]
    (found,) = opened(DataDrift, records)
    assert "standard deviation" in found.sentence
    assert found.severity == "warning"


def test_a_curriculum_is_only_noted() -> None:
    records = [epoch(1, range(100), mean=0.0, std=1.0), epoch(2, range(100), mean=1.5, std=3.0)]
    assert [found.severity for found in opened(DataDrift, records)] == ["info"]


def test_other_labels_are_found() -> None:
    records = [
        epoch(1, range(400), labels={"0": 200, "1": 200}),
        epoch(2, range(400), labels={"0": 390, "1": 10}),
    ]
    assert "48 % of the labels are others" in opened(DataDrift, records)[0].sentence


def test_chance_is_no_drift() -> None:
    records = [
        epoch(1, range(100), mean=0.0, std=1.0, labels={"0": 45, "1": 55}),
        epoch(2, range(100), mean=0.1, std=1.1, labels={"0": 60, "1": 40}),
    ]
    assert opened(DataDrift, records) == []


def test_parts_of_an_epoch_count_together() -> None:
    records = [
        epoch(1, range(100), mean=0.0, std=1.0, ended=False),
        epoch(1, range(100), mean=2.0, std=1.0),
        epoch(2, range(200), mean=1.0, std=1.4),
    ]
    assert opened(DataDrift, records) == []


def test_an_epoch_that_was_left_early_is_not_compared() -> None:
    records = [epoch(1, range(1000), mean=0.0, std=1.0), epoch(2, range(100), mean=5.0, std=1.0)]
    assert opened(DataDrift, records) == []
