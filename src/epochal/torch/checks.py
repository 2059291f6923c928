"""Checks of arguments: each error names the argument, what it may be, and what it was.

This module does not import torch.
"""

from __future__ import annotations

import math
import operator
from typing import Any

from epochal.errors import UsageError, ValueTypeError

_PLAIN = (str, bytes, bool, int, float, type(None))


def check(is_accepted: bool, value: object, accepted: str, *, name: str) -> None:
    """Refuse a value; `accepted` says what the argument may be, best with an example."""
    if not is_accepted:
        raise ValueTypeError(f"{name} must be {accepted}, got {shown(value)}.")


def check_module(model: Any, *, name: str = "model") -> None:
    """Refuse everything but a torch module."""
    check(callable(getattr(model, "named_parameters", None)), model, "a torch module", name=name)


def check_whole(value: Any, *, name: str, least: int | None = None, hint: str = "") -> int:
    """Return a whole number of Python or numpy; refuse anything else, and one below `least`.

    `hint` names what else is accepted, such as " or None".
    """
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None:
        raise ValueTypeError(f"{name} must be a whole number{hint}, got {shown(value)}.")
    if least is not None and number < least:
        raise UsageError(f"{name} must be at least {least}{hint}, got {number}.")
    return number


def check_number(value: Any, *, name: str, least: float = 0.0, is_above: bool = False) -> None:
    """Refuse everything but a finite number of at least `least`, or above it."""
    accepted = f"a finite number {'above' if is_above else 'of at least'} {least:g}"
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    check(is_number, value, accepted, name=name)
    if not math.isfinite(value) or value < least or (is_above and value == least):
        raise UsageError(f"{name} must be {accepted}, got {value!r}.")


def shown(value: object) -> str:
    """Write a plain value as Python does, and name the type of anything else."""
    text = repr(value) if isinstance(value, _PLAIN) else type(value).__name__
    return text if len(text) <= 80 else f"{text[:79]}…"
