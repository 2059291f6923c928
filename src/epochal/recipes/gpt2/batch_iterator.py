"""How an evaluation iterates over its batches: plainly, or with a look for signals in between."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar

T = TypeVar("T")


class BatchIterator(Protocol):
    """Yields the items that it is given; between two of them it may raise or end the process."""

    def __call__(self, items: Iterable[T], /) -> Iterator[T]:
        """The same items, in order."""


def plain_iterator(items: Iterable[T], /) -> Iterator[T]:
    """The items, and nothing in between."""
    return iter(items)
