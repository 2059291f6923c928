from __future__ import annotations

from collections import Counter, OrderedDict, deque
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from epochal.errors import FormatError
from epochal.torch.checkpoint.state_tree import packed, unpacked

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.binary(),
    st.complex_numbers(),
)
KEYS = st.one_of(st.text(), st.integers(), st.booleans(), st.tuples(st.integers(), st.text()))
TREES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner), st.tuples(inner, inner), st.dictionaries(KEYS, inner), st.sets(KEYS)
    ),
    max_leaves=12,
)


def again(value: Any) -> Any:
    text, tensors = packed(value, name="x")
    return unpacked(text, tensors, label="x")


@given(TREES)
def test_any_tree_of_plain_values_comes_back(tree: Any) -> None:
    found = again(tree)
    assert type(found) is type(tree)
    assert repr(found) == repr(tree) or found == tree


def test_tensors_and_arrays_are_kept_apart_under_their_places() -> None:
    tree = {"a": [torch.ones(2, dtype=torch.bfloat16)], 1: np.arange(3), "1": np.float32(0.5)}
    text, tensors = packed(tree, name="x")
    assert sorted(tensors) == ["x.1", "x.1'", "x.a.0"]
    found = unpacked(text, tensors, label="x")
    assert found["a"][0].dtype == torch.bfloat16
    assert found[1].tolist() == [0, 1, 2]
    assert found["1"] == np.float32(0.5)
    assert type(found["1"]) is np.float32


@pytest.mark.parametrize(
    "value",
    [
        Counter({2: 1, 5: 3}),
        deque([1, 2], maxlen=2),
        frozenset({1}),
        torch.float16,
        torch.device("cuda", 1),
        torch.Size([2, 3]),
        OrderedDict(a=1),
        {"$tensor": "not one of ours"},
        2**200,
        -0.0,
    ],
)
def test_rarer_kinds_come_back(value: Any) -> None:
    found = again(value)
    assert found == value
    assert repr(found) == repr(value) or isinstance(value, (torch.Size, OrderedDict))


def test_what_needs_code_is_refused_by_its_place() -> None:
    with pytest.raises(TypeError, match=r"x\.a\.1 is function, which a checkpoint cannot hold"):
        packed({"a": [0, lambda: None]}, name="x")
    with pytest.raises(TypeError, match=r"x\.names holds object"):
        packed({"names": np.array([object()])}, name="x")


@pytest.mark.parametrize(
    "text",
    [
        "{",
        '{"$tensor": "nowhere"}',
        '{"$strange": 1}',
        '{"$dtype": "load"}',
        '{"$bytes": "!"}',
        '{"$dict": 3}',
        '{"$device": "moon"}',
        "[" * 100_000,
    ],
)
def test_a_damaged_tree_is_a_sentence(text: str) -> None:
    with pytest.raises(FormatError, match="here holds a state that cannot be read"):
        unpacked(text, {}, label="here")
