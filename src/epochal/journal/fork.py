"""Calls in the children of this process: one hook for all objects, however many come and go."""

from __future__ import annotations

import os
import weakref
from typing import Protocol

from epochal.base.guard import Guard


class Forkable(Protocol):
    """An object that has to change when its process forks."""

    def continue_in_child(self) -> None:
        """Called in the child, right after the fork."""


# Python cannot remove what os.register_at_fork was given, so it is given one function, once.
_OBJECTS: weakref.WeakKeyDictionary[Forkable, None] = weakref.WeakKeyDictionary()
_REGISTERED: set[int] = set()


def call_in_children(owner: Forkable) -> None:
    """Call ``owner.continue_in_child()`` after each fork, in the child, while the owner lives.

    Owners are called in the order in which they were added.
    """
    _OBJECTS[owner] = None
    if not _REGISTERED:
        _REGISTERED.add(os.getpid())
        os.register_at_fork(after_in_child=_after_fork)


def _after_fork() -> None:
    guard = Guard()
    for owner in list(_OBJECTS):
        guard.run("fork", owner.continue_in_child)
