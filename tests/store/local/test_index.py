from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from epochal.store.local.store import LocalStore
from tests.store.journals import Journal, settle


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def learn(root: Path, cache: Path) -> None:
    with LocalStore(root, cache=cache) as store:
        for run in store.runs():
            _ = run.info


def test_a_run_that_has_not_changed_is_not_read_again(root: Path, cache: Path) -> None:
    journal = Journal(root, config={"lr": 1}).metrics(3, loss=2.5).finish()
    settle(root)
    with LocalStore(root, cache=cache) as store:
        assert store.run("x").summary("loss").last == 2.5
    size, stat = journal.path().stat().st_size, journal.path().stat()
    journal.path().write_bytes(b"#" * size)
    os.utime(journal.path(), ns=(stat.st_atime_ns, stat.st_mtime_ns))
    run = LocalStore(root, cache=cache).run("x")
    assert (run.info.step, run.info.status.state, run.config) == (3, "finished", {"lr": 1})
    assert run.summary("loss").last == 2.5


def test_a_run_that_has_changed_is_read_again(root: Path, cache: Path) -> None:
    journal = Journal(root).metrics(3, loss=2.5)
    settle(root)
    learn(root, cache)
    journal.metrics(4, loss=1.0)
    assert LocalStore(root, cache=cache).run("x").info.step == 4


def test_new_labels_are_seen(root: Path, cache: Path) -> None:
    journal = Journal(root).metrics(3, loss=2.5)
    settle(root)
    learn(root, cache)
    journal.folder.labels.write_text('{"name": "shown"}')
    assert LocalStore(root, cache=cache).run("shown").facts["name"] == "x"


def test_a_run_that_is_gone_is_forgotten(root: Path, cache: Path) -> None:
    Journal(root, "a").metrics(1, loss=1)
    Journal(root, "b").metrics(1, loss=1)
    settle(root)
    learn(root, cache)
    with LocalStore(root, cache=cache) as store:
        store.remove(store.run("a"))
    with sqlite3.connect(next(cache.glob("*.sqlite"))) as connection:
        paths = [path for (path,) in connection.execute("select path from runs")]
    connection.close()
    assert paths == [str(root / "p" / "b")]


def test_a_damaged_index_is_made_anew_and_that_is_counted(root: Path, cache: Path) -> None:
    Journal(root).metrics(1, loss=1)
    settle(root)
    learn(root, cache)
    path = next(cache.glob("*.sqlite"))
    path.write_bytes(b"not a database" * 100)
    store = LocalStore(root, cache=cache)
    assert [run.info.step for run in store.runs()] == [1]
    assert [("damaged" in text, count) for text, count in store.notices.items()] == [(True, 1)]
    store.close()
    learn(root, cache)
    assert path.read_bytes().startswith(b"SQLite")


def test_a_locked_index_is_done_without(root: Path, cache: Path) -> None:
    Journal(root).metrics(1, loss=1)
    settle(root)
    learn(root, cache)
    locker = sqlite3.connect(next(cache.glob("*.sqlite")), isolation_level=None)
    locker.execute("begin exclusive")
    store = LocalStore(root, cache=cache)
    assert [run.info.step for run in store.runs()] == [1]
    assert any("locked" in text for text in store.notices)
    locker.close()
    store.close()


def test_a_cache_that_cannot_be_written_is_done_without(root: Path, tmp_path: Path) -> None:
    Journal(root).metrics(1, loss=1)
    settle(root)
    (tmp_path / "file").write_text("no folder")
    with LocalStore(root, cache=tmp_path / "file" / "cache") as store:
        assert [run.info.step for run in store.runs()] == [1]
    assert any("cannot be used" in text for text in store.notices)


def test_a_number_that_the_index_cannot_hold_is_no_harm(root: Path, cache: Path) -> None:
    Journal(root, config={"seed": 2**200}).metrics(1, loss=1)
    settle(root)
    with LocalStore(root, cache=cache) as store:
        assert store.run("x").config == {"seed": 2**200}
    assert any("too large a number" in text for text in store.notices)
