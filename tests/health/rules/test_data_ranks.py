from epochal.health.rules.data_ranks import DataRanks
from tests.health.data_records import epoch
from tests.health.machine_records import Entry, opened


def test_two_ranks_with_the_same_samples_are_found() -> None:
    entries: list[Entry] = [(rank, epoch(1, range(64))) for rank in (0, 1)]
    (found,) = opened(DataRanks, entries)
    assert "Ranks 0 and 1 train on the same samples: 100 %" in found.sentence
    assert found.evidence["indices"] == "0, 1, 2, 3, 4, 5, 6, 7 and 56 more"


def test_ranks_with_their_own_parts_are_no_fault() -> None:
    entries: list[Entry] = [
        (rank, epoch(number, range(rank, 256, 4))) for number in (1, 2) for rank in range(4)
    ]
    assert opened(DataRanks, entries) == []


def test_the_same_samples_in_another_epoch_are_no_fault() -> None:
    entries: list[Entry] = [(0, epoch(1, range(64))), (1, epoch(2, range(64)))]
    assert opened(DataRanks, entries) == []


def test_equal_indices_of_other_content_are_no_fault() -> None:
    other = epoch(1, range(64), hashes=list(range(10**6, 10**6 + 64)))
    assert opened(DataRanks, [(0, epoch(1, range(64))), (1, other)]) == []


def test_an_evaluation_may_be_the_same_everywhere() -> None:
    entries: list[Entry] = [(rank, epoch(1, range(64), name="eval")) for rank in (0, 1)]
    assert opened(DataRanks, entries) == []
