"""Remembers the rows of runs between processes, so that ten thousand runs are listed at once.

The index is a convenience: it lies in the user's cache folder, is valid only for files that are as
they were, and can be deleted at any time. One that is locked, damaged or cannot be written is done
without; that is counted, and the store can say so.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from epochal.store.row import Row

T = TypeVar("T")

# Part of the file's name: an older Epochal goes on with its own.
VERSION = 6
_LOCKED_FOR_S = 0.25
_TOO_MUCH = "a run whose configuration has too large a number or too deep a nesting is not kept."
_TABLE = """
create table if not exists runs (path text primary key, signature text not null, row blob not null)
"""


class Index:
    """Rows by run folder; without a folder of its own it remembers nothing."""

    def __init__(self, folder: Path | None) -> None:
        self._path = None if folder is None else folder / f"runs-{VERSION}.sqlite"
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(Row)
        self._notices: Counter[str] = Counter()

    @property
    def notices(self) -> Mapping[str, int]:
        """What went wrong, in sentences, and how often."""
        return dict(self._notices)

    def rows(self, root: Path) -> dict[str, tuple[str, bytes]]:
        """Signature and encoded row of every run below a folder, by the run's path."""

        def question(connection: sqlite3.Connection) -> dict[str, tuple[str, bytes]]:
            found = connection.execute(
                "select path, signature, row from runs where path > ? and path < ? or path = ?",
                (f"{root}/", f"{root}0", str(root)),  # "0" is the character after "/"
            )
            return {path: (signature, row) for path, signature, row in found}

        return self._ask(question) or {}

    def decode(self, row: bytes) -> Row | None:
        """An encoded row; None for one that is not of this version after all."""
        try:
            return self._decoder.decode(row)
        except (msgspec.DecodeError, UnicodeDecodeError):
            self._notices["a row of the index could not be read and is made anew."] += 1
            return None

    def put(self, rows: Iterable[tuple[str, str, Row]]) -> None:
        """Remember rows, each by path and signature."""
        encoded: list[tuple[str, str, bytes]] = []
        for path, signature, row in rows:
            try:
                encoded.append((path, signature, self._encoder.encode(row)))
            except (OverflowError, RecursionError):
                self._notices[_TOO_MUCH] += 1
        if encoded:
            self._ask(lambda c: c.executemany("replace into runs values (?, ?, ?)", encoded))

    def remove(self, paths: Iterable[str]) -> None:
        """Forget runs that are gone."""
        gone = [(path,) for path in paths]
        if gone:
            self._ask(lambda c: c.executemany("delete from runs where path = ?", gone))

    def _ask(self, question: Callable[[sqlite3.Connection], T]) -> T | None:
        """The answer, in a transaction of its own; None where there is no index to be had."""
        if self._path is None:
            return None
        try:
            # Closed after each question: nothing is locked or left open while a store just waits.
            with contextlib.closing(_opened(self._path)) as connection, connection:
                return question(connection)
        except sqlite3.OperationalError as error:  # locked, read-only, no room
            self._notices[f"the index {self._path} cannot be used: {error}."] += 1
        except sqlite3.DatabaseError as error:
            self._notices[f"the index {self._path} is damaged and is made anew: {error}."] += 1
            with contextlib.suppress(OSError):
                self._path.unlink()
        except OSError as error:
            self._notices[f"the index {self._path} cannot be used: {error}."] += 1
        return None


def _opened(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path, timeout=_LOCKED_FOR_S)
    try:
        # No write-ahead log, which network file systems cannot have; and what a power cut takes is
        # made anew.
        connection.execute("pragma synchronous = off")
        connection.execute(_TABLE)
    except sqlite3.Error:
        connection.close()
        raise
    return connection
