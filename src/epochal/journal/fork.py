"""Calls in the children of this process."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable


def call_in_children(method: Callable[[], None]) -> None:
    """Call a bound method after each fork, in the child, for as long as its object lives."""
    if not hasattr(os, "register_at_fork"):
        return  # platforms without fork
    reference = weakref.WeakMethod(method)

    def after_fork() -> None:
        alive = reference()
        if alive is not None:
            alive()

    os.register_at_fork(after_in_child=after_fork)
