from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from epochal.errors import UsageError
from epochal.recipes.gpt2.data import Batch, WindowBatches
from epochal.recipes.gpt2.place import Place
from epochal.recipes.gpt2.shards import Shard

CPU = torch.device("cpu")


def shards(*lengths: int) -> list[Shard]:
    """Tokens that tell where they are from."""
    starts = np.cumsum([0, *lengths])
    return [
        Shard(f"{index}.npy", np.arange(start, start + length, dtype=np.uint16))
        for index, (start, length) in enumerate(zip(starts, lengths, strict=False))
    ]


def batches(
    *lengths: int, rank: int = 0, world: int = 1, size: int = 2, seed: int = 1, context: int = 4
) -> WindowBatches:
    return WindowBatches(
        shards(*lengths),
        shards(41),
        context_length=context,
        batch_size=size,
        seed=seed,
        place=Place(CPU, rank, rank, world),
        block_windows=3,
    )


def firsts(batch: Batch) -> list[int]:
    return [int(row[0]) for row in batch.inputs]


def test_targets_are_the_inputs_one_token_on() -> None:
    batch = batches(41).next()
    assert torch.equal(batch.inputs[:, 1:], batch.targets[:, :-1])
    assert batch.inputs.shape == batch.targets.shape == (2, 4)


@given(
    lengths=st.lists(st.integers(6, 60), min_size=1, max_size=4),
    world=st.integers(1, 3),
    size=st.integers(1, 3),
)
def test_an_epoch_has_every_window_once_whatever_the_ranks(
    lengths: list[int], world: int, size: int
) -> None:
    num_windows = sum((length - 1) // 4 for length in lengths)
    num_batches = num_windows // (world * size)
    if num_batches == 0:
        return
    seen: list[int] = []
    for rank in range(world):
        mine = batches(*lengths, rank=rank, world=world, size=size)
        for _ in range(num_batches):
            seen += firsts(mine.next())
            assert mine.epoch == 0
        mine.next()
        assert mine.epoch == 1
    assert len(seen) == len(set(seen)) == num_batches * world * size


def test_epochs_have_different_orders_and_seeds_too() -> None:
    one, other = batches(81), batches(81, seed=2)
    first = [firsts(one.next()) for _ in range(10)]
    second = [firsts(one.next()) for _ in range(10)]
    assert sorted(chain(*first)) == sorted(chain(*second))
    assert first != second
    assert first != [firsts(other.next()) for _ in range(10)]


@pytest.mark.parametrize("after", [0, 3, 9, 10, 14])
def test_a_state_goes_on_where_it_was_taken(after: int) -> None:
    one, other = batches(41, 42), batches(41, 42, seed=99)
    for _ in range(after):
        one.next()
    other.load_state_dict(one.state_dict())
    for _ in range(20):
        assert firsts(one.next()) == firsts(other.next())


def test_the_order_of_the_epoch_is_in_the_state() -> None:
    state = batches(41, 42).state_dict()
    assert sorted(state["order"]) == list(range(8))  # 10 windows each, in blocks of 3
    assert state["order"] != list(range(8))


def test_other_data_is_refused() -> None:
    state = batches(41, 42).state_dict()
    for other in (batches(41, 43), batches(42, 41), batches(41, 42, context=5)):
        with pytest.raises(UsageError, match="the data is not what it was"):
            other.load_state_dict(state)


def test_validation_is_the_same_every_time_and_shared_out() -> None:
    ranks = [batches(81, rank=rank, world=3) for rank in range(3)]
    shares = [[firsts(b) for b in ranks[rank].validation(100)] for rank in range(3)]
    assert sorted(chain(*chain(*shares))) == list(range(0, 40, 4))
    assert [firsts(b) for b in ranks[0].validation(100)] == shares[0]
    assert len(list(ranks[0].validation(1))) == 1


def test_too_little_data_names_the_flags() -> None:
    with pytest.raises(UsageError, match="10 windows of --context_length 4: too few for --mini"):
        batches(41, size=6, world=2)


def test_a_batch_knows_what_all_ranks_read() -> None:
    batch = batches(81, world=2).next()
    assert (batch.num_targets, batch.all_targets, batch.all_tokens) == (8, 16, 16)
