"""Reads the parts of one run, on from where they were read to, for several threads.

Files change while they are read: a part grows, is sealed, or becomes shorter. ``RunReader.ask``
repeats a query until it finds the files as they are now.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from epochal.errors import FormatError
from epochal.records import Position, Record
from epochal.store.answers import Cursor
from epochal.store.local.entries import end_of, records_of
from epochal.store.local.part import StalePartError
from epochal.store.local.source import RunSource
from epochal.store.local.state import RunState

# A query is repeated each time that another part was sealed meanwhile.
_MAX_MOVES = 100


class Lockable(Protocol):
    """An object with a lock of its own."""

    lock: threading.RLock


P = ParamSpec("P")
T = TypeVar("T")
L = TypeVar("L", bound=Lockable)


def locked(method: Callable[Concatenate[L, P], T]) -> Callable[Concatenate[L, P], T]:
    """A method that holds its object's lock while it runs."""

    @functools.wraps(method)
    def call(owner: L, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with owner.lock:
            return method(owner, *args, **kwargs)

    return call


class RunReader:
    """The state of a run, made from its source; the caller holds the run's lock.

    ``num_changes`` counts the looks that found other files than the look before, the first one
    included; ``num_reads`` how often the state was made anew.
    """

    def __init__(self, source: RunSource) -> None:
        self.source = source
        self.num_changes = 0
        self.num_reads = 0
        # None before the first query, and after ``release``.
        self.state: RunState | None = None

    def refresh(self) -> bool:
        """Look for what was written since; True when there was anything."""
        before = self.source.signature
        self.source.look()
        if before is not None and before == self.source.signature:
            return False
        self.num_changes += 1
        if self.state is None:
            return True
        end = end_of(self.state)
        return end_of(self._load()) != end

    def known(self) -> RunState:
        """The state as it was last read; it is read now where it was not."""
        return self._load() if self.state is None else self.state

    def _load(self) -> RunState:
        if self.source.signature is None:
            self.refresh()
        if self.source.poll() or self.state is None:
            self.state = RunState(self.source.parts)
            self.num_reads += 1
        return self.state

    def ask(self, query: Callable[[RunState], T]) -> T:
        """The result of a query; repeated where a part was sealed or became shorter meanwhile.

        Raises ``FormatError`` where the files cannot be read.
        """
        for _ in range(_MAX_MOVES):
            try:
                return query(self.known())
            except (FileNotFoundError, StalePartError):
                self._catch_up()
            except OSError as error:
                raise FormatError(f"a part of the journal cannot be read: {error}") from error
        raise self._too_fast()

    def records(
        self, state: RunState, since: Cursor | None, lock: threading.RLock
    ) -> Iterator[tuple[Position, Record]]:
        """Every record as written, writer by writer in file order; after ``since`` if given.

        ``lock`` is taken only to read the files again after a part has moved.
        """
        seen = dict(since or {})
        for _ in range(_MAX_MOVES):
            try:
                for position, record in records_of(state, seen):
                    seen[position.writer] = position
                    yield position, record
            except (FileNotFoundError, StalePartError):
                with lock:
                    self._catch_up()
                    state = self.known()
            else:
                return
        raise self._too_fast()

    def release(self) -> None:
        """Let go of what was read; it is read again when asked for."""
        self.state = None
        self.source.close()

    def _catch_up(self) -> None:
        """Look at the files again; where they look the same, read all of them again."""
        before = self.source.signature
        self.refresh()
        if self.source.signature == before:
            self.release()

    def _too_fast(self) -> FormatError:
        return FormatError(f"the files in {self.source.path} change faster than they can be read.")
