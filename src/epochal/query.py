r"""The query language for runs: text is parsed into a tree, and nothing in it is executed.

    query      = and { "or" and }                       config.lr < 3e-4 and status == "running"
    and        = not { "and" not }
    not        = "not" not | "(" query ")" | "exists" "(" field ")" | comparison
    comparison = value [ operator value ]               a value alone: whether it is true
    operator   = "==" | "!=" | "<" | "<=" | ">" | ">=" | "~" | "!~" | "in" | "not in"
    value      = number | text | "true" | "false" | "null" | list | field
    list       = "[" [ value { "," value } ] "]"
    field      = name { "." name }                      names may contain - and /; quote others
    text       = in single or double quotes; \" is a quote, \\ a backslash, any other \ itself

A mistake raises ``UsageError``; it shows the query with a mark under the mistake.
``epochal.condition`` parses conditions on metrics with the same parser.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple, NoReturn, get_args

import msgspec

from epochal.errors import UsageError

MAX_CHARACTERS = 2000
_MAX_DEPTH = 50
Operator = Literal["==", "!=", "<", "<=", ">", ">=", "~", "!~", "in", "not in"]
OPERATORS: dict[str, Operator] = {one: one for one in get_args(Operator)}
_WORDS = frozenset({"and", "or", "not", "in", "exists"})
_CONSTANTS: dict[str, bool | None] = {"true": True, "false": False, "null": None, "none": None}
# Operators of other languages, and ours.
FOREIGN = {
    "=": "==", "=>": ">=", "=<": "<=", "=~": "~",
    "&&": "and", "&": "and", "||": "or", "|": "or", "!": "not",
}  # fmt: skip
_QUOTED = r"""(?:"(?:[^"\\]|\\["\\]|\\(?!["\\]))*"|'(?:[^'\\]|\\['\\]|\\(?!['\\]))*')"""
_TOKEN = re.compile(
    rf"(?P<quoted>{_QUOTED})"
    r"|(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.]))"
    rf"|(?P<field>[^\W\d][\w/@:-]*(?:\.(?:[\w/@:-]+|{_QUOTED}))*)"
    r"|(?P<sign>==|!=|<=|>=|!~|=~|=>|=<|&&|\|\||[<>~=!&|()\[\],])"
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
    """The negation of a condition."""

    operand: Condition


class Junction(msgspec.Struct, frozen=True):
    """Several conditions joined by ``and`` or ``or``."""

    word: Literal["and", "or"]
    operands: tuple[Condition, ...]


Value = Constant | Listed | Field
Condition = Comparison | Truth | Exists | Negation | Junction


class _Token(NamedTuple):
    kind: Literal["sign", "constant", "field", "word", "end"]
    text: str
    column: int
    value: Value | None = None


def parse(text: str) -> Condition:
    """The tree of a query; raises ``UsageError``."""
    return Parser(text).whole()


def parse_field(text: str) -> Field:
    """One field alone; raises ``UsageError``."""
    if len(text) > MAX_CHARACTERS:
        raise UsageError(f"a field has at most {MAX_CHARACTERS} characters, not {len(text)}.")
    tokens = _tokens(text)
    if tokens[0].kind != "field" or tokens[1].kind != "end":
        fail("expected one field, such as summary.loss.last", text, tokens[0].column)
    assert isinstance(tokens[0].value, Field)
    return tokens[0].value


def fields_of(node: Condition | Value) -> Iterator[Field]:
    """Every field that a query reads."""
    if isinstance(node, Field):
        yield node
    elif isinstance(node, msgspec.Struct):
        for child in msgspec.structs.astuple(node):
            for one in child if isinstance(child, tuple) else (child,):
                yield from fields_of(one)


def fail(sentence: str, text: str, column: int) -> NoReturn:
    """Raise ``UsageError`` with a mark under a column of the query."""
    shown = "".join(" " if c in "\t\n\r" else c for c in text)
    raise UsageError(f"{sentence}:\n    {shown}\n    {' ' * column}^")


class Parser:
    """Parses one text; ``epochal.condition`` replaces what a comparison may be."""

    noun = "query"
    example = "step > 100"
    rest = "'and', 'or' or the end"

    def __init__(self, text: str) -> None:
        if len(text) > MAX_CHARACTERS:
            sentence = f"a {self.noun} has at most {MAX_CHARACTERS} characters, not {len(text)}."
            raise UsageError(sentence)
        self._text = text
        self._tokens = _tokens(text)
        self._next = 0
        self._depth = 0

    def whole(self) -> Condition:
        """The tree of the whole text."""
        if self._peek().kind == "end":
            fail(f"the {self.noun} is empty; write for example {self.example}", self._text, 0)
        condition = self._or()
        left = self._peek()
        if left.text in FOREIGN:
            self._unexpected(f"write {FOREIGN[left.text]!r} instead", left)
        if left.kind != "end":
            self._unexpected(f"expected {self.rest}", left)
        return condition

    def _or(self) -> Condition:
        return self._joined("or", self._and)

    def _and(self) -> Condition:
        return self._joined("and", self._not)

    def _joined(self, word: Literal["and", "or"], operand: Callable[[], Condition]) -> Condition:
        operands = [operand()]
        while self._takes("word", word):
            operands.append(operand())
        return operands[0] if len(operands) == 1 else Junction(word, tuple(operands))

    def _not(self) -> Condition:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            fail(f"the {self.noun} is nested too deeply", self._text, self._peek().column)
        try:
            if self._takes("word", "not"):
                return Negation(self._not())
            if self._takes("sign", "("):
                condition = self._or()
                self._expect(")")
                return condition
            if self._takes("word", "exists"):
                return self._exists()
            return self._comparison()
        finally:
            self._depth -= 1

    def _exists(self) -> Condition:
        self._expect("(")
        token = self._take()
        if not isinstance(token.value, Field):
            self._unexpected("expected a field, such as config.lr", token)
        self._expect(")")
        return Exists(token.value)

    def _comparison(self) -> Condition:
        left = self._value()
        token = self._peek()
        operator = self._operator()
        if operator is None:
            return Truth(left)
        return Comparison(operator, left, self._value(after=operator), token.column)

    def _operator(self) -> Operator | None:
        token = self._peek()
        if token.kind == "sign" and token.text in OPERATORS:
            return OPERATORS[self._take().text]
        if self._takes("word", "in"):
            return "in"
        if (token.kind, token.text) == ("word", "not"):
            following = self._tokens[self._next + 1]
            if (following.kind, following.text) == ("word", "in"):
                self._next += 2
                return "not in"
        return None

    def _value(self, *, after: str | None = None) -> Value:
        token = self._take()
        if token.value is not None:
            return token.value
        if (token.kind, token.text) == ("sign", "["):
            return self._list(token.column)
        where = "" if after is None else f" after {after!r}"
        return self._unexpected(f"expected a field, a number, a text or a list{where}", token)

    def _list(self, column: int) -> Listed:
        items: list[Value] = []
        if self._takes("sign", "]"):
            return Listed((), column)
        while True:
            items.append(self._value())
            if self._takes("sign", "]"):
                return Listed(tuple(items), column)
            self._expect(",", or_else="]")

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        token = self._tokens[self._next]
        if token.kind != "end":
            self._next += 1
        return token

    def _takes(self, kind: str, text: str) -> bool:
        token = self._peek()
        if (token.kind, token.text) == (kind, text):
            self._next += 1
            return True
        return False

    def _expect(self, sign: str, *, or_else: str | None = None) -> None:
        token = self._take()
        if (token.kind, token.text) != ("sign", sign):
            also = "" if or_else is None else f" or {or_else!r}"
            self._unexpected(f"expected {sign!r}{also}", token)

    def _unexpected(self, sentence: str, token: _Token) -> NoReturn:
        found = f"the {self.noun} ends" if token.kind == "end" else f"there is {token.text!r}"
        fail(f"{sentence}; {found} here", self._text, token.column)


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
        elif match := _TOKEN.match(text, at):
            tokens.append(_token(match, text))
            at = match.end()
        else:
            _fail_at(text, at)
    return [*tokens, _Token("end", "", len(text.rstrip()))]


def _token(match: re.Match[str], text: str) -> _Token:
    found, at, end = match[0], match.start(), match.end()
    if match.lastgroup == "sign":
        return _Token("sign", found, at)
    if match.lastgroup == "quoted":
        return _Token("constant", found, at, Constant(_unquoted(found), at))
    if match.lastgroup == "number":
        number = float(found) if re.search("[.eE]", found) else int(found)
        return _Token("constant", found, at, Constant(number, at))
    if text[end : end + 1] == ".":
        _fail_at(text, end)
    if (word := found.lower()) in _WORDS:
        return _Token("word", word, at)
    if word in _CONSTANTS:
        return _Token("constant", found, at, Constant(_CONSTANTS[word], at))
    return _Token("field", found, at, Field(tuple(map(_unquoted, _PART.findall(found))), at))


def _unquoted(text: str) -> str:
    """A text without its quotes, if it has any; ``\\"`` in it is a quote, ``\\\\`` a backslash."""
    quote = text[0]
    return re.sub(rf"\\([{quote}\\])", r"\1", text[1:-1]) if quote in "\"'" else text


def _fail_at(text: str, at: int) -> NoReturn:
    """Say what is wrong where no token begins, or where the parts of a field do not go on."""
    quoted = at + 1 if text[at] == "." else at
    if (quote := text[quoted : quoted + 1]) and quote in "\"'":
        hint = r"; write \\ for a backslash" if text.rstrip().endswith("\\" + quote) else ""
        fail(f"expected a closing {quote}{hint}", text, quoted)
    if text[at] == ".":
        fail("expected a name after the dot", text, at)
    fail(f"there is no meaning for {text[at]!r}", text, at)
