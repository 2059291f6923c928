from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochal.errors import MetricNotFoundError
from epochal.query.formula import MAX_CHARACTERS, MAX_OPERANDS, parse_formula


def test_a_metric_keeps_its_goal_where_less_stays_less() -> None:
    formulas = {text: parse_formula(text) for text in GOALS}
    goals = {text: formula and formula.has_goal_of_metric for text, formula in formulas.items()}
    assert goals == GOALS


GOALS = {
    "ema(a, 0.9)": True,
    "log(min(a))": True,
    "-a": False,
    "log(step)": False,
    "a - b": False,
    "a / time": False,
}


@pytest.mark.parametrize(
    "name", ["loss", "train/loss", "a-b", "a/b", "eval/*", "*", "acc (top-1)", "a, b", "x+", "µ/β"]
)
def test_a_name_is_no_formula(name: str) -> None:
    assert parse_formula(name) is None


@pytest.mark.parametrize(
    ("text", "sentence", "column"),
    [
        ("a -b", "expected an operator with spaces around it, as in `a - b`; there is '-' here", 2),
        ("(a)/2", "expected an operator with spaces around it, as in `a - b`; there is '/2'", 3),
        ("a b - c", "expected an operator with spaces around it, as in `a - b`; there is 'b'", 2),
        ('a - log "(" a)', "expected an operator", 8),
        ("a - ", "expected a metric or a number; the formula ends here", 3),
        ("a - * b", "expected a metric or a number; there is '*' here", 4),
        ("(a - b", "expected ')'; the formula ends here", 6),
        ("min(a", "expected ',' or ')'; the formula ends here", 5),
        ("a - b)", "this parenthesis was not opened", 5),
        ("a - b, c", "only functions have commas", 5),
        ("a+b - c", "write operators with spaces around them", 0),
        ("eval/* - 1", "write operators with spaces", 0),
        ("a - `b", "expected a closing `", 4),
        ("smooth(a)", "there is no function 'smooth'; there are ema, mean, abs", 0),
        ("ema(a)", "write a metric and a weight from 0 to below 1, as in `ema(loss, 0.9)`", 0),
        ("ema(a, 1)", "a weight from 0 to below 1", 0),
        ("ema(a, b)", "a weight from 0 to below 1", 0),
        ("mean(a, 2.5)", "a number of points up to 100000, as in `mean(loss, 25)`", 0),
        ("mean(a, 1e9)", "a number of points", 0),
        ("1 + log(a, b)", "write a metric, as in `log(loss)`", 4),
        ("diff(2)", "write a metric, as in `diff(loss)`", 0),
        ("ema(2, 0.5)", "write a metric and a weight", 0),
        (" + ".join("a" * (MAX_OPERANDS + 1)), f"at most {MAX_OPERANDS} operands", 128),
        ("(" * 400, "a formula is nested at most 20 times", 21),
        ("- " * 200 + "a", "nested at most 20 times", 42),
        ("abs(" * 100 + "a", "nested at most 20 times", 84),
    ],
)
def test_a_mistake_is_shown_with_a_mark_under_it(text: str, sentence: str, column: int) -> None:
    with pytest.raises(MetricNotFoundError) as failed:
        parse_formula(text)
    first, shown, mark = str(failed.value).split("\n")
    assert sentence in first
    assert (shown, mark) == (f"    {text}", f"    {' ' * column}^")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("1 + 1", "a formula needs the name of a metric"),
        ("a + " * 150, f"a formula has at most {MAX_CHARACTERS} characters, not 600"),
    ],
)
def test_a_formula_has_a_metric_and_is_short(text: str, sentence: str) -> None:
    with pytest.raises(MetricNotFoundError, match=sentence):
        parse_formula(text)


@given(st.text(alphabet='ab1.-+*/(), `"ema', max_size=MAX_CHARACTERS))
def test_no_text_breaks_the_parser(text: str) -> None:
    with suppress(MetricNotFoundError):
        parse_formula(text)
