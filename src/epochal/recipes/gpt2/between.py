"""What an evaluation goes through its batches with, so that somebody can look in between."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar

T = TypeVar("T")


class Between(Protocol):
    """Gives what it is given, one by one; what it does between two may end the process or raise."""

    def __call__(self, items: Iterable[T], /) -> Iterator[T]:
        """The same items, in order."""


def straight(items: Iterable[T], /) -> Iterator[T]:
    """Nothing in between."""
    return iter(items)
