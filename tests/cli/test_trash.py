"""``rm``, ``trash``, ``prune``, ``du``, and labels of many runs at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from epochal.cli.main import main
from epochal.journal.layout import read_json
from epochal.store.local.catalog import folder_store
from tests.store.journals import Journal

Capture = pytest.CaptureFixture[str]
DAY = 86400.0


def epochal(root: Path, *words: str) -> int:
    return main([*words, "--dir", str(root)])


def listed(root: Path) -> set[str]:
    return {run.info.name for run in folder_store(root).runs()}


def ended(root: Path, name: str, *, days: float, **facts: Any) -> Journal:
    """A run that ended so many days ago."""
    journal = Journal(root, name, **facts)
    journal.t = time.time() - days * DAY
    return journal.metrics(1, loss=1.0).finish()


def test_rm_moves_to_the_trash_and_restore_takes_back(tmp_path: Path, capsys: Capture) -> None:
    Journal(tmp_path).finish()
    Journal(tmp_path, "y").finish()
    assert epochal(tmp_path, "rm", "x", "y", "--yes") == 0
    assert listed(tmp_path) == set()
    capsys.readouterr()
    assert epochal(tmp_path, "manage", "trash") == 0
    out = capsys.readouterr().out
    assert [line.split()[0] for line in out.splitlines()] == ["NAME", "x", "y"]
    assert epochal(tmp_path, "manage", "trash", "restore", "x") == 0
    assert listed(tmp_path) == {"x"}


def test_rm_by_query_keeps_live_runs(tmp_path: Path, capsys: Capture) -> None:
    Journal(tmp_path, "done").metrics(1, a=1).finish()
    Journal(tmp_path, "live").metrics(1, a=1)
    assert epochal(tmp_path, "rm", "--where", "step >= 0", "--yes") == 0
    assert listed(tmp_path) == {"live"}
    assert "p/live is running, and a live run cannot be deleted" in capsys.readouterr().out


def test_empty_erases_only_what_is_old_enough(tmp_path: Path, capsys: Capture) -> None:
    Journal(tmp_path).finish()
    epochal(tmp_path, "rm", "x", "--yes")
    assert epochal(tmp_path, "manage", "trash", "empty", "--older", "30d", "--yes") == 0
    assert "nothing to erase" in capsys.readouterr().out
    assert epochal(tmp_path, "manage", "trash", "empty", "--yes") == 0
    assert folder_store(tmp_path).trash.runs() == []


@pytest.mark.parametrize("age", ["30", "d", "-1d", "30 days"])
def test_an_age_that_is_none_is_refused(tmp_path: Path, capsys: Capture, age: str) -> None:
    assert epochal(tmp_path, "manage", "trash", "list", f"--older={age}") == 2
    assert "a time such as 90s, 30m, 12h or 30d" in capsys.readouterr().err


def test_prune_lists_first_and_moves_with_yes(tmp_path: Path, capsys: Capture) -> None:
    ended(tmp_path, "old", days=40)
    ended(tmp_path, "tagged", days=40, tags=["paper"])
    ended(tmp_path, "new", days=1)
    prune = ("manage", "prune", "--older", "30d", "--keep-tagged")
    assert epochal(tmp_path, *prune) == 0
    out = capsys.readouterr().out
    assert "old" in out
    assert "would go to the trash" in out
    assert "tagged" not in out
    assert listed(tmp_path) == {"old", "tagged", "new"}
    assert epochal(tmp_path, *prune, "--yes") == 0
    assert listed(tmp_path) == {"tagged", "new"}


def test_prune_to_a_size_moves_the_oldest(tmp_path: Path, capsys: Capture) -> None:
    for days in (1, 2, 3):
        blobs = ended(tmp_path, f"r{days}", days=days).folder.blobs
        blobs.mkdir()
        (blobs / "b").write_bytes(b"0" * 1_000_000)
    assert epochal(tmp_path, "manage", "prune", "--max-size", "2.1MB", "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert [row["run"]["name"] for row in answer["runs"]] == ["r3"]


def test_prune_without_a_limit_is_refused(tmp_path: Path, capsys: Capture) -> None:
    assert epochal(tmp_path, "manage", "prune") == 2
    assert "--older AGE, --max-size SIZE" in capsys.readouterr().err


def test_du_says_what_fills_the_disk(tmp_path: Path, capsys: Capture) -> None:
    journal = Journal(tmp_path).metrics(1, a=1).finish()
    journal.folder.blobs.mkdir()
    (journal.folder.blobs / "b").write_bytes(b"0" * 2048)
    (journal.folder.path / "checkpoints").mkdir()
    (journal.folder.path / "checkpoints" / "c").write_bytes(b"0" * 4096)
    Journal(tmp_path, "y", project="q").finish()
    epochal(tmp_path, "rm", "y", "--yes")
    capsys.readouterr()
    assert epochal(tmp_path, "manage", "du", "--json") == 0
    disk = json.loads(capsys.readouterr().out)["disk"]
    assert disk["p"]["blobs"] == 2048
    assert disk["p"]["checkpoints"] == 4096
    assert disk["p"]["journals"] == journal.path().stat().st_size
    assert list(disk["q"]) == ["trash"]
    assert epochal(tmp_path, "manage", "du") == 0
    assert "CHECKPOINTS" in capsys.readouterr().out


def test_tags_of_many_runs_by_name_and_by_query(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        Journal(tmp_path, name, tags=["old"], config={"lr": ord(name)}).metrics(1, a=1).finish()
    assert epochal(tmp_path, "tag", "a", "b", "--add", "good") == 0
    assert epochal(tmp_path, "tag", "--where", "config.lr >= 98", "late", "-r", "old") == 0
    tags = {run.info.name: run.info.tags for run in folder_store(tmp_path).runs()}
    assert tags == {"a": ("old", "good"), "b": ("good", "late"), "c": ("late",)}


def test_notes_and_hiding_of_many_runs(tmp_path: Path, capsys: Capture) -> None:
    for name in ("a", "b", "c"):
        Journal(tmp_path, name).metrics(1, a=1).finish()
    assert epochal(tmp_path, "note", "a", "b", "--text", "seen") == 0
    assert epochal(tmp_path, "manage", "hide", "--where", 'notes == "seen"') == 0
    infos = {run.info.name: run.info for run in folder_store(tmp_path).runs()}
    assert [name for name, info in sorted(infos.items()) if info.hidden] == ["a", "b"]
    assert epochal(tmp_path, "manage", "hide", "a", "--undo") == 0
    assert not folder_store(tmp_path).run("a").info.hidden


@pytest.mark.parametrize(
    "words", [["rm", "x", "--where", "step > 0"], ["rm"], ["manage", "hide"], ["tag"]]
)
def test_runs_are_named_or_queried(tmp_path: Path, capsys: Capture, words: list[str]) -> None:
    Journal(tmp_path)
    assert epochal(tmp_path, *words) == 2
    assert "--where" in capsys.readouterr().err


def test_a_query_that_fits_nothing_says_so(tmp_path: Path, capsys: Capture) -> None:
    Journal(tmp_path).finish()
    assert epochal(tmp_path, "tag", "--where", 'name == "zzz"', "t") == 2
    assert "no run matches" in capsys.readouterr().err


TAGGER = """
import sys
from epochal.store.store import tag_edit
from epochal.store.local.catalog import folder_store
run = folder_store(sys.argv[1]).run("x")
print("ready", flush=True)
sys.stdin.readline()
for number in range(40):
    run.relabel(tag_edit(run, add=[f"{sys.argv[2]}-{number}"]))
"""


@pytest.mark.slow
def test_two_processes_that_edit_labels_lose_nothing(tmp_path: Path) -> None:
    journal = Journal(tmp_path, tags=["first"]).finish()
    people = [
        subprocess.Popen(
            [sys.executable, "-c", TAGGER, str(tmp_path), who],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ,
        )
        for who in ("ann", "bob")
    ]
    for person in people:
        assert person.stdout is not None
        assert person.stdout.readline() == "ready\n"
    for person in people:
        person.communicate("go\n", timeout=120)
        assert person.returncode == 0
    wanted = {f"{who}-{number}" for who in ("ann", "bob") for number in range(40)}
    assert set(read_json(journal.folder.labels)["tags"]) == {"first", *wanted}
