"""Formulas over metrics: ``train/loss - eval/loss``, ``ema(loss, 0.9)``, ``tokens / time``.

    sum     = product { ("+" | "-") product }          an operator has spaces around it
    product = sign { ("*" | "/") sign }
    sign    = "-" sign | power
    power   = operand [ "**" sign ]
    operand = number | axis | name | function "(" sum { "," sum } ")" | "(" sum ")"
    axis    = "step" | "epoch" | "tokens" | "time"     time: seconds since the start of the run
    name    = letters, digits and / . : _ -            others in back quotes or double quotes

A text is parsed into instructions in the order of their evaluation, and nothing in it is executed
as code. Values are computed at the points that all operands have; nothing is interpolated. A
mistake raises ``MetricNotFoundError``: such a text names no series.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, reduce
from typing import Any, Literal, NamedTuple, NoReturn

import msgspec
import numpy as np
from numpy.typing import NDArray

from epochal.errors import MetricNotFoundError
from epochal.series.series import Floats, Series, SeriesRun, X, merge
from epochal.series.smooth import Smoothing

MAX_CHARACTERS = 500
MAX_OPERANDS = 32
MAX_DEPTH = 20
MAX_WINDOW = 100_000

# The axes that may be operands, and what a chart calls them.
AXES: Mapping[str, X] = {"step": "step", "epoch": "epoch", "tokens": "tokens", "time": "relative"}
_NEGATION = "negative"
_SIGN_PRIORITY = 2
_PRIORITIES = {"+": 0, "-": 0, "*": 1, "/": 1, "**": 3}
_SMOOTHING: dict[str, Literal["ema", "mean"]] = {"ema": "ema", "mean": "mean"}
# The smaller a metric, the smaller are these of it: they have its goal.
_WITH_GOAL = (*_SMOOTHING, "min", "max", "log", "log10", "exp", "sqrt")
_POINTWISE: Mapping[str, Callable[..., Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "**": np.power,
    _NEGATION: np.negative,
    "abs": np.abs,
    "log": np.log,
    "log10": np.log10,
    "exp": np.exp,
    "sqrt": np.sqrt,
    "min": lambda *values: reduce(np.minimum, values),
    "max": lambda *values: reduce(np.maximum, values),
}
_FUNCTIONS = (
    *_SMOOTHING, "abs", "log", "log10", "exp", "sqrt", "min", "max", "diff", "cumsum",
)  # fmt: skip

_USAGE = {
    "ema": "a metric and a weight from 0 to below 1, as in `ema(loss, 0.9)`",
    "mean": f"a metric and a number of points up to {MAX_WINDOW}, as in `mean(loss, 25)`",
}

# A start that no name has, an operator beside a space or a parenthesis, or a call.
_FORMULA = re.compile(r"^\s*[-(`\"]|[\s)][-+*/]|[-+*/]\s|\w\(")
_TOKEN = re.compile(
    r'(?P<quoted>`[^`]+`|"[^"]+")|(?P<mark>[(),])|(?P<word>[^\s(),`"]+)|(?P<odd>\S)'
)
_NUMBER = re.compile(r"(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_NAME = re.compile(r"[\w/.:-]+")


class Instruction(NamedTuple):
    """A number, the name of a metric or axis, or a call of what is on the stack."""

    kind: Literal["number", "metric", "axis", "call"]
    text: str
    # How many operands a call takes from the stack.
    arity: int = 0


class Formula(msgspec.Struct, frozen=True):
    """A formula that was parsed: instructions in the order of their evaluation."""

    text: str
    code: tuple[Instruction, ...]

    @property
    def metrics(self) -> list[str]:
        """The names of metrics in it."""
        return list(dict.fromkeys(one.text for one in self.code if one.kind == "metric"))

    @property
    def axes(self) -> list[str]:
        """The axes that are operands."""
        return list(dict.fromkeys(one.text for one in self.code if one.kind == "axis"))

    @property
    def has_goal_of_metric(self) -> bool:
        """Whether its only metric is as good as the result, as in ``ema(loss, 0.9)``."""
        series = [one.kind for one in self.code if one.kind in ("metric", "axis")]
        calls = [one.text for one in self.code if one.kind == "call"]
        return series == ["metric"] and all(name in _WITH_GOAL for name in calls)


def is_formula(text: str) -> bool:
    """Whether a text is a formula, be it valid or not, and not just a name or a pattern."""
    return _FORMULA.search(text) is not None


@lru_cache(256)
def parse_formula(text: str) -> Formula | None:
    """Parse a formula; None for a text that is no formula. Raises ``MetricNotFoundError``."""
    if not is_formula(text):
        return None
    if len(text) > MAX_CHARACTERS:
        raise MetricNotFoundError(f"a formula has at most {MAX_CHARACTERS} characters.")
    return Formula(text, tuple(_Parser(text).whole()))


def evaluate(formula: Formula, operands: Mapping[str, Series], run: SeriesRun) -> Series:
    """The result at the points that all operands have; ``operands`` are series of one axis.

    They are keyed by the names in the formula. One that has only axes is evaluated at the points
    of any other series among them. Results that are not finite stay, as those of a metric.
    """
    stack: list[Series | np.float64] = []
    with np.errstate(all="ignore"):
        for kind, text, arity in formula.code:
            if kind == "number":
                stack.append(np.float64(text))
            elif kind == "metric":
                stack.append(operands[text])
            elif kind == "axis":
                stack.append(_along(text, list(operands.values()), run))
            else:
                stack[-arity:] = [_call(text, stack[-arity:])]
    (result,) = stack
    assert isinstance(result, Series)
    has_goal = formula.has_goal_of_metric
    goal = next(iter(operands.values())).goal if has_goal else None
    return replace(result, name=formula.text, goal=goal, unit=None, duplicates=0, hidden=0)


# -- parsing --------------------------------------------------------------------------------------


class _Token(NamedTuple):
    # A parenthesis and a comma are kinds of their own.
    kind: str
    text: str
    # Counted from 1, as people do.
    column: int


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._at = 0
        self._code: list[Instruction] = []

    def whole(self) -> list[Instruction]:
        self._expression(0, 0)
        token = self._tokens[self._at]
        reasons = {
            ")": "this parenthesis was not opened",
            ",": "only functions have commas, as in `min(a, b)`",
        }
        missing = "an operator is missing before it; write it with spaces, as in `a - b`"
        if token.kind != "end":
            _fail(token, reasons.get(token.kind, missing))
        if not _has_series(self._code):
            raise MetricNotFoundError("a formula needs the name of a metric, as in `loss * 2`.")
        return self._code

    def _next(self) -> _Token:
        token = self._tokens[self._at]
        self._at += token.kind != "end"
        return token

    def _expression(self, lowest: int, depth: int) -> None:
        """Parse an operand and all operators after it that bind at least so closely."""
        self._operand(depth)
        while True:
            token = self._tokens[self._at]
            if token.kind != "operator" or (priority := _PRIORITIES[token.text]) < lowest:
                return
            self._at += 1
            # A sign may follow "**", which binds to its right.
            self._expression(_SIGN_PRIORITY if token.text == "**" else priority + 1, depth + 1)
            self._code.append(Instruction("call", token.text, 2))

    def _operand(self, depth: int) -> None:
        token = self._next()
        if depth > MAX_DEPTH:
            _fail(token, f"a formula is nested at most {MAX_DEPTH} times")
        if token.text == "-" and token.kind in ("operator", "minus"):
            self._expression(_SIGN_PRIORITY, depth + 1)
            self._code.append(Instruction("call", _NEGATION, 1))
        elif token.kind == "(":
            self._expression(0, depth + 1)
            self._close()
        elif token.kind == "name" and self._tokens[self._at].kind == "(":
            self._function(token, depth)
        elif token.kind == "number":
            self._add("number", token)
        elif token.kind in ("name", "quoted"):
            is_axis = token.kind == "name" and token.text in AXES
            self._add("axis" if is_axis else "metric", token)
        else:
            _fail(token, "a metric or a number is missing here")

    def _add(self, kind: Literal["number", "metric", "axis"], token: _Token) -> None:
        self._code.append(Instruction(kind, token.text))
        if sum(one.kind != "call" for one in self._code) > MAX_OPERANDS:
            _fail(token, f"a formula has at most {MAX_OPERANDS} operands")

    def _function(self, token: _Token, depth: int) -> None:
        name = token.text
        if name not in _FUNCTIONS:
            _fail(token, f"there is no such function; there are {', '.join(_FUNCTIONS)}")
        starts = [len(self._code)]
        while not starts[1:] or self._tokens[self._at].kind == ",":
            self._at += 1  # the parenthesis, or a comma
            self._expression(0, depth + 1)
            starts.append(len(self._code))
        self._close()
        first, rest = self._code[starts[0] : starts[1]], self._code[starts[1] :]
        count = len(starts) - 1
        amount = float(rest[0].text) if [one.kind for one in rest] == ["number"] else -1.0
        is_many = name in ("min", "max") and count > 1
        is_valid = count == 1 and name not in _SMOOTHING
        if name == "ema":
            is_valid = 0 <= amount < 1
        elif name == "mean":
            is_valid = 1 <= amount <= MAX_WINDOW and amount.is_integer()
        if not is_many and not (is_valid and _has_series(first)):
            _fail(token, f"write {_USAGE.get(name) or f'a metric, as in `{name}(loss)`'}")
        self._code.append(Instruction("call", name, count))

    def _close(self) -> None:
        token = self._next()
        if token.kind != ")":
            _fail(token, "a closing parenthesis is missing here")


def _tokens(text: str) -> Iterator[_Token]:
    for found in _TOKEN.finditer(text):
        word, column = found[0], found.start() + 1
        if found["odd"]:
            _fail(_Token("quoted", word, column), "this quote is not closed")
        if found["quoted"]:
            yield _Token("quoted", word[1:-1], column)
        elif found["mark"]:
            yield _Token(word, word, column)
        elif word in _PRIORITIES:
            yield _Token("operator", word, column)
        else:
            while word.startswith("-"):  # a sign, never an operator: that has a space after it
                yield _Token("minus", "-", column)
                word, column = word[1:], column + 1
            if _NUMBER.fullmatch(word):
                yield _Token("number", word, column)
            elif _NAME.fullmatch(word):
                yield _Token("name", word, column)
            elif word:
                reason = "write operators with spaces around them, as in `a + b`, and a name with"
                _fail(_Token("name", word, column), f"{reason} such characters in back quotes")
    yield _Token("end", "", len(text) + 1)


def _fail(token: _Token, reason: str) -> NoReturn:
    where = f"at `{token.text}`, character {token.column}" if token.text else "at its end"
    raise MetricNotFoundError(f"the formula is not valid {where}: {reason}.")


def _has_series(code: Iterable[Instruction]) -> bool:
    return any(one.kind in ("metric", "axis") for one in code)


# -- evaluation -----------------------------------------------------------------------------------


def _call(name: str, values: Sequence[Series | np.float64]) -> Series | np.float64:
    first = values[0]
    if isinstance(first, Series) and name in _SMOOTHING:
        smoothing = Smoothing(_SMOOTHING[name], float(values[1]))  # type: ignore[arg-type]
        return first.smoothed(smoothing)
    if isinstance(first, Series) and len(values) == 1 and name in ("min", "max"):
        so_far = np.fmin if name == "min" else np.fmax
        return replace(first, values=so_far.accumulate(first.floats))
    if isinstance(first, Series) and name == "diff":
        return replace(first.select(slice(1, None)), values=np.diff(first.floats))
    if isinstance(first, Series) and name == "cumsum":
        known = np.isfinite(first.floats)
        sums = np.where(known, first.floats, 0.0).cumsum()
        return replace(first, values=np.where(known, sums, first.floats))
    series = _aligned([one for one in values if isinstance(one, Series)])
    rest = iter(series)
    numbers = [next(rest).floats if isinstance(one, Series) else one for one in values]
    result = _POINTWISE[name](*numbers)
    if not series:
        return np.float64(result)
    times: Floats = reduce(np.fmax, (one.times for one in series))
    return replace(series[0], values=result, times=times)


def _aligned(series: Sequence[Series]) -> list[Series]:
    """The points of series at the positions that all of them have."""
    places: list[NDArray[Any]] = [one.at for one in series]
    if all(at is places[0] or np.array_equal(at, places[0]) for at in places[1:]):
        return list(series)
    common = min(places, key=len)
    # Only the time axis may have a position twice.
    common = common[np.append(True, common[1:] != common[:-1])[: common.size]]
    for at in places:
        index = np.minimum(np.searchsorted(at, common), at.size - 1)
        common = common[at[index] == common]
    return [one.select(np.searchsorted(one.at, common)) for one in series]


def _along(name: str, operands: Sequence[Series], run: SeriesRun) -> Series:
    """An axis as a series: its value at every point of the operands."""
    first = operands[0]
    is_same = all(np.array_equal(one.at, first.at) for one in operands[1:])
    points = first if is_same else merge((None, one) for one in operands)
    moved = points.along(AXES[name], run)
    if moved.x != AXES[name]:
        is_recorded = name == "step" or first.axis != "step"
        reason = (
            f"{first.name!r} was logged by {first.axis}" if is_recorded else "this run has none"
        )
        raise MetricNotFoundError(f"`{name}` cannot be used in this formula: {reason}.")
    return replace(points, values=moved.at.astype(np.float64))
