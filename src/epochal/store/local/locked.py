"""Methods of a run that hold its lock while they run, so that several threads may ask one store."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Concatenate, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Lockable(Protocol):
    """What has a lock of its own."""

    lock: threading.RLock


L = TypeVar("L", bound=Lockable)


def locked(method: Callable[Concatenate[L, P], T]) -> Callable[Concatenate[L, P], T]:
    """A method that holds its object's lock while it runs."""

    @functools.wraps(method)
    def call(owner: L, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with owner.lock:
            return method(owner, *args, **kwargs)

    return call
