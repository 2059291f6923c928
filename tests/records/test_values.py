import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochal.errors import UsageError, ValueTypeError
from epochal.journal.line import encode_json
from epochal.records.values import (
    as_pairs,
    is_device_tensor,
    nonfinite_word,
    plain_float,
    plain_int,
    plain_json,
    plain_number,
    single,
    split_nonfinite,
)

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.integers() | st.text(), inner),
    max_leaves=10,
)


@given(st.floats(allow_nan=False) | st.integers())
def test_plain_numbers_pass_unchanged(value: float) -> None:
    assert plain_number(value, name="x") == value
    assert type(plain_number(value, name="x")) is type(value)


@given(st.floats(width=32))
def test_a_numpy_number_is_the_same_plain_one(value: float) -> None:
    number = plain_number(np.float32(value), name="x")
    assert type(number) is float
    assert number == value or math.isnan(value)


@pytest.mark.parametrize("value", [3.0, np.int8(3), Decimal(3), True + 2])
def test_whole_numbers_in_any_form_are_integers(value: Any) -> None:
    assert plain_int(value, name="x") == 3
    assert type(plain_int(value, name="x")) is int


@pytest.mark.parametrize("value", [0.5, math.nan, math.inf])
def test_a_fraction_is_no_whole_number(value: float) -> None:
    with pytest.raises(UsageError, match=r"count=.* is not a whole number"):
        plain_int(value, name="count")


@pytest.mark.parametrize("value", ["1", None, [1], {}, object(), np.zeros(2), 1j, np.array("x")])
def test_what_is_no_number_is_named(value: Any) -> None:
    with pytest.raises(ValueTypeError, match="'x'"):
        plain_float(value, name="x")


@given(st.floats())
def test_words_for_numbers_beyond_json_go_both_ways(value: float) -> None:
    word = nonfinite_word(value)
    if word is None:
        assert math.isfinite(value)
    else:
        assert float(word) == value or math.isnan(value)


def test_splitting_leaves_the_given_mapping_alone() -> None:
    values = {"a": math.inf, "b": 1, "c": "text"}
    assert split_nonfinite(values) == ({"a": None, "b": 1, "c": "text"}, {"a": "inf"})
    assert values["a"] == math.inf


@pytest.mark.parametrize("pairs", [{"a": 1}, [("a", 1)], (["a", 1],), iter([("a", 1)])])
def test_pairs_may_come_in_any_container(pairs: Any) -> None:
    assert as_pairs(pairs, argument="metrics") == {"a": 1}


@pytest.mark.parametrize("pairs", ["ab", 3, [1], [("a",)], [("a", 1, 2)], None])
def test_what_are_no_pairs_is_named(pairs: Any) -> None:
    with pytest.raises(ValueTypeError, match="metrics must"):
        as_pairs(pairs, argument="metrics")


@given(anything)
def test_any_value_can_be_made_json(value: Any) -> None:
    if not _has_surrogates(value):
        encode_json(plain_json(value))


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Path("/a"), "/a"),
        (np.float32(0.5), 0.5),
        (np.array([1]), 1),
        (np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
        (np.array([1.5, np.nan]), [1.5, "nan"]),
        (math.nan, "nan"),
        ({1: (2, {3})}, {"1": [2, [3]]}),
        (print, "<built-in function print>"),
    ],
)
def test_what_json_has_no_form_for_becomes_something_readable(value: Any, plain: Any) -> None:
    assert plain_json(value) == plain


def test_a_configuration_that_holds_itself_ends_somewhere() -> None:
    loop: dict[str, Any] = {}
    loop["self"] = loop
    encode_json(plain_json(loop))


def test_a_configuration_that_is_very_deep_or_very_wide_ends_somewhere() -> None:
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"in": deep}
    wide: dict[str, Any] = {}
    for _ in range(64):
        wide = {"a": wide, "b": wide}
    encode_json(plain_json([deep, wide]))


def test_a_value_whose_text_raises_is_named_by_its_type() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise ValueError("no text")

    assert plain_json({"a": Broken(), "b": 1, "c": 10**5000}) == {
        "a": "<Broken>",
        "b": 1,
        "c": "<int>",
    }


@pytest.mark.slow  # loads torch
def test_only_a_tensor_on_an_accelerator_would_be_waited_for() -> None:
    torch = pytest.importorskip("torch")
    assert not is_device_tensor(torch.tensor(1.0))
    assert not is_device_tensor(1.0)


def _has_surrogates(value: Any) -> bool:
    return any("\ud800" <= letter <= "\udfff" for letter in str(value)) or "\\ud" in repr(value)


@given(st.floats(min_value=1e-30, max_value=1e30))
def test_a_number_of_32_bits_has_seven_digits_and_stays_as_it_is(value: float) -> None:
    nearest = single(value)
    assert nearest == pytest.approx(value, rel=1e-7)
    assert single(nearest) == nearest


def test_what_is_too_large_for_32_bits_is_kept() -> None:
    assert single(1e300) == 1e300
    assert math.isinf(single(math.inf))
    assert math.isnan(single(math.nan))
