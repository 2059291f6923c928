"""What a request asks for: parameters checked and bounded; a wrong one is named in a sentence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

from starlette.requests import Request

from epochal.errors import UsageError

MAX_TEXT = 4096
T = TypeVar("T", bound=str)


def text(request: Request, name: str) -> str | None:
    """One text, None where it is not given."""
    value = request.query_params.get(name)
    if value is not None and len(value) > MAX_TEXT:
        raise UsageError(f"{name}= has more than {MAX_TEXT} characters.")
    return value


def texts(request: Request, name: str, *, most: int) -> tuple[str, ...]:
    """Every text given under a name, without repetitions."""
    values = tuple(dict.fromkeys(request.query_params.getlist(name)))
    if len(values) > most:
        raise UsageError(f"{name}= is given {len(values)} times; {most} are accepted.")
    if any(len(value) > MAX_TEXT for value in values):
        raise UsageError(f"{name}= has more than {MAX_TEXT} characters.")
    return values


def needed(request: Request, name: str, *, most: int) -> tuple[str, ...]:
    """The same, with at least one."""
    values = texts(request, name, most=most)
    if not values:
        raise UsageError(f"{name}= is missing.")
    return values


def whole(request: Request, name: str, *, default: int, most: int) -> int:
    """A whole number from 0 up to ``most``."""
    value = request.query_params.get(name)
    if value is None:
        return default
    if not (value.isascii() and value.isdigit() and len(value) < 20 and int(value) <= most):
        raise UsageError(f"{name}={value[:40]!r} must be a whole number from 0 to {most}.")
    return int(value)


def number(request: Request, name: str) -> float | None:
    """A finite number, None where it is not given."""
    value = request.query_params.get(name)
    if value is None:
        return None
    try:
        parsed = float(value)
    except ValueError:
        parsed = math.nan
    if not math.isfinite(parsed):
        raise UsageError(f"{name}={value[:40]!r} must be a finite number.")
    return parsed


def choice(request: Request, name: str, choices: Sequence[T], *, default: T | None) -> T | None:
    """One of some words."""
    value = request.query_params.get(name)
    if value is None:
        return default
    for one in choices:
        if one == value:
            return one
    raise UsageError(f"{name}={value[:40]!r} is not known: use one of {', '.join(choices)}.")


def flag(request: Request, name: str, *, default: bool = False) -> bool:
    """A switch: 1 or 0."""
    word = choice(request, name, ("0", "1"), default="1" if default else "0")
    return word == "1"


def ranks(request: Request, *, most: int = 1024) -> tuple[int, ...] | None:
    """The ranks asked for, 0 where none is given; None for ``all``."""
    given = texts(request, "rank", most=most)
    if "all" in given:
        return None
    wrong = next((one for one in given if not (one.isascii() and one.isdigit())), None)
    if wrong is not None or any(len(one) > 9 for one in given):
        raise UsageError(f"rank={(wrong or max(given))[:40]!r} must be a rank's number, or 'all'.")
    return tuple(int(one) for one in given) or (0,)
