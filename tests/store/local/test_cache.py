from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from epochal.store.local import cache
from epochal.store.local.cache import HUGE_RUN_BYTES, CachedSegments
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
    """Make the copy of a part of a huge run."""
    path = CachedSegments(cache).find(found(journal), run_bytes=HUGE_RUN_BYTES)
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
    copies = CachedSegments(tmp_path / "cache")
    assert copies.find(found(journal), run_bytes=HUGE_RUN_BYTES) is None
    monkeypatch.setattr(cache, "LARGE_BYTES", 1)
    assert copies.find(found(journal), run_bytes=HUGE_RUN_BYTES) is None  # written to just now
    assert not (tmp_path / "cache").exists()


def test_a_run_that_is_not_huge_gets_no_copy(journal: Journal, tmp_path: Path) -> None:
    copies = CachedSegments(tmp_path / "cache")
    assert copies.find(found(journal), run_bytes=HUGE_RUN_BYTES - 1) is None


def test_old_copies_are_deleted_when_another_is_made(journal: Journal, tmp_path: Path) -> None:
    old = tmp_path / "cache" / "segments" / "old"
    old.mkdir(parents=True)
    (old / "loop.0001.0000.parquet").write_bytes(b"x")
    long_ago = time.time() - 2 * cache.KEEP_S
    os.utime(old / "loop.0001.0000.parquet", (long_ago, long_ago))
    copy_of(journal, tmp_path / "cache")
    assert not old.exists()


def test_a_part_of_which_no_copy_can_be_made_is_read_itself(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "HUGE_RUN_BYTES", 0)
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "segments").touch()
    with LocalStore(tmp_path / "runs", cache=tmp_path / "cache") as store:
        assert store.run("x").series("a").values.tolist() == [1, 2]
