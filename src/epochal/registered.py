"""What a package provides to the packages below it, which must not import it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Registered(Generic[T]):
    """A value that a package above registers; the lower package gets it by calling this.

    The package above registers a function that loads the value. Nothing is loaded before the
    first call.
    """

    def __init__(self) -> None:
        self._load: Callable[[], T] | None = None

    def register(self, load: Callable[[], T]) -> None:
        """Have calls return what `load` returns."""
        self._load = load

    def __call__(self) -> T:
        """Load and return the value."""
        assert self._load is not None, "the package above registers when it is imported"
        return self._load()
