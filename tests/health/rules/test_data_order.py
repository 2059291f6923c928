import random

from epochal.health.rules.data_order import DataOrder
from tests.health.data_records import epoch
from tests.health.machine_records import opened, updated


def shuffled(seed: int) -> list[int]:
    return random.Random(seed).sample(range(100), 100)


def test_the_same_order_again_is_found() -> None:
    records = [epoch(number, range(100), sampler="SequentialSampler") for number in (1, 2, 3)]
    (found,) = opened(DataOrder, records)
    assert found.severity == "warning"
    assert "Epoch 2 of 'train' has the order of epoch 1" in found.sentence
    assert "shuffle=True" in found.advice


def test_a_distributed_sampler_needs_the_epoch() -> None:
    records = [epoch(number, shuffled(0), sampler="DistributedSampler") for number in (1, 2)]
    assert "set_epoch" in opened(DataOrder, records)[0].advice


def test_a_stream_in_its_order_is_a_note() -> None:
    records = [epoch(number, range(100), has_indices=False) for number in (1, 2)]
    assert [found.severity for found in opened(DataOrder, records)] == ["info"]


def test_other_orders_are_no_fault_and_end_one() -> None:
    assert opened(DataOrder, [epoch(number, shuffled(number)) for number in range(1, 9)]) == []
    orders = [shuffled(1), shuffled(1), shuffled(2)]
    found = updated(DataOrder, [epoch(n, order) for n, order in enumerate(orders, 1)])
    assert [finding.state for finding in found] == ["open", "closed"]


def test_an_evaluation_keeps_its_order() -> None:
    assert opened(DataOrder, [epoch(n, range(100), name="eval") for n in (1, 2)]) == []


def test_a_full_batch_has_no_order() -> None:
    records = [epoch(n, range(100), orders=[[1, 100, 7]]) for n in (1, 2)]
    assert opened(DataOrder, records) == []
