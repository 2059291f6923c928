from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochal.errors import MetricNotFoundError
from epochal.query.formula import parse_formula
from epochal.records import Axis
from epochal.series.formula import evaluate
from epochal.series.series import Series
from epochal.series.smooth import Smoothing
from tests.series.points import points


class Run:
    """A run that was created at second 0 and has the series of the test."""

    created = 0.0

    def __init__(self, **series: Series) -> None:
        self._series = series

    def length(self, axis: Axis) -> int | None:
        return None

    def series(self, name: str, *, rank: int = 0, axis: Axis | None = None) -> Series:
        if name.replace("/", "_") not in self._series:
            raise MetricNotFoundError(name)
        return self._series[name.replace("/", "_")]


A = points([0, 1, 2, 4], [1.0, 2.0, 4.0, 8.0])
RUN = Run()
B = points([1, 2, 3, 4], [10.0, 0.0, 5.0, math.inf])


def values(text: str, run: Run = RUN, **operands: Series) -> dict[int, float]:
    formula = parse_formula(text)
    assert formula is not None
    result = evaluate(formula, operands or {"a": A, "b": B}, run)
    assert result.name == text
    return dict(zip(result.steps.tolist(), result.floats.tolist(), strict=True))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a + b", {1: 12, 2: 4, 4: math.inf}),
        ("b - a - 1", {1: 7, 2: -5, 4: math.inf}),
        ("a - (b - 1)", {1: -7, 2: 5, 4: -math.inf}),
        ("2 * a + 1", {0: 3, 1: 5, 2: 9, 4: 17}),
        ("1 + a / 2", {0: 1.5, 1: 2, 2: 3, 4: 5}),
        ("a / b", {1: 0.2, 2: math.inf, 4: 0}),
        ("-a ** 2", {0: -1, 1: -4, 2: -16, 4: -64}),
        ("2 ** -a", {0: 0.5, 1: 0.25, 2: 0.0625, 4: 2**-8}),
        ("2 ** 3 ** a", {0: 8, 1: 512, 2: 2**81, 4: math.inf}),
        ("- - a", {0: 1, 1: 2, 2: 4, 4: 8}),
        ('`a` - "b"', {1: -8, 2: 4, 4: -math.inf}),
        ("min(a, 3)", {0: 1, 1: 2, 2: 3, 4: 3}),
        ("max(a, b, 5)", {1: 10, 2: 5, 4: math.inf}),
        ("min(b)", {1: 10, 2: 0, 3: 0, 4: 0}),
        ("max(a - 3)", {0: -2, 1: -1, 2: 1, 4: 5}),
        ("diff(a)", {1: 1, 2: 2, 4: 4}),
        ("cumsum(b)", {1: 10, 2: 10, 3: 15, 4: math.inf}),
        ("log10(a * 0 + 100)", {0: 2, 1: 2, 2: 2, 4: 2}),
        ("abs(1 - sqrt(a * a))", {0: 0, 1: 1, 2: 3, 4: 7}),
        ("step + a", {0: 1, 1: 3, 2: 6, 4: 12}),
        ("a / time", {0: math.inf, 1: 2, 2: 2, 4: 2}),
        ("1e3 * a", {0: 1e3, 1: 2e3, 2: 4e3, 4: 8e3}),
    ],
)
def test_values_are_those_at_common_steps(text: str, expected: Mapping[int, float]) -> None:
    operands = {name: {"a": A, "b": B}[name] for name in (parse_formula(text) or _none()).metrics}
    assert values(text, Run(), **operands) == pytest.approx(expected)


def _none() -> Any:
    raise AssertionError("this is a formula")


def test_a_logarithm_of_a_negative_number_is_not_finite() -> None:
    found = values("log(a - 2)", a=A)
    assert math.isnan(found[0])
    assert found[1] == -math.inf
    assert found[2] == pytest.approx(math.log(2))


def test_averages_are_those_of_the_page() -> None:
    at = A.steps.tolist()
    for text, smoothing in (
        ("ema(a, 0.9)", Smoothing("ema", 0.9)),
        ("mean(a, 3)", Smoothing("mean", 3)),
    ):
        expected = smoothing.apply(A.floats, A.at)
        assert values(text, a=A) == dict(zip(at, expected.tolist(), strict=True))
    # Over every point of the metric, and then at the steps in common.
    averaged = dict(zip(at, Smoothing("ema", 0.5).apply(A.floats, A.at).tolist(), strict=True))
    assert values("ema(a, 0.5) - b")[1] == averaged[1] - 10


def test_axes_alone_are_evaluated_where_they_were_recorded() -> None:
    tokens = points([1, 2, 4], [100.0, 100.0, 200.0])
    run = Run(train_step_tokens=tokens)
    assert values("tokens / time", run, **{"train/step_tokens": tokens}) == {1: 100, 2: 100, 4: 100}
    with pytest.raises(MetricNotFoundError, match="`tokens` cannot be used"):
        values("a / tokens", a=A)


def test_the_time_of_a_point_is_when_its_last_operand_was_logged() -> None:
    later = Series("b", "step", 0, B.steps, B.times + 100, B.values)
    formula = parse_formula("a - b")
    assert formula is not None
    assert evaluate(formula, {"a": A, "b": later}, Run()).times.tolist() == [101, 102, 104]


def test_readings_by_time_are_joined_at_equal_times() -> None:
    none, times = np.full(4, -1), np.array([1.0, 2.0, 2.0, 3.0])
    used = Series("used", "time", 0, none, times, np.array([1.0, 2.0, 3.0, 4.0]))
    free = Series("free", "time", 0, none[:2], times[[0, 3]], np.array([10.0, 40.0]))
    formula = parse_formula("used / (used + free)")
    assert formula is not None
    result = evaluate(formula, {"used": used, "free": free}, Run())
    assert result.at.tolist() == [1, 3]
    assert result.floats == pytest.approx([1 / 11, 4 / 44])


# -- against a plain evaluation -------------------------------------------------------------------

Plain = Callable[[Mapping[str, float]], float]


def _number(value: int) -> tuple[str, Plain]:
    return str(value), lambda _: float(value)


def _name(name: str) -> tuple[str, Plain]:
    return name, lambda at: at[name]


def _joined(parts: tuple[tuple[str, Plain], str, tuple[str, Plain]]) -> tuple[str, Plain]:
    (left, first), operator, (right, second) = parts
    plain = {
        "+": lambda at: first(at) + second(at),
        "-": lambda at: first(at) - second(at),
        "*": lambda at: first(at) * second(at),
    }[operator]
    return f"({left} {operator} {right})", plain


def _negative(part: tuple[str, Plain]) -> tuple[str, Plain]:
    text, plain = part
    return f"-{text}", lambda at: -plain(at)


LEAVES = st.integers(0, 9).map(_number) | st.sampled_from(["a", "b/c", "d-e.f"]).map(_name)
TREES = st.recursive(
    LEAVES,
    lambda inside: (
        st.tuples(inside, st.sampled_from("+-*"), inside).map(_joined) | inside.map(_negative)
    ),
    max_leaves=12,
)
NUMBERS = st.dictionaries(st.integers(0, 9), st.integers(-9, 9), max_size=8)


@given(TREES, st.tuples(NUMBERS, NUMBERS, NUMBERS))
def test_it_computes_what_plain_arithmetic_does(
    tree: tuple[str, Plain], series: tuple[dict[int, int], ...]
) -> None:
    text, plain = f"a + {tree[0]}", tree[1]
    formula = parse_formula(text)
    assert formula is not None
    every = dict(zip(("a", "b/c", "d-e.f"), series, strict=True))
    used = {name: dict(sorted(every[name].items())) for name in formula.metrics}
    common = set.intersection(*(set(one) for one in used.values()))
    expected = {
        step: used["a"][step] + plain({name: float(one[step]) for name, one in used.items()})
        for step in sorted(common)
    }
    operands = {name: points(list(one), list(one.values())) for name, one in used.items()}
    assert values(text, Run(), **operands) == expected
