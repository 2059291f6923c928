"""The tokenizer and the parser that filters, conditions and formulas share.

    expression = operand { operator operand }           an operator with a higher priority first
    operand    = prefix operand | "(" expression ")" | what the language allows

A language is a subclass of ``Parser``. A mistake raises its error, which shows the text with a mark
under the mistake.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import ClassVar, Generic, NamedTuple, NoReturn, TypeVar

from epochal.errors import EpochalError, UsageError

T = TypeVar("T")
Item = TypeVar("Item")

NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
PREFIX_PRIORITY = 2


class Token(NamedTuple):
    """A part of a text; ``kind`` is its group in the language's pattern, or "end"."""

    kind: str | None
    text: str
    column: int


def fail(
    sentence: str, text: str, column: int, *, error: type[EpochalError] = UsageError
) -> NoReturn:
    """Raise an error with a mark under a column of the text."""
    shown = re.sub(r"[\t\n\r]", " ", text)
    raise error(f"{sentence}:\n    {shown}\n    {' ' * column}^")


class Parser(ABC, Generic[T]):
    """Parses one text of a language by the priorities of its operators."""

    noun: ClassVar[str]
    example: ClassVar[str]
    # What may follow a complete expression, and better advice for some tokens there.
    rest: ClassVar[str]
    hints: ClassVar[Mapping[str, str]]
    quotes: ClassVar[tuple[str, str]]
    # Groups: quoted, number, name, sign, and last unknown. Signs of letters have any case.
    tokens: ClassVar[re.Pattern[str]]
    # The priority of each operator, and the lowest of the operators inside its right operand.
    operators: ClassVar[Mapping[str, tuple[int, int]]]
    prefix: ClassVar[str | None] = None
    most_characters: ClassVar[int]
    most_nested: ClassVar[int]
    error: ClassVar[type[EpochalError]] = UsageError

    def __init__(self, text: str) -> None:
        if len(text) > self.most_characters:
            most = f"at most {self.most_characters} characters, not {len(text)}"
            raise self.error(f"a {self.noun} has {most}.")
        self._text, self._next, self._depth = text, 0, 0
        self._tokens = [self._token(found) for found in self.tokens.finditer(text)]
        self._tokens.append(Token("end", "", len(text.rstrip())))

    @abstractmethod
    def operand(self) -> T:
        """Parse an operand that is neither in parentheses nor after the prefix."""

    @abstractmethod
    def joined(self, operator: str, left: T, right: T) -> T:
        """Two operands and the operator between them."""

    def prefixed(self, operand: T) -> T:
        """An operand with the prefix."""
        raise NotImplementedError

    def whole(self) -> T:
        """Parse the whole text."""
        if self.peek().kind == "end":
            self.fail(f"the {self.noun} is empty; write for example {self.example}", 0)
        whole = self._expression()
        if (token := self.peek()).kind != "end":
            hints = {")": "this parenthesis was not opened", **self.hints}
            self.unexpected(hints.get(token.text, f"expected {self.rest}"), token)
        return whole

    def nested(self, lowest: int = 0) -> T:
        """Parse an expression inside another one."""
        self._depth += 1
        if self._depth > self.most_nested:
            sentence = f"a {self.noun} is nested at most {self.most_nested} times"
            self.fail(sentence, self.peek().column)
        inner = self._expression(lowest)
        self._depth -= 1
        return inner

    def listed(self, item: Callable[[], Item], end: str) -> list[Item]:
        """Parse items with commas between, at least one, and the sign after them."""
        items = [item()]
        while self.takes(","):
            items.append(item())
        self.expect(end, f"',' or {end!r}")
        return items

    def peek(self, ahead: int = 0) -> Token:
        """The next token, or the one after it."""
        return self._tokens[min(self._next + ahead, len(self._tokens) - 1)]

    def take(self) -> Token:
        """The next token, which is done with then."""
        token = self.peek()
        self._next += token.kind != "end"
        return token

    def takes(self, text: str) -> bool:
        """Take the next token if it is this one."""
        is_next = self.peek().text == text
        self._next += is_next
        return is_next

    def expect(self, sign: str, wanted: str | None = None) -> None:
        """Take a sign, or fail."""
        if not self.takes(sign):
            self.unexpected(f"expected {wanted or repr(sign)}", self.peek())

    def unexpected(self, sentence: str, token: Token) -> NoReturn:
        """Fail at a token."""
        there = f"the {self.noun} ends" if token.kind == "end" else f"there is {token.text!r}"
        self.fail(f"{sentence}; {there} here", token.column)

    def fail(self, sentence: str, column: int) -> NoReturn:
        """Raise the error of the language with a mark under a column."""
        fail(sentence, self._text, column, error=self.error)

    def unknown(self, column: int) -> NoReturn:
        """Fail where no token begins."""
        is_dot = self._text[column] == "."
        meaning = f"there is no meaning for {self._text[column]!r}"
        self.fail("expected a name after the dot" if is_dot else meaning, column)

    def _expression(self, lowest: int = 0) -> T:
        left = self._operand()
        while (token := self.peek()).kind == "sign" and token.text in self.operators:
            priority, lowest_right = self.operators[token.text]
            if priority < lowest:
                break
            self.take()
            left = self.joined(token.text, left, self._expression(lowest_right))
        return left

    def _operand(self) -> T:
        if self.prefix is not None and self.takes(self.prefix):
            return self.prefixed(self.nested(PREFIX_PRIORITY))
        if not self.takes("("):
            return self.operand()
        inner = self.nested()
        self.expect(")")
        return inner

    def _token(self, found: re.Match[str]) -> Token:
        if found.lastgroup == "unknown":
            self._unknown(found.start())
        is_sign = found.lastgroup == "sign"
        return Token(found.lastgroup, found[0].lower() if is_sign else found[0], found.start())

    def _unknown(self, column: int) -> NoReturn:
        quoted = column + (self._text[column] == ".")
        quote = self._text[quoted : quoted + 1]
        if quote not in self.quotes:
            self.unknown(column)
        ends_so = self._text.rstrip().endswith("\\" + quote)
        hint = r"; write \\ for a backslash" if ends_so else ""
        self.fail(f"expected a closing {quote}{hint}", quoted)
