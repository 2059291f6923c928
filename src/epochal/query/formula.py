"""Formulas over metrics: ``train/loss - eval/loss``, ``ema(loss, 0.9)``, ``tokens / time``.

    sum     = product { ("+" | "-") product }          an operator has spaces around it
    product = sign { ("*" | "/") sign }
    sign    = "-" sign | power
    power   = operand [ "**" sign ]
    operand = number | axis | name | function "(" sum { "," sum } ")" | "(" sum ")"
    axis    = "step" | "epoch" | "tokens" | "time"     time: seconds since the start of the run
    name    = letters, digits and / . : _ -            others in back quotes or double quotes

A text is parsed into instructions in the order of their evaluation, and ``series/formula.py``
evaluates them. A mistake raises ``MetricNotFoundError``: such a text names no series.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import ClassVar, Literal, NamedTuple, NoReturn

import msgspec

from epochal.errors import MetricNotFoundError
from epochal.query.parser import NUMBER, Parser, Token

MAX_CHARACTERS = 500
MAX_OPERANDS = 32
MAX_WINDOW = 100_000

# The axes that may be operands, and what a chart calls them.
AXES: Mapping[str, str] = {"step": "step", "epoch": "epoch", "tokens": "tokens", "time": "relative"}
NEGATION = "negative"
SMOOTHING: dict[str, Literal["ema", "mean"]] = {"ema": "ema", "mean": "mean"}
_FUNCTIONS = (
    *SMOOTHING, "abs", "log", "log10", "exp", "sqrt", "min", "max", "diff", "cumsum",
)  # fmt: skip
# The smaller a metric, the smaller are these of it: they have its goal.
_WITH_GOAL = (*SMOOTHING, "min", "max", "log", "log10", "exp", "sqrt")
_USAGE = {
    "ema": "a metric and a weight from 0 to below 1, as in `ema(loss, 0.9)`",
    "mean": f"a metric and a number of points up to {MAX_WINDOW}, as in `mean(loss, 25)`",
}

# A start that no name has, an operator beside a space or a parenthesis, or a call.
_FORMULA = re.compile(r"^\s*[-(`\"]|[\s)][-+*/]|[-+*/]\s|\w\(")
_END = r"(?![^\s(),`\"])"


class Instruction(NamedTuple):
    """A number, the name of a metric or axis, or a call of what is on the stack."""

    kind: Literal["number", "metric", "axis", "call"]
    text: str
    # How many operands a call takes from the stack.
    arity: int = 0


Code = tuple[Instruction, ...]


class Formula(msgspec.Struct, frozen=True):
    """A formula that was parsed: instructions in the order of their evaluation."""

    text: str
    code: Code

    @property
    def metrics(self) -> list[str]:
        """The names of metrics in it."""
        return list(dict.fromkeys(step.text for step in self.code if step.kind == "metric"))

    @property
    def axes(self) -> list[str]:
        """The axes that are operands."""
        return list(dict.fromkeys(step.text for step in self.code if step.kind == "axis"))

    @property
    def has_goal_of_metric(self) -> bool:
        """Whether its only metric is as good as the result, as in ``ema(loss, 0.9)``."""
        series = [step.kind for step in self.code if step.kind in ("metric", "axis")]
        calls = [step.text for step in self.code if step.kind == "call"]
        return series == ["metric"] and all(name in _WITH_GOAL for name in calls)


def is_formula(text: str) -> bool:
    """Whether a text is a formula, be it valid or not, and not just a name or a pattern."""
    return _FORMULA.search(text) is not None


@lru_cache(256)
def parse_formula(text: str) -> Formula | None:
    """Parse a formula; None for a text that is no formula. Raises ``MetricNotFoundError``."""
    if not is_formula(text):
        return None
    code = _Parser(text).whole()
    if not _has_series(code):
        raise MetricNotFoundError("a formula needs the name of a metric, as in `loss * 2`.")
    return Formula(text, code)


class _Parser(Parser[Code]):
    noun = "formula"
    example = "train/loss - eval/loss"
    rest = "an operator with spaces around it, as in `a - b`"
    hints: ClassVar = {",": "only functions have commas, as in `min(a, b)`"}
    quotes = ("`", '"')
    # An operator is a word of its own; any other "-" is the prefix.
    tokens = re.compile(
        r"(?P<quoted>`[^`]+`|\"[^\"]+\")"
        rf"|(?P<sign>[(),]|(?<![^\s(),`\"])(?:\*\*|[-+*/]){_END})"
        r"|(?P<prefix>-)"
        rf"|(?P<number>{NUMBER}{_END})"
        rf"|(?P<name>[\w/.:-]+{_END})"
        r"|(?P<unknown>\S)"
    )
    # A prefix may follow "**", which binds to its right.
    operators: ClassVar = {"+": (0, 1), "-": (0, 1), "*": (1, 2), "/": (1, 2), "**": (3, 2)}
    prefix = "-"
    most_characters = MAX_CHARACTERS
    most_nested = 20
    error = MetricNotFoundError
    _num_operands = 0

    def joined(self, operator: str, left: Code, right: Code) -> Code:
        return (*left, *right, Instruction("call", operator, 2))

    def prefixed(self, operand: Code) -> Code:
        return (*operand, Instruction("call", NEGATION, 1))

    def operand(self) -> Code:
        token = self.take()
        if token.kind == "name" and self.takes("("):
            return self._call(token)
        if token.kind not in ("number", "name", "quoted"):
            self.unexpected("expected a metric or a number", token)
        self._num_operands += 1
        if self._num_operands > MAX_OPERANDS:
            self.fail(f"a formula has at most {MAX_OPERANDS} operands", token.column)
        if token.kind == "number":
            return (Instruction("number", token.text),)
        if token.kind == "name" and token.text in AXES:
            return (Instruction("axis", token.text),)
        name = token.text[1:-1] if token.kind == "quoted" else token.text
        return (Instruction("metric", name),)

    def unknown(self, column: int) -> NoReturn:
        """Fail at a word that is no name."""
        sentence = "write operators with spaces around them, as in `a + b`, and a name with"
        self.fail(f"{sentence} such characters in back quotes", column)

    def _call(self, function: Token) -> Code:
        name = function.text
        if name not in _FUNCTIONS:
            known = ", ".join(_FUNCTIONS)
            self.fail(f"there is no function {name!r}; there are {known}", function.column)
        arguments = self.listed(self.nested, ")")
        if not _accepts(name, arguments):
            usage = _USAGE.get(name) or f"a metric, as in `{name}(loss)`"
            self.fail(f"write {usage}", function.column)
        code = tuple(step for argument in arguments for step in argument)
        return (*code, Instruction("call", name, len(arguments)))


def _accepts(function: str, arguments: list[Code]) -> bool:
    count = len(arguments)
    if function in ("min", "max") and count > 1:
        return True
    if function not in SMOOTHING:
        return count == 1 and _has_series(arguments[0])
    if count != 2 or [step.kind for step in arguments[1]] != ["number"]:
        return False
    amount = float(arguments[1][0].text)
    is_whole = 1 <= amount <= MAX_WINDOW and amount.is_integer()
    return _has_series(arguments[0]) and (0 <= amount < 1 if function == "ema" else is_whole)


def _has_series(code: Iterable[Instruction]) -> bool:
    return any(step.kind in ("metric", "axis") for step in code)
