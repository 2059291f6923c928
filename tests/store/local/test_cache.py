from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from epochal.store.local import cache
from epochal.store.local.cache import CachedSegments, make_copy
from epochal.store.local.listing import FoundPart, Listing
from epochal.store.local.store import LocalStore
from tests.store.journals import Journal, settle
from tests.store.sealing import LOOP


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Journal:
    monkeypatch.setattr(cache, "LARGE_BYTES", 100)
    journal = Journal(tmp_path / "runs").metrics(1, a=1).metrics(2, a=2)
    settle(tmp_path / "runs")
    return journal


def found(journal: Journal) -> FoundPart:
    return Listing(str(journal.folder.path)).journal[LOOP]


def copy_of(journal: Journal, cache: Path) -> Path:
    """Has the copy made that a server would have made, and waits for it."""
    copies = CachedSegments(cache, build=True)
    assert copies.find(found(journal), LOOP) is None
    deadline = time.monotonic() + 120
    while (path := copies.find(found(journal), LOOP)) is None and time.monotonic() < deadline:
        time.sleep(0.05)
    copies.close()
    assert path is not None
    return path


def test_a_large_part_is_read_from_a_copy_and_the_folder_is_left_alone(
    journal: Journal, tmp_path: Path
) -> None:
    files = sorted(path.name for path in journal.folder.path.rglob("*"))
    path = copy_of(journal, tmp_path / "cache")
    assert path.is_relative_to(tmp_path / "cache")
    with LocalStore(tmp_path / "runs", cache=tmp_path / "cache") as store:
        run = store.run("x")
        assert run.series("a").values.tolist() == [1, 2]
        assert run.held_bytes == 0
    assert sorted(path.name for path in journal.folder.path.rglob("*")) == files


def test_a_part_that_grew_is_read_itself(journal: Journal, tmp_path: Path) -> None:
    copy_of(journal, tmp_path / "cache")
    with LocalStore(tmp_path / "runs", cache=tmp_path / "cache") as store:
        run = store.run("x")
        assert len(run.series("a")) == 2
        journal.metrics(3, a=3)
        assert run.refresh()
        assert run.series("a").values.tolist() == [1, 2, 3]


def test_small_and_growing_parts_get_no_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path / "runs").metrics(1, a=1)
    copies = CachedSegments(tmp_path / "cache", build=True)
    assert copies.find(found(journal), LOOP) is None
    monkeypatch.setattr(cache, "LARGE_BYTES", 1)
    assert copies.find(found(journal), LOOP) is None  # written to just now
    assert not (tmp_path / "cache").exists()


def test_old_copies_are_deleted_when_another_is_made(journal: Journal, tmp_path: Path) -> None:
    old = tmp_path / "cache" / "old"
    old.mkdir(parents=True)
    (old / "loop.0001.0000.parquet").write_bytes(b"x")
    long_ago = time.time() - 2 * cache.KEEP_S
    os.utime(old / "loop.0001.0000.parquet", (long_ago, long_ago))
    make_copy(journal.path(), tmp_path / "cache" / "new")
    assert not old.exists()


def test_a_copy_that_cannot_be_made_leaves_nothing(tmp_path: Path) -> None:
    target = tmp_path / "cache" / "x"
    command = [
        sys.executable,
        "-m",
        "epochal.store.local.cache",
        str(tmp_path / "no.jsonl"),
        str(target),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "not a part of a journal" in done.stderr
    assert not target.exists()
