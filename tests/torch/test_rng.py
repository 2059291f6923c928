from __future__ import annotations

import array
import collections
import copy
import json
import math
import statistics
from collections.abc import MutableSequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from epochal.torch import Rng
from epochal.torch.rng import splitmix64

# From the authors' reference implementations, as published with several ports of them.
XOSHIRO_FROM_1_2_3_4 = [
    41943041,
    58720359,
    3588806011781223,
    3591011842654386,
    9228616714210784205,
    9973669472204895162,
    14011001112246962877,
    12406186145184390807,
    15849039046786891736,
    10450023813501588000,
]
SPLITMIX_FROM_1234567 = [
    6457827717110365317,
    3203168211198807973,
    9817491932198370423,
    4593380528125082431,
    16408922859458223821,
]


def test_the_numbers_are_those_of_xoshiro256_plus_plus() -> None:
    rng = Rng.from_state([1, 2, 3, 4])
    assert [rng.u64() for _ in range(10)] == XOSHIRO_FROM_1_2_3_4


def test_a_seed_is_spread_by_splitmix64() -> None:
    words = splitmix64(1234567)
    assert [next(words) for _ in range(5)] == SPLITMIX_FROM_1234567
    assert Rng(1234567).state() == SPLITMIX_FROM_1234567[:4]


def test_a_seed_determines_the_stream() -> None:
    assert Rng.seed(42) == Rng(42)
    assert Rng(42).u64() != Rng(43).u64()


def test_entropy_gives_another_stream_each_time() -> None:
    assert Rng.from_entropy() != Rng.from_entropy()


def test_a_clone_goes_on_alike_and_apart() -> None:
    rng = Rng(7)
    twin = rng.clone()
    ahead = [rng.u64() for _ in range(3)]
    assert [twin.u64() for _ in range(3)] == ahead
    assert copy.copy(rng) == rng


def test_a_state_travels_as_json() -> None:
    rng = Rng(3)
    rng.f64()
    restored = Rng.from_state(json.loads(json.dumps(rng.state())))
    assert restored.u64() == rng.u64()


@given(st.integers(), st.integers(1, 2**64))
def test_usize_stays_below_its_bound(seed: int, n: int) -> None:
    assert 0 <= Rng(seed).usize(n) < n


@given(st.integers(), st.integers(-1000, 1000), st.integers(1, 1000))
def test_range_stays_within_its_bounds(seed: int, low: int, width: int) -> None:
    assert low <= Rng(seed).range(low, low + width) < low + width


def test_uniform_numbers_lie_below_one_and_fit_their_type() -> None:
    rng = Rng(2)
    floats = [rng.f32() for _ in range(1000)]
    assert all(0 <= number < 1 and number * 2**24 == int(number * 2**24) for number in floats)
    assert statistics.mean(rng.f64() for _ in range(10_000)) == pytest.approx(0.5, abs=0.02)


def test_normal_has_its_mean_and_deviation() -> None:
    rng = Rng(3)
    draws = [rng.normal(2.0, 3.0) for _ in range(10_000)]
    assert statistics.mean(draws) == pytest.approx(2.0, abs=0.1)
    assert statistics.stdev(draws) == pytest.approx(3.0, abs=0.1)
    assert all(map(math.isfinite, draws))


def test_bernoulli_is_as_often_true_as_told() -> None:
    rng = Rng(4)
    assert sum(rng.bernoulli(0.25) for _ in range(10_000)) == pytest.approx(2500, abs=200)
    assert not any(rng.bernoulli(0.0) for _ in range(100))
    assert all(rng.bernoulli(1.0) for _ in range(100))


def listed_order(seed: int, n: int) -> list[int]:
    order = list(range(n))
    Rng(seed).shuffle(order)
    return order


def test_a_seed_shuffles_a_list_the_same_way_in_every_version() -> None:
    assert listed_order(42, 8) == [2, 5, 1, 3, 4, 6, 0, 7]


@pytest.mark.parametrize("shape", [(0,), (1,), (6,), (6, 2), (6, 2, 3)])
def test_shuffle_orders_tensors_and_arrays_like_lists_and_keeps_rows_whole(
    shape: tuple[int, ...],
) -> None:
    tensor = torch.arange(math.prod(shape)).reshape(shape)
    array_ = tensor.numpy().copy()
    expected = tensor[listed_order(3, shape[0])].clone()
    Rng(3).shuffle(tensor)
    Rng(3).shuffle(array_)
    assert torch.equal(tensor, expected)
    assert np.array_equal(array_, expected.numpy())


def test_shuffle_orders_a_view_and_a_parameter_in_place() -> None:
    whole = np.arange(12).reshape(6, 2)
    Rng(3).shuffle(whole[:, 1])
    assert whole[:, 0].tolist() == [0, 2, 4, 6, 8, 10]
    assert whole[:, 1].tolist() == [2 * i + 1 for i in listed_order(3, 6)]
    parameter = torch.nn.Parameter(torch.arange(6.0))
    Rng(3).shuffle(parameter)
    assert parameter.tolist() == listed_order(3, 6)


@pytest.mark.parametrize(
    "items", [collections.deque(range(6)), array.array("i", range(6)), bytearray(range(6))]
)
def test_shuffle_orders_every_mutable_sequence_alike(items: MutableSequence[int]) -> None:
    Rng(3).shuffle(items)
    assert list(items) == listed_order(3, 6)


def test_whole_numbers_of_other_types_are_bounds_too() -> None:
    low: Any = np.int8(0)
    high: Any = torch.tensor(10)
    drawn = Rng(1).usize(high), Rng(1).range(low, high)
    assert drawn == (Rng(1).usize(10),) * 2
    assert all(type(number) is int for number in drawn)


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda rng: rng.usize(0), "n must"),
        (lambda rng: rng.usize(2.5), "n must be a whole number, got 2.5"),
        (lambda rng: rng.range(0, 2.5), "high must be a whole number"),
        (lambda rng: rng.range(5, 5), "n must"),
        (lambda rng: rng.bernoulli(1.5), "p must"),
        (lambda rng: rng.bernoulli(math.nan), "p must"),
        (lambda rng: rng.set_state([0, 0, 0, 0]), "state must"),
        (lambda rng: rng.set_state([1, 2, 3]), "state must"),
        (lambda rng: rng.set_state([1, 2, 3, 2**64]), "state must"),
        (lambda _: Rng(1.5), "seed must"),  # type: ignore[arg-type]
    ],
)
def test_misuse_names_the_argument(call: object, word: str) -> None:
    assert callable(call)
    with pytest.raises((ValueError, TypeError), match=word):
        call(Rng(1))
