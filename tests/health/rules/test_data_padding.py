from epochal.health.rules.data_padding import DataPadding
from tests.health.data_records import epoch
from tests.health.machine_records import opened


def test_much_padding_is_a_note() -> None:
    lengths = {"sequences": 64, "min": 1, "mean": 12.5, "max": 128, "up_to": {"16": 64}}
    record = epoch(1, range(64), batches=8, padding=0.75, lengths=lengths)
    (found,) = opened(DataPadding, [record])
    assert found.severity == "info"
    assert found.sentence == "75 % of the positions of 'train' are padding."
    assert found.evidence["mean length"] == 12.5


def test_some_padding_is_no_fault() -> None:
    assert opened(DataPadding, [epoch(1, range(64), batches=8, padding=0.3)]) == []
