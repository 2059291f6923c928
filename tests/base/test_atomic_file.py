from __future__ import annotations

from pathlib import Path

import pytest

from epochal.base.atomic_file import new_text_file, replaced_file, sync_folder, sync_or_rewrite
from tests.doubles.journals import failing_sync


def test_a_block_that_ends_replaces_the_file(tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.write_text("old")
    with replaced_file(path, durable=True) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
    sync_folder(tmp_path)
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_block_that_raises_leaves_the_old_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    path.write_text("old")
    with pytest.raises(UnicodeEncodeError), new_text_file(path) as out:
        out.write("new \udc80")
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_text() == "old"


def test_an_error_names_the_file_and_not_the_temporary_one(tmp_path: Path) -> None:
    path = tmp_path / "gone" / "state"
    with pytest.raises(FileNotFoundError) as caught, replaced_file(path) as temporary:
        temporary.write_text("new")
    assert caught.value.filename == str(path)


def test_a_text_file_makes_its_folders_and_keeps_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "out.csv"
    with new_text_file(path) as out:
        out.write("x\r\ny\n")
    assert path.read_bytes() == b"x\r\ny\n"


def test_a_file_that_is_written_again_keeps_its_content_and_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "uncommitted.patch"
    path.write_bytes(b"a\0b")
    path.chmod(0o600)
    before = path.stat()
    sync_or_rewrite(path)
    assert path.stat().st_ino == before.st_ino
    with failing_sync(path):
        sync_or_rewrite(path)
    assert path.stat().st_ino != before.st_ino
    assert (path.read_bytes(), path.stat().st_mode) == (b"a\0b", before.st_mode)
