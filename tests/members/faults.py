"""What a member may do wrong: raise anything, or not come back."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NoReturn

# Ends by itself, should nothing else end it.
HANG_S = 60.0


def raising(error: Exception) -> Callable[..., NoReturn]:
    """A function that raises, whatever it is given."""

    def broken(*_args: Any, **_kwargs: Any) -> NoReturn:
        raise type(error)(*error.args)

    return broken


def recursing(*_args: Any, **_kwargs: Any) -> NoReturn:
    """Calls itself for ever."""
    recursing()
    raise AssertionError


def hanging(*_args: Any, **_kwargs: Any) -> None:
    """Does not come back in time."""
    time.sleep(HANG_S)


RAISING: dict[str, Callable[..., Any]] = {
    "exception": raising(ValueError("broken on purpose")),
    "recursion": recursing,
    "memory": raising(MemoryError()),
}
ALL: dict[str, Callable[..., Any]] = {**RAISING, "hang": hanging}
