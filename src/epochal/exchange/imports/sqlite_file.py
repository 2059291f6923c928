"""Reads another program's SQLite file without changing it.

SQLite would finish an interrupted write of a file that has a write-ahead log or a journal. So a
copy of such a file is read instead. The copy is made again when the file has changed.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import ClassVar
from urllib.parse import quote

from epochal.base.atomic_file import has_locks, temporary_folder
from epochal.errors import FormatError
from epochal.exchange.imports.foreign import Files, FileSignature, R, file_signature
from epochal.journal.layout import SearchBounds
from epochal.journal.regular_file import regular_only

MAGIC = b"SQLite format 3\0"
_WRITE_AHEAD = 2
_FORMAT_BYTE = 18
_WAIT_S = 5.0
_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table'"
_COLUMNS = "SELECT name FROM pragma_table_info(?)"


class SqliteFile:
    """One file, and the copy of it where one is needed; the copy goes with this object."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._copy: Path | None = None
        self._copied: object = None

    def signature(self) -> FileSignature:
        """Size and time of the file and of those that SQLite keeps beside it."""
        return file_signature(self.path, *self._sides())

    @contextlib.contextmanager
    def opened(self) -> Iterator[sqlite3.Connection]:
        """A connection for reading; ``FormatError`` for a damaged file, also while it is open."""
        try:
            connection = self._connect()
            connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
            with contextlib.closing(connection):
                yield connection
        # The words of an error may quote the damage itself, which then is no text.
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise FormatError(f"{self.path} cannot be read as an SQLite file: {error}.") from error

    def tables(self) -> dict[str, set[str]]:
        """The tables, each with the names of its columns; raises ``FormatError``."""
        with self.opened() as connection:
            names = [row[0] for row in connection.execute(_TABLES)]
            return {n: {row[0] for row in connection.execute(_COLUMNS, (n,))} for n in names}

    def _connect(self) -> sqlite3.Connection:
        # SQLite itself opens what lies beside the file, and would wait for a pipe's writer.
        for side in self._sides():
            if side.exists() and not side.is_file():
                raise FormatError(f"{side} is not a regular file, so {self.path} is not read.")
        if any(found[1] for found in file_signature(*self._sides())):
            return sqlite3.connect(self._fresh_copy(), timeout=_WAIT_S)
        with open(self.path, "rb", opener=regular_only) as file:
            start, is_lockable = file.read(_FORMAT_BYTE + 1), has_locks(file.fileno())
        writes_ahead = len(start) > _FORMAT_BYTE and start[_FORMAT_BYTE] == _WRITE_AHEAD
        # Without its log, a file in that mode is complete, but opening it would make a new log.
        mode = "immutable=1" if writes_ahead or not is_lockable else "mode=ro"
        return sqlite3.connect(f"file:{quote(str(self.path))}?{mode}", uri=True, timeout=_WAIT_S)

    def _fresh_copy(self) -> Path:
        seen = self.signature()
        if self._copy is None:
            self._copy = temporary_folder(self) / self.path.name
        if self._copied != seen:
            # The log before the file: a write in between then looks unfinished, and is left out.
            for source in (*self._sides(), self.path):
                target = self._copy.with_name(source.name)
                target.unlink(missing_ok=True)
                with contextlib.suppress(FileNotFoundError):
                    shutil.copyfile(source, target)
            self._copied = seen
        return self._copy

    def _sides(self) -> tuple[Path, Path]:
        name = self.path.name
        return self.path.with_name(f"{name}-wal"), self.path.with_name(f"{name}-journal")


class SqliteFiles(Files[R]):
    """The SQLite files of one format, which have at least these tables and columns."""

    tables: ClassVar[Mapping[str, Set[str]]]

    def __init__(self, path: Path, bounds: SearchBounds | None = None) -> None:
        super().__init__(path, bounds)
        self._files: dict[Path, SqliteFile] = {}

    def files(self) -> Sequence[SqliteFile]:
        """The databases that are there; raises ``FormatError`` for a damaged one."""
        found = {path: self._files.get(path) or self._opened(path) for path in super().files()}
        self._files = {path: file for path, file in found.items() if file is not None}
        return list(self._files.values())

    def _opened(self, path: Path) -> SqliteFile | None:
        if not path.is_file() or not _start(path).startswith(MAGIC):
            return None
        file = SqliteFile(path)
        there = file.tables()
        is_ours = all(columns <= there.get(name, set()) for name, columns in self.tables.items())
        return file if is_ours else None


def _start(path: Path) -> bytes:
    with open(path, "rb", opener=regular_only) as file:
        return file.read(100)
