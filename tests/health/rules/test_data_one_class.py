from epochal.health.rules.data_one_class import DataOneClass
from epochal.records import Record
from tests.health.data_records import epoch
from tests.health.machine_records import opened


def labelled(labels: dict[str, int], of_one_class: int, *, batches: int = 20) -> Record:
    return epoch(
        1,
        range(sum(labels.values())),
        batches=batches,
        labels=labels,
        labelled_batches=batches,
        one_class_batches=of_one_class,
    )


def test_batches_of_one_class_are_found() -> None:
    (found,) = opened(DataOneClass, [labelled({"0": 200, "1": 200, "2": 200}, 18)])
    assert found.severity == "warning"
    assert "90 % of the batches of 'train' have one class only" in found.sentence


def test_mixed_batches_are_no_fault() -> None:
    assert opened(DataOneClass, [labelled({"0": 200, "1": 200}, 1)]) == []


def test_a_rare_class_leaves_most_batches_with_the_other() -> None:
    assert opened(DataOneClass, [labelled({"0": 599, "1": 1}, 19)]) == []


def test_data_of_one_class_says_nothing() -> None:
    assert opened(DataOneClass, [labelled({"0": 600}, 20)]) == []


def test_sorted_data_is_seen_once_the_next_class_begins() -> None:
    records = [labelled({"0": 300}, 10, batches=10), labelled({"1": 300}, 10, batches=10)]
    assert len(opened(DataOneClass, records)) == 1
