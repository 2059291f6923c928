from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest

from epochal.errors import FormatError
from epochal.exchange.imports.sqlite_file import SqliteFile


def made(path: Path, *, mode: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(f"PRAGMA journal_mode={mode}")
    connection.execute("CREATE TABLE numbers (value)")
    connection.execute("INSERT INTO numbers VALUES (1)")
    return connection


def numbers(file: SqliteFile) -> list[int]:
    with file.opened() as connection:
        return [row[0] for row in connection.execute("SELECT value FROM numbers")]


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_nothing_beside_the_file_changes(mode: str, tmp_path: Path) -> None:
    made(tmp_path / "a.db", mode=mode).close()
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert numbers(SqliteFile(tmp_path / "a.db")) == [1]
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_write_ahead_log_of_a_living_program_is_read(tmp_path: Path) -> None:
    with contextlib.closing(made(tmp_path / "a.db", mode="wal")) as living:
        file = SqliteFile(tmp_path / "a.db")
        assert numbers(file) == [1]
        living.execute("INSERT INTO numbers VALUES (2)")
        assert numbers(file) == [1, 2]


def test_a_file_in_a_folder_that_cannot_be_written_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir()
    made(folder / "a.db", mode="wal").close()
    folder.chmod(0o555)
    try:
        assert numbers(SqliteFile(folder / "a.db")) == [1]
    finally:
        folder.chmod(0o755)


def test_a_file_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.db").write_bytes(b"SQLite format 3\0" + b"rubbish" * 100)
    with pytest.raises(FormatError, match=r"a\.db"):
        SqliteFile(tmp_path / "a.db").tables()
