"""Which files are read."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from epochal.errors import UsageError
from epochal.settings import cache_folder, file_paths, read_setting, read_settings
from tests.settings.places import Places


def test_the_nearest_file_upward_is_the_projects(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    places.write('project = "outer"')
    places.write('project = "inner"', name="a/epochal.toml")
    (places.project / "a" / "b").mkdir()
    monkeypatch.chdir(places.project / "a" / "b")
    assert read_settings().project == "inner"


@pytest.mark.parametrize("is_file", [True, False])
def test_the_search_ends_at_the_repository(
    places: Places, monkeypatch: pytest.MonkeyPatch, is_file: bool
) -> None:
    places.write('project = "outer"')
    (places.project / "repository" / "src").mkdir(parents=True)
    mark = places.project / "repository" / ".git"
    mark.write_text("gitdir: x") if is_file else mark.mkdir()
    monkeypatch.chdir(places.project / "repository" / "src")
    assert read_settings().project == "default"
    places.write('project = "inner"', name="repository/epochal.toml")
    assert read_settings().project == "inner"


def test_a_variable_names_the_projects_file(
    places: Places, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    places.write('project = "near"')
    other = tmp_path / "other.toml"
    other.write_text('project = "other"')
    monkeypatch.setenv("EPOCHAL_CONFIG", str(other))
    assert read_settings().project == "other"
    other.unlink()
    with pytest.raises(UsageError, match=r"other\.toml cannot be read: No such file"):
        read_settings()


def test_a_variable_has_no_file_read(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    places.write("this is no TOML")
    places.write_user("nor is this")
    monkeypatch.setenv("EPOCHAL_CONFIG", "off")
    assert read_settings().project == "default"
    assert file_paths() == (None, None)


def test_a_working_folder_that_is_gone_has_no_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert read_settings().project == "default"


def test_what_others_put_into_a_folder_for_all_is_not_read(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = places.write('project = "planted"')
    places.project.chmod(0o777 | stat.S_ISVTX)
    assert read_settings().project == "planted"
    owner = path.stat().st_uid
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    if owner != 0:
        assert read_settings().project == "default"


def test_one_setting_is_read_whatever_stands_in_a_file(places: Places) -> None:
    places.write('projekt = "x"\nverbosity = "verbose"')
    assert read_setting("verbosity") == "verbose"
    places.write("verbosity = 9")
    assert read_setting("verbosity") == "normal"
    places.write("[")
    assert read_setting("verbosity") == "normal"


def test_the_cache_folder_may_stand_in_a_file(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EPOCHAL_CACHE_DIR")
    places.write('cache_dir = "cache"')
    assert cache_folder() == places.project / "cache"
