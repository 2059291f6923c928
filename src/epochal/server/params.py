"""Query parameters: each is declared once, checked and bounded when a handler reads it.

A handler calls a declared parameter with its request. The endpoint table lists the same objects,
and the specification and the TypeScript types are generated from them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import msgspec
from starlette.datastructures import QueryParams
from starlette.requests import Request

from epochal.errors import UsageError

MAX_CHARACTERS = 4096
_MAX_RANKS = 1024
T = TypeVar("T")
Word = TypeVar("Word", bound=str)


class Param(msgspec.Struct, Generic[T], frozen=True):
    """One query parameter: ``typescript`` is its type there, ``note`` its default and bounds."""

    name: str
    parse: Callable[[QueryParams], T]
    typescript: str
    note: str = ""
    is_repeatable: bool = False
    is_required: bool = False

    def __call__(self, request: Request) -> T:
        """Read the parameter; raises ``UsageError`` for an invalid value."""
        return self.parse(request.query_params)


def str_param(name: str, *, note: str = "") -> Param[str | None]:
    """One text; None where it is not given."""

    def parse(query: QueryParams) -> str | None:
        value = query.get(name)
        if value is not None:
            _check_length(name, value)
        return value

    return Param(name, parse, "string", note)


def str_params(name: str, *, most: int, note: str = "") -> Param[tuple[str, ...]]:
    """Every text given under a name, without repetitions."""
    parse = _texts_parser(name, most)
    return Param(name, parse, "readonly string[]", note, is_repeatable=True)


def required_param(name: str, *, most: int) -> Param[tuple[str, ...]]:
    """At least one text under a name."""
    texts = _texts_parser(name, most)

    def parse(query: QueryParams) -> tuple[str, ...]:
        values = texts(query)
        if not values:
            raise UsageError(f"{name}= is missing.")
        return values

    return Param(name, parse, "readonly string[]", is_repeatable=True, is_required=True)


def int_param(name: str, *, default: int, most: int, note: str = "") -> Param[int]:
    """A whole number from 0 up to ``most``."""

    def parse(query: QueryParams) -> int:
        value = query.get(name)
        if value is None:
            return default
        if not (value.isascii() and value.isdigit() and len(value) < 20 and int(value) <= most):
            raise UsageError(f"{name}={value[:40]!r} must be a whole number from 0 to {most}.")
        return int(value)

    return Param(name, parse, "number", note)


def float_param(name: str) -> Param[float | None]:
    """A finite number; None where it is not given."""

    def parse(query: QueryParams) -> float | None:
        value = query.get(name)
        if value is None:
            return None
        try:
            parsed = float(value)
        except ValueError:
            parsed = math.nan
        if not math.isfinite(parsed):
            raise UsageError(f"{name}={value[:40]!r} must be a finite number.")
        return parsed

    return Param(name, parse, "number")


def choice_param(name: str, choices: Sequence[Word], *, typescript: str) -> Param[Word | None]:
    """One of several words; None where it is not given."""
    return Param(name, _choice_parser(name, choices), typescript)


def bool_param(name: str, *, default: bool = False, note: str = "") -> Param[bool]:
    """A switch: 1 or 0."""
    choice = _choice_parser(name, ("0", "1"))

    def parse(query: QueryParams) -> bool:
        value = choice(query)
        return default if value is None else value == "1"

    return Param(name, parse, "boolean", note)


def ranks_param() -> Param[tuple[int, ...] | None]:
    """The ranks, 0 where none is given; None for ``all``."""
    texts = _texts_parser("rank", _MAX_RANKS)

    def parse(query: QueryParams) -> tuple[int, ...] | None:
        given = texts(query)
        if "all" in given:
            return None
        wrong = next((one for one in given if not (one.isascii() and one.isdigit())), None)
        if wrong is not None or any(len(one) > 9 for one in given):
            value = (wrong or max(given))[:40]
            raise UsageError(f"rank={value!r} must be a rank's number, or 'all'.")
        return tuple(int(one) for one in given) or (0,)

    note = "0 by default; `all`"
    return Param("rank", parse, 'number | "all" | readonly number[]', note, is_repeatable=True)


def _texts_parser(name: str, most: int) -> Callable[[QueryParams], tuple[str, ...]]:
    def parse(query: QueryParams) -> tuple[str, ...]:
        values = tuple(dict.fromkeys(query.getlist(name)))
        if len(values) > most:
            raise UsageError(f"{name}= is given {len(values)} times; {most} are accepted.")
        for value in values:
            _check_length(name, value)
        return values

    return parse


def _choice_parser(name: str, choices: Sequence[Word]) -> Callable[[QueryParams], Word | None]:
    def parse(query: QueryParams) -> Word | None:
        value = query.get(name)
        for one in choices:
            if one == value:
                return one
        if value is None:
            return None
        raise UsageError(f"{name}={value[:40]!r} is not known: use one of {', '.join(choices)}.")

    return parse


def _check_length(name: str, value: str) -> None:
    if len(value) > MAX_CHARACTERS:
        raise UsageError(f"{name}= has more than {MAX_CHARACTERS} characters.")
