from epochal.health.rules.data_values import DataValues
from tests.health.data_records import epoch
from tests.health.machine_records import opened


def test_samples_that_are_not_finite_are_named() -> None:
    record = epoch(1, range(100), nonfinite_samples=1, nonfinite_at=[17])
    (found,) = opened(DataValues, [record])
    assert (found.severity, found.evidence["indices"]) == ("warning", "17")
    assert found.sentence.startswith("1 sample has values that are not finite in epoch 1")


def test_many_constant_samples_are_found() -> None:
    record = epoch(1, range(100), constant_samples=10, constant_at=[1, 2])
    (found,) = opened(DataValues, [record])
    assert (found.evidence["share"], found.severity) == (0.1, "info")
    record = epoch(1, range(100), constant_samples=60, constant_at=[1, 2])
    assert [one.severity for one in opened(DataValues, [record])] == ["warning"]


def test_some_constant_samples_are_in_many_datasets() -> None:
    assert opened(DataValues, [epoch(1, range(100), constant_samples=2, constant_at=[1, 2])]) == []
    assert opened(DataValues, [epoch(1, range(60), constant_samples=9, constant_at=[1, 2])]) == []


def test_the_share_is_that_of_samples_that_were_read() -> None:
    record = epoch(1, range(100), read_batches=1, constant_samples=10, constant_at=[1])
    assert opened(DataValues, [record])[0].evidence["share"] == 0.4
