r"""The query language for runs: the text of a filter is parsed into a tree.

    query      = and { "or" and }                       config.lr < 3e-4 and status == "running"
    and        = not { "and" not }
    not        = "not" not | "(" query ")" | "exists" "(" field ")" | comparison
    comparison = value [ operator value ]               a value alone: whether it is true
    operator   = "==" | "!=" | "<" | "<=" | ">" | ">=" | "~" | "!~" | "in" | "not in"
    value      = number | text | "true" | "false" | "null" | list | field
    list       = "[" [ value { "," value } ] "]"
    field      = name { "." name }                      names may contain - and /; quote others
    text       = in single or double quotes; \" is a quote, \\ a backslash, any other \ itself

A mistake raises ``UsageError``. ``store/selection.py`` applies filters to runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, Literal, get_args

import msgspec

from epochal.query.parser import NUMBER, Parser, Token

Operator = Literal["==", "!=", "<", "<=", ">", ">=", "~", "!~", "in", "not in"]
OPERATORS: dict[str, Operator] = {name: name for name in get_args(Operator)}
_CONSTANTS: dict[str, bool | None] = {"true": True, "false": False, "null": None, "none": None}
# Operators of other languages, and ours.
_FOREIGN = {
    "=": "==", "=>": ">=", "=<": "<=", "=~": "~",
    "&&": "and", "&": "and", "||": "or", "|": "or", "!": "not",
}  # fmt: skip
_HINTS = {sign: f"write {ours!r} instead" for sign, ours in _FOREIGN.items()}
_QUOTED = r"""(?:"(?:[^"\\]|\\["\\]|\\(?!["\\]))*"|'(?:[^'\\]|\\['\\]|\\(?!['\\]))*')"""
_TOKENS = re.compile(
    rf"(?P<quoted>{_QUOTED})"
    rf"|(?P<number>[-+]?{NUMBER}(?![\w.]))"
    r"|(?P<sign>==|!=|<=|>=|!~|=~|=>|=<|&&|\|\||[<>~=!&|()\[\],]"
    r"|(?ai:and|or|not|in|exists)(?![\w/@:.-]))"
    rf"|(?P<name>[^\W\d][\w/@:-]*(?:\.(?:[\w/@:-]+|{_QUOTED}))*)"
    r"|(?P<unknown>\S)"
)
_PART = re.compile(rf"[\w/@:-]+|{_QUOTED}")


class Constant(msgspec.Struct, frozen=True):
    """A number, a text, true, false or null."""

    value: float | int | str | bool | None
    column: int


class Listed(msgspec.Struct, frozen=True):
    """Several constants or fields."""

    items: tuple[Value, ...]
    column: int


class Field(msgspec.Struct, frozen=True):
    """A field of a run: ``config.lr`` is ("config", "lr")."""

    path: tuple[str, ...]
    column: int

    def __str__(self) -> str:
        return ".".join(self.path)


class Comparison(msgspec.Struct, frozen=True):
    """Two values and the operator that compares them; ``points`` is for conditions only."""

    operator: Operator
    left: Value
    right: Value
    column: int
    points: int = 1


class Truth(msgspec.Struct, frozen=True):
    """Whether a value exists and is not false, 0 or empty."""

    value: Value


class Exists(msgspec.Struct, frozen=True):
    """Whether a run has a field."""

    field: Field


class Negation(msgspec.Struct, frozen=True):
    """The negation of a filter."""

    operand: Filter


class Junction(msgspec.Struct, frozen=True):
    """Several filters joined by ``and`` or ``or``."""

    word: Literal["and", "or"]
    operands: tuple[Filter, ...]


Value = Constant | Listed | Field
Filter = Comparison | Truth | Exists | Negation | Junction


def parse(text: str) -> Filter:
    """The tree of a query; raises ``UsageError``."""
    return _Parser(text).whole()


def parse_field(text: str) -> Field:
    """One field alone; raises ``UsageError``."""
    return _Parser(text).field()


def fields_of(node: Filter | Value) -> Iterator[Field]:
    """Every field that a query reads."""
    if isinstance(node, Field):
        yield node
    elif isinstance(node, msgspec.Struct):
        for child in msgspec.structs.astuple(node):
            for inner in child if isinstance(child, tuple) else (child,):
                yield from fields_of(inner)


def value_of(token: Token) -> Constant | Field | None:
    """The constant or field that a token is; None for a sign."""
    text, column = token.text, token.column
    if token.kind == "quoted":
        return Constant(_unquoted(text), column)
    if token.kind == "number":
        return Constant(float(text) if re.search("[.eE]", text) else int(text), column)
    if token.kind != "name":
        return None
    if (word := text.lower()) in _CONSTANTS:
        return Constant(_CONSTANTS[word], column)
    return Field(tuple(map(_unquoted, _PART.findall(text))), column)


class LogicParser(Parser[Filter]):
    """The tokens of queries and of conditions on metrics, and how they are joined."""

    tokens = _TOKENS
    hints = _HINTS
    quotes = ('"', "'")
    operators: ClassVar = {"or": (0, 1), "and": (1, 2)}
    most_characters = 2000
    most_nested = 50

    def joined(self, operator: str, left: Filter, right: Filter) -> Filter:
        """Join two filters; a third with the same word is an operand of the same junction."""
        word: Literal["and", "or"] = "and" if operator == "and" else "or"
        if isinstance(left, Junction) and left.word == word:
            return Junction(word, (*left.operands, right))
        return Junction(word, (left, right))


class _Parser(LogicParser):
    noun = "query"
    example = "step > 100"
    rest = "'and', 'or' or the end"
    prefix = "not"

    def prefixed(self, operand: Filter) -> Filter:
        return Negation(operand)

    def operand(self) -> Filter:
        if self.takes("exists"):
            self.expect("(")
            token = self.take()
            field = value_of(token)
            if not isinstance(field, Field):
                self.unexpected("expected a field, such as config.lr", token)
            self.expect(")")
            return Exists(field)
        left = self._value()
        column = self.peek().column
        operator = self._operator()
        if operator is None:
            return Truth(left)
        return Comparison(operator, left, self._value(f" after {operator!r}"), column)

    def field(self) -> Field:
        """The whole text as one field."""
        field = value_of(self.peek())
        if not isinstance(field, Field) or self.peek(1).kind != "end":
            self.fail("expected one field, such as summary.loss.last", self.peek().column)
        return field

    def _operator(self) -> Operator | None:
        first = self.peek()
        text = "not in" if (first.text, self.peek(1).text) == ("not", "in") else first.text
        operator = OPERATORS.get(text)
        for _ in () if operator is None else text.split():
            self.take()
        return operator

    def _value(self, where: str = "") -> Value:
        token = self.take()
        if (value := value_of(token)) is not None:
            return value
        if token.text != "[":
            self.unexpected(f"expected a field, a number, a text or a list{where}", token)
        items = () if self.takes("]") else self.listed(self._value, "]")
        return Listed(tuple(items), token.column)


def _unquoted(text: str) -> str:
    """A text without its quotes, if it has any; ``\\"`` in it is a quote, ``\\\\`` a backslash."""
    quote = text[0]
    return re.sub(rf"\\([{quote}\\])", r"\1", text[1:-1]) if quote in "\"'" else text
