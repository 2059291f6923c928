from typing import Any

from epochal.health.rules.data_leak import DataLeak
from tests.health.data_records import digest, epoch
from tests.health.machine_records import opened, updated


def test_evaluation_samples_of_the_training_are_found_and_named() -> None:
    (found,) = opened(
        DataLeak, [epoch(1, range(1000)), epoch(1, [5, 6, 7, *range(2000, 2097)], name="eval")]
    )
    assert (found.severity, found.series) == ("warning", "data/eval")
    assert found.evidence["indices"] == "5, 6, 7"
    assert found.evidence["share"] == 0.03


def test_an_evaluation_on_training_data_is_an_error() -> None:
    (found,) = opened(DataLeak, [epoch(1, range(100), name="val"), epoch(1, range(100))])
    assert found.severity == "error"
    assert found.series == "data/val"


def test_other_samples_are_no_leak() -> None:
    records = [epoch(1, range(100)), epoch(1, range(100, 200), name="test")]
    assert opened(DataLeak, records) == []


def test_two_copies_are_no_leak() -> None:
    records = [epoch(1, range(100)), epoch(1, [0, 1, *range(200, 240)], name="test")]
    assert opened(DataLeak, records) == []


def test_equal_indices_of_other_datasets_say_nothing() -> None:
    other = epoch(1, range(100), name="eval", hashes=list(range(10**6, 10**6 + 100)))
    assert opened(DataLeak, [epoch(1, range(100)), other]) == []


def test_equal_indices_of_one_dataset_are_found_whatever_the_content() -> None:
    other = epoch(1, range(50), name="eval", hashes=[], dataset="train-1")
    (found,) = opened(DataLeak, [epoch(1, range(100)), other])
    assert "by their index" in found.sentence


def test_sets_kept_by_different_bits_are_compared_where_both_keep() -> None:
    train = epoch(1, range(4096))
    train["hashes"] = [one for one in train["hashes"] if one % 8 == 0]
    train |= {"hash_bits": 3, "hash_indices": [None] * len(train["hashes"]), "dataset": "other"}
    (found,) = opened(DataLeak, [train, epoch(1, range(1000), name="eval")])
    assert found.evidence["share"] == 1.0


def test_copies_that_chance_explains_are_no_leak() -> None:
    pairs = [n % 40 for n in range(400)]  # ten samples of each content
    train = epoch(1, range(400), hashes=[digest([pair]) for pair in pairs])
    other = epoch(1, range(60), name="eval", hashes=[digest([n % 42]) for n in range(60)])
    assert opened(DataLeak, [train, other]) == []


def test_a_few_copies_in_the_training_explain_no_leak() -> None:
    train = epoch(1, range(400), hashes=[digest([n % 380]) for n in range(400)])
    (found,) = opened(DataLeak, [train, epoch(1, range(100), name="eval")])
    assert found.severity == "error"


def test_sets_that_were_thinned_out_do_not_end_a_leak() -> None:
    def thinned(number: int) -> dict[str, Any]:
        few = epoch(number, range(100))
        few["hashes"] = [one for one in few["hashes"] if one % 32 == 0]
        return few | {"hash_bits": 5, "hash_indices": [None] * len(few["hashes"]), "dataset": "x"}

    whole = [epoch(1, range(100)), epoch(1, range(100), name="eval")]
    said = updated(DataLeak, [*whole, *map(thinned, range(2, 12))])
    assert [finding.state for finding in said] == ["open"]
