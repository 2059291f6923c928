"""Query parameters: each is declared once, checked and bounded when a handler reads it.

A handler calls a declared parameter with its request. The endpoint table lists the same objects,
and the specification and the TypeScript types are generated from them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar, cast

import msgspec
from starlette.requests import Request

from epochal.errors import UsageError

MAX_CHARACTERS = 4096
_MAX_RANKS = 1024
T = TypeVar("T")
Word = TypeVar("Word", bound=str)


class Param(msgspec.Struct, Generic[T], frozen=True):
    """One query parameter: ``typescript`` is its type there, ``note`` its default and bounds.

    ``parse`` takes the texts that are given under its name, without repetitions. At most ``most``
    texts are accepted; None takes the last one.
    """

    name: str
    parse: Callable[[Sequence[str]], T]
    typescript: str
    note: str = ""
    most: int | None = None
    longest: int = MAX_CHARACTERS
    is_required: bool = False

    def __call__(self, request: Request) -> T:
        """Read the parameter; raises ``UsageError`` for an invalid value."""
        texts = tuple(dict.fromkeys(request.query_params.getlist(self.name)))
        if self.most is None:
            texts = texts[-1:]
        elif len(texts) > self.most:
            raise UsageError(f"{self.name}= is given {len(texts)} times; {self.most} are accepted.")
        if any(len(text) > self.longest for text in texts):
            raise UsageError(f"{self.name}= has more than {self.longest} characters.")
        if self.is_required and not texts:
            raise UsageError(f"{self.name}= is missing.")
        return self.parse(texts)


def str_param(name: str, *, note: str = "") -> Param[str | None]:
    """One text; None where it is not given."""
    return Param(name, lambda texts: texts[0] if texts else None, "string", note)


def str_params(name: str, *, most: int, note: str = "") -> Param[tuple[str, ...]]:
    """Every text given under a name, without repetitions."""
    return Param(name, tuple, "readonly string[]", note, most)


def required_param(name: str, *, most: int) -> Param[tuple[str, ...]]:
    """At least one text under a name."""
    return Param(name, tuple, "readonly string[]", most=most, is_required=True)


def int_param(name: str, *, default: int, most: int, note: str = "") -> Param[int]:
    """A whole number from 0 up to ``most``."""

    def parse(texts: Sequence[str]) -> int:
        for text in texts:
            if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= most):
                raise UsageError(f"{name}={text[:40]!r} must be a whole number from 0 to {most}.")
            return int(text)
        return default

    return Param(name, parse, "number", note)


def float_param(name: str) -> Param[float | None]:
    """A finite number; None where it is not given."""

    def parse(texts: Sequence[str]) -> float | None:
        for text in texts:
            try:
                parsed = float(text)
            except ValueError:
                parsed = math.nan
            if not math.isfinite(parsed):
                raise UsageError(f"{name}={text[:40]!r} must be a finite number.")
            return parsed
        return None

    return Param(name, parse, "number")


def choice_param(name: str, choices: Sequence[Word], *, typescript: str) -> Param[Word | None]:
    """One of several words; None where it is not given."""

    def parse(texts: Sequence[str]) -> Word | None:
        for text in texts:
            if text not in choices:
                known = ", ".join(choices)
                raise UsageError(f"{name}={text[:40]!r} is not known: use one of {known}.")
            return cast(Word, text)
        return None

    return Param(name, parse, typescript)


def bool_param(name: str, *, default: bool = False, note: str = "") -> Param[bool]:
    """A switch: 1 or 0."""
    choice = choice_param(name, ("0", "1"), typescript="boolean")

    def parse(texts: Sequence[str]) -> bool:
        return default if not texts else choice.parse(texts) == "1"

    return Param(name, parse, "boolean", note)


def ranks_param() -> Param[tuple[int, ...] | None]:
    """The ranks, 0 where none is given; None for ``all``."""

    def parse(texts: Sequence[str]) -> tuple[int, ...] | None:
        if "all" in texts:
            return None
        for text in texts:
            if not (text.isascii() and text.isdigit() and len(text) < 10):
                raise UsageError(f"rank={text[:40]!r} must be a rank's number, or 'all'.")
        return tuple(map(int, texts)) or (0,)

    note = "0 by default; `all`"
    return Param("rank", parse, 'number | "all" | readonly number[]', note, _MAX_RANKS)
