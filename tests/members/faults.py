"""What a member may do wrong: raise, or not come back.

``tests/base/test_guard.py`` shows that the guard treats every exception alike, so members raise
one.
"""

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


def hanging(*_args: Any, **_kwargs: Any) -> None:
    """Does not come back in time."""
    time.sleep(HANG_S)


broken = raising(ValueError("broken on purpose"))
FAULTS: dict[str, Callable[..., Any]] = {"raises": broken, "hangs": hanging}
