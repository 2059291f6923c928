"""What tools/budget.py prints of a change, and how it tightens numbers."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tools import budget


def git(folder: Path, *arguments: str) -> None:
    command = ["git", "-C", str(folder), "-c", "user.name=x", "-c", "user.email=x", *arguments]
    subprocess.run(command, check=True, capture_output=True)


def write(folder: Path, **lines: int) -> None:
    """Write files of so many code lines, 0 for none; ``run_x`` is a file of the room ``run``."""
    for name, count in lines.items():
        room, _, stem = name.partition("_")
        path = folder / "src" / "epochal" / room / f"{stem}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('"""Words."""\n\n# A comment.\n' + "x = 1\n" * count, encoding="utf-8")
        if not count:
            path.unlink()


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "repository"
    write(folder, run_a=10, run_b=5, store_a=7)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    monkeypatch.setattr(budget, "ROOT", folder)
    return folder


def commit(folder: Path) -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "more")


def test_uncommitted_changes_of_main_are_compared_with_its_last_commit(repository: Path) -> None:
    assert budget.difference(budget.rooms()) == []
    write(repository, run_a=12, run_b=0, store_new=3, store_a=7)
    assert [line.split() for line in budget.difference(budget.rooms())] == [
        ["this", "change", "before", "after"],
        ["run", "15", "12", "-3"],
        ["store", "7", "10", "+3"],
        ["total", "22", "22", "+0"],
    ]


def test_a_commit_of_main_is_compared_with_the_one_before(repository: Path) -> None:
    write(repository, run_a=12)
    commit(repository)
    write(repository, run_a=13)
    commit(repository)
    assert budget.changes() == {"run": 1}


def test_a_branch_is_compared_with_where_it_left_main(repository: Path) -> None:
    git(repository, "checkout", "-qb", "branch")
    write(repository, run_a=12)
    commit(repository)
    git(repository, "checkout", "-q", "main")
    write(repository, store_a=100)
    commit(repository)
    git(repository, "checkout", "-q", "branch")
    write(repository, run_b=6)
    assert budget.changes() == {"run": 3}


def test_what_has_no_python_yet_and_what_counts_elsewhere(repository: Path) -> None:
    for name, text in (
        ("src/epochal/run/a.py", "x = (\n"),
        ("tests/test_a.py", "x = 1\n"),
        ("web/src/a.ts", "let a;\n\nlet b;\n"),
        ("web/src/wire.ts", "let a;\n"),
        ("notes.md", "words\n"),
    ):
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_text(text, encoding="utf-8")
    assert budget.changes() == {"run": -10, "tests": 1, "page, lines": 3}


def test_a_shallow_clone_is_compared_with_nothing(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(repository, run_a=12)
    commit(repository)
    shallow = tmp_path / "shallow"
    git(repository, "clone", "-q", "--depth", "1", f"file://{repository}", str(shallow))
    monkeypatch.setattr(budget, "ROOT", shallow)
    assert budget.changes() == {}


def test_numbers_are_tightened_and_never_raised() -> None:
    head = "[tool.a]\nrun = 1\n\n[tool.epochal.budget] # Why.\n"
    settings = f"{head}total = 9000\nold = 3\nrun = 5000\nstore = 100\n\n[b]\n"
    counts = Counter(run=4100, store=90, new=10)
    limits = {"total": 9000, "old": 3, "run": 5000, "store": 100}
    assert budget.lowered(settings, counts, limits) == (
        f"{head}total = 5200\nnew = 130\nrun = 4223\nstore = 100\n\n[b]\n"
    )


def test_the_generated_part_of_a_page_has_no_words() -> None:
    page = "one two\n<!-- generated: rules -->\nthree\n<!-- end -->\nfour\n"
    assert budget.words_of(page) == 3
