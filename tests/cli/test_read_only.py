"""Runs that somebody else recorded, in a folder where the reader can change nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from epochal.journal.layout import RunFolder
from epochal.journal.summaries import write_summaries
from tests.doubles.ordinary_user import as_ordinary_user, make_folder
from tests.store.journals import Journal


@pytest.fixture
def runs() -> Iterator[Path]:
    """Runs that only their owner may change: with and without a summary, and one still running.

    They are not below ``tmp_path``, which only its owner may enter.
    """
    with tempfile.TemporaryDirectory() as temporary:
        above = Path(temporary)
        above.chmod(0o755)
        make_folder(above / "home")
        folder = above / "runs"
        for name in ("with-summary", "without"):
            journal = Journal(folder, name)
            for step in range(20):
                journal.metrics(step, loss=1.0 / (step + 1))
            journal.finish()
        assert write_summaries(RunFolder(folder / "p" / "with-summary"))
        Journal(folder, "live").metrics(3, loss=2.0)
        set_modes(folder, of_files=0o444, of_folders=0o555)
        yield folder
        set_modes(folder, of_files=0o644, of_folders=0o755)


def set_modes(folder: Path, *, of_files: int, of_folders: int) -> None:
    for path in (folder, *folder.rglob("*")):
        path.chmod(of_folders if path.is_dir() else of_files)


def files_of(folder: Path) -> list[tuple[str, int, int]]:
    found = ((path, path.stat()) for path in sorted(folder.rglob("*")))
    return [(str(path), stat.st_size, stat.st_mtime_ns) for path, stat in found]


def ask(runs: Path, *words: str, has_cache: bool) -> tuple[int, str]:
    """What an ordinary user is told, who has a cache folder or cannot make one either."""
    cache = runs.with_name("home") / "cache" if has_cache else runs / "cache"
    done = subprocess.run(
        [*as_ordinary_user(), sys.executable, "-m", "epochal", *words, "--dir", str(runs)],
        env={**os.environ, "HOME": str(cache.parent), "EPOCHAL_CACHE_DIR": str(cache)},
        cwd=runs.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize("has_cache", [True, False])
def test_who_can_only_read_sees_everything(runs: Path, has_cache: bool) -> None:
    before = files_of(runs)
    for _ in range(1 + has_cache):  # the second time from the cache
        code, listed = ask(runs, "ls", "--json", has_cache=has_cache)
        rows = {row["name"]: row for row in json.loads(listed)}
        assert code == 0
        assert {name: row["step"] for name, row in rows.items()} == {
            "with-summary": 19,
            "without": 19,
            "live": 3,
        }
        assert rows["live"]["status"] == "running"
        assert [rows[name]["loss"] for name in ("with-summary", "without")] == [0.05, 0.05]
    for name in ("with-summary", "without"):
        code, shown = ask(runs, "show", name, has_cache=has_cache)
        assert code == 0
        assert "0.0500 at 19" in shown
    code, points = ask(runs, "series", "without", "loss", "--json", has_cache=has_cache)
    assert (code, json.loads(points)["count"]) == (0, 20)
    assert files_of(runs) == before
    assert (runs.with_name("home") / "cache").exists() == has_cache


@pytest.mark.parametrize("words", [["without"], ["--all"]])
def test_pack_says_that_it_cannot_write(runs: Path, words: list[str]) -> None:
    before = files_of(runs)
    code, printed = ask(runs, "manage", "pack", *words, has_cache=True)
    named = ["with-summary", "without", "live"] if words == ["--all"] else words
    lines = [f"p/{name}: its folder cannot be written." for name in named]
    assert (code, sorted(printed.splitlines())) == (2, sorted(lines))
    assert files_of(runs) == before


def test_a_label_says_which_file_cannot_be_written(runs: Path) -> None:
    before = files_of(runs)
    code, printed = ask(runs, "tag", "without", "paper", has_cache=True)
    lock = runs / "p" / "without" / ".labels.lock"
    assert (code, printed) == (2, f"epochal: {lock}: Permission denied.\n")
    assert files_of(runs) == before
