"""Schedules as text: ``warmup(cosine(1e-3,1e-6,1000),100)``, read and written.

    schedule  = name "(" [argument {"," argument}] ")"
    argument  = [name "="] (number | word | schedule | "[" value {"," value} "]")

Arguments come in the order of :func:`parameters_of`, or by name. A warm-up needs no target: it
climbs to where its schedule starts. Whole numbers may be written 1000, 1_000 or 1e3.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from epochal.errors import UsageError, ValueTypeError
from epochal.torch.schedule.catalogue import KINDS, Parameter, name_of, parameters_of
from epochal.torch.schedule.scheduler import Scheduler

_TOKEN = re.compile(
    r"\s*(?:(?P<number>[+-]?(?:\d+(?:_\d+)*(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)"
    r"|(?P<name>[A-Za-z_]\w*)|(?P<mark>[(),=\[\]]))"
)
# Far beyond any sense, and below where Python's own stack would end.
_DEEPEST = 50


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    column: int


def parse_schedule(text: str) -> Scheduler:
    """Read a schedule; a ValueError says what was expected at which column, from 1."""
    reader = _Reader(text)
    value = reader.value(depth=0)
    reader.end()
    if not isinstance(value, Scheduler):
        raise UsageError(f"a schedule must read like cosine(1e-3,1e-6,1000), got {text!r}.")
    return value


def format_schedule(schedule: Scheduler) -> str:
    """Write a schedule as `parse_schedule` reads it, defaults left out."""
    name = name_of(schedule)
    written = []
    for parameter in parameters_of(name):
        value = getattr(schedule, parameter.name)
        if parameter.required:
            written.append(_written(value))
        elif value != parameter.default:
            written.append(f"{parameter.name}={_written(value)}")
    return f"{name}({','.join(written)})"


def _written(value: Any) -> str:
    if isinstance(value, Scheduler):
        return format_schedule(value)
    if isinstance(value, tuple):
        return f"[{','.join(_written(item) for item in value)}]"
    return value if isinstance(value, str) else repr(value)


class _Reader:
    """One pass over the tokens of one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(_tokens(text))
        self._at = 0

    def value(self, *, depth: int) -> Any:
        if depth > _DEEPEST:
            raise UsageError(f"a schedule may be nested {_DEEPEST} deep at most.")
        token = self._next("a schedule, a number or a list")
        if token.kind == "number":
            return _number(token)
        if token.text == "[":
            return tuple(self._items("]", depth=depth))
        if token.kind != "name":
            raise _unexpected(token, expected="a schedule, a number or a list")
        return self._call(token, depth=depth) if self._peek() == "(" else token.text

    def end(self) -> None:
        if self._at < len(self._tokens):
            raise _unexpected(self._tokens[self._at], expected="the end")

    def _call(self, name: _Token, *, depth: int) -> Scheduler:
        if name.text not in KINDS:
            raise UsageError(
                f"column {name.column}: {name.text!r} is no schedule; there are {', '.join(KINDS)}."
            )
        self._next("(")
        positional: list[Any] = []
        named: dict[str, Any] = {}
        for item in self._items(")", depth=depth, named=named):
            if named:
                raise UsageError(f"column {name.column}: named arguments of {name.text} come last.")
            positional.append(item)
        try:
            return KINDS[name.text](**_bound(name.text, positional, named))
        except UsageError as error:
            kind = ValueTypeError if isinstance(error, TypeError) else UsageError
            raise kind(f"column {name.column}: {name.text}: {error}") from error

    def _items(
        self, closing: str, *, depth: int, named: dict[str, Any] | None = None
    ) -> Iterator[Any]:
        while self._peek() != closing:
            if named is not None and self._peek(1) == "=":
                key = self._next("an argument").text
                self._next("=")
                if key in named:
                    raise UsageError(f"{key} is given twice.")
                named[key] = self.value(depth=depth + 1)
            else:
                yield self.value(depth=depth + 1)
            if self._peek() != closing:
                self._next(",")
        self._next(closing)

    def _peek(self, ahead: int = 0) -> str:
        at = self._at + ahead
        return self._tokens[at].text if at < len(self._tokens) else ""

    def _next(self, expected: str) -> _Token:
        if self._at >= len(self._tokens):
            raise UsageError(f"{self._text!r} ends where {expected} was expected.")
        token = self._tokens[self._at]
        if len(expected) == 1 and token.text != expected:
            raise _unexpected(token, expected=expected)
        self._at += 1
        return token


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            column = at + len(text[at:]) - len(text[at:].lstrip()) + 1
            raise UsageError(f"column {column}: {text[column - 1]!r} has no meaning in a schedule.")
        kind = str(match.lastgroup)
        yield _Token(kind, match[kind], match.start(kind) + 1)
        at = match.end()


def _number(token: _Token) -> int | float:
    try:
        return int(token.text)
    except ValueError:
        return float(token.text)


def _bound(name: str, positional: list[Any], named: dict[str, Any]) -> dict[str, Any]:
    parameters = parameters_of(name)
    wanted = ", ".join(parameter.name for parameter in parameters)
    if len(positional) > len(parameters):
        raise UsageError(f"takes {wanted}, got {len(positional)} values.")
    values = {p.name: value for p, value in zip(parameters, positional, strict=False)}
    for key, value in named.items():
        if key in values:
            raise UsageError(f"{key} is given twice.")
        values[key] = value
    unknown = [key for key in values if key not in {p.name for p in parameters}]
    missing = [p.name for p in parameters if p.required and p.name not in values]
    if unknown or missing:
        raise UsageError(f"takes {wanted}; {_complaint(unknown, missing)}.")
    return {p.name: _fitted(p, values.get(p.name, p.default)) for p in parameters}


def _complaint(unknown: list[str], missing: list[str]) -> str:
    if unknown:
        return f"{', '.join(unknown)} is not among them"
    return f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing"


def _fitted(parameter: Parameter, value: Any) -> Any:
    """A number as the parameter's own type: 1e3 steps are 1000, a rate of 1 is 1.0."""
    if isinstance(value, tuple):
        return tuple(_fitted(parameter, item) for item in value)
    if isinstance(value, float) and "int" in parameter.type_name and value.is_integer():
        return int(value)
    if isinstance(value, int) and "float" in parameter.type_name:
        return float(value)
    return value


def _unexpected(token: _Token, *, expected: str) -> UsageError:
    return UsageError(f"column {token.column}: expected {expected}, found {token.text!r}.")
