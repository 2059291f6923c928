"""The trash: where deleted runs lie, and how they come back."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from epochal.errors import RunNotFoundError, UsageError
from epochal.store.local.catalog import folder_store
from epochal.store.local.trash import TRASH_FOLDER
from tests.store.journals import Journal


def test_a_deleted_run_lies_beside_its_place_whole(tmp_path: Path) -> None:
    journal = Journal(tmp_path).metrics(1, loss=2.5).finish()
    before = journal.path().read_bytes()
    store = folder_store(tmp_path)
    moved = Path(store.remove(store.run("x")).folder)
    assert moved.parent.parent == tmp_path / "p" / TRASH_FOLDER
    assert (moved / "journal" / journal.path().name).read_bytes() == before
    assert not journal.folder.path.exists()


def test_no_store_lists_what_is_in_the_trash(tmp_path: Path) -> None:
    Journal(tmp_path).finish()
    Journal(tmp_path, "y").finish()
    with folder_store(tmp_path) as store:
        store.remove(store.run("x"))
    for root in (tmp_path, tmp_path / "p"):
        assert [run.info.name for run in folder_store(root).runs()] == ["y"]
        assert [run.name for run in folder_store(root).trash.runs()] == ["x"]


def test_runs_of_one_name_can_all_be_deleted(tmp_path: Path) -> None:
    for number in range(3):
        Journal(tmp_path, id=f"id-{number}").finish()
        with folder_store(tmp_path) as store:
            store.remove(store.run("x"))
    trash = folder_store(tmp_path).trash
    assert {run.id for run in trash.runs()} == {"id-0", "id-1", "id-2"}
    assert trash.find("id-1").id == "id-1"
    assert trash.find("x") == trash.runs()[0]


def test_a_restored_run_leaves_the_new_one_of_its_name_alone(tmp_path: Path) -> None:
    Journal(tmp_path, id="old").finish()
    store = folder_store(tmp_path)
    store.remove(store.run("x"))
    Journal(tmp_path, id="new").finish()
    assert store.trash.restore(store.trash.find("old")) == str(tmp_path / "p" / "x-2")
    store.refresh()
    assert {run.id for run in store.runs()} == {"old", "new"}


def test_an_emptied_trash_leaves_no_folder(tmp_path: Path) -> None:
    Journal(tmp_path).finish()
    store = folder_store(tmp_path)
    store.remove(store.run("x"))
    store.trash.erase(store.trash.find("x"))
    assert os.listdir(tmp_path / "p") == []


def test_a_folder_of_the_trash_says_when_its_runs_were_deleted(tmp_path: Path) -> None:
    Journal(tmp_path).finish()
    Journal(tmp_path, "y").finish()
    store = folder_store(tmp_path)
    group = Path(store.remove(store.run("x")).folder).parent
    group.rename(group.with_name("20200101T000000Z"))
    store.remove(store.run("y"))
    assert [run.name for run in store.trash.runs()] == ["y", "x"]
    assert time.time() - store.trash.find("x").deleted > 86400


def test_nothing_outside_of_the_trash_is_erased(tmp_path: Path) -> None:
    journal = Journal(tmp_path).finish()
    Journal(tmp_path, "y").finish()
    store = folder_store(tmp_path)
    moved = store.remove(store.run("y"))
    forged = type(moved)(
        id="", name="", project="", folder=str(journal.folder.path), origin="", deleted=0.0
    )
    with pytest.raises(UsageError, match="not in the trash"):
        store.trash.erase(forged)
    assert journal.folder.path.exists()


def test_a_key_that_fits_nothing_says_where_to_look(tmp_path: Path) -> None:
    with pytest.raises(RunNotFoundError, match="'epochal manage trash'"):
        folder_store(tmp_path).trash.find("x")
