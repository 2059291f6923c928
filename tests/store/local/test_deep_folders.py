"""Run folders below those of projects, where a SummaryWriter may put them."""

from __future__ import annotations

from pathlib import Path

import pytest

import epochal
from epochal import SummaryWriter
from epochal.store import listing
from tests.exchange.imports.samples import TENSORBOARD


@pytest.fixture(autouse=True)
def no_git(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EPOCHAL_GIT", "0")


def write_run(folder: Path) -> None:
    with SummaryWriter(folder) as writer:
        writer.add_scalar("loss", 1.0, 0)


def names(root: Path) -> list[str]:
    with epochal.open(root) as runs:
        return sorted(Path(run.info.folder).relative_to(root).as_posix() for run in runs)


def test_runs_of_every_depth_are_listed(tmp_path: Path) -> None:
    places = ["a", "b/c", "d/e/f", "d/e/g", "d/h/i/j/k"]
    for place in places:
        write_run(tmp_path / place)
    assert names(tmp_path) == places


def test_a_run_that_appears_deep_is_found_on_the_next_look(tmp_path: Path) -> None:
    write_run(tmp_path / "a")
    with epochal.open(tmp_path) as runs:
        assert len(runs.runs()) == 1
        write_run(tmp_path / "b" / "c" / "d")
        runs.refresh()
        assert len(runs.runs()) == 2


def test_other_trackers_beside_deep_runs_are_found(tmp_path: Path) -> None:
    write_run(tmp_path / "x" / "y" / "ours")
    (tmp_path / "x" / "y" / "theirs").symlink_to(TENSORBOARD)
    with epochal.open(tmp_path, follow_links=True) as runs:
        trackers = {run.info.tracker for run in runs}
    assert trackers == {None, "TensorBoard"}


def test_the_number_of_folders_that_are_looked_into_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        (tmp_path / "data" / f"{number:02d}" / "x").mkdir(parents=True)
    write_run(tmp_path / "project" / "run")
    write_run(tmp_path / "data" / "00" / "x" / "deep")
    monkeypatch.setattr(listing, "_MAX_DEEP_FOLDERS", 0)
    assert names(tmp_path) == ["project/run"]
    monkeypatch.setattr(listing, "_MAX_DEEP_FOLDERS", 100)
    assert names(tmp_path) == ["data/00/x/deep", "project/run"]


def test_links_below_projects_are_not_followed_in_circles(tmp_path: Path) -> None:
    write_run(tmp_path / "a" / "b" / "c")
    (tmp_path / "a" / "b" / "back").symlink_to(tmp_path)
    (tmp_path / "a" / "again").symlink_to(tmp_path / "a")
    assert names(tmp_path) == ["a/b/c"]
