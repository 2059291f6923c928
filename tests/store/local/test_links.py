"""Links lead out of a searched folder only when that is asked for."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import epochal
from epochal.cli.main import main
from epochal.errors import UsageError
from epochal.exchange.imports.registry import open_foreign
from epochal.journal.layout import RunFolder
from epochal.store.local.by_path import load_run
from epochal.store.local.catalog import folder_store
from tests.exchange.imports.samples import (
    csv_table,
    json_lines,
    mlflow,
    tensorboard,
    trackio,
    wandb,
)
from tests.store.journals import Journal

Capture = pytest.CaptureFixture[str]
FOREIGN = (csv_table, json_lines, mlflow, tensorboard, trackio, wandb)


@pytest.fixture
def served(tmp_path: Path) -> Path:
    """A served folder with one run of its own, and a folder beside it with others."""
    Journal(tmp_path / "served", "own").metrics(1, loss=1.0)
    Journal(tmp_path / "outside", "other", project="q").metrics(1, loss=1.0)
    return tmp_path / "served"


def _names(root: Path, *, follow_links: bool = False) -> list[str]:
    with folder_store(root, follow_links=follow_links) as store:
        return sorted(run.info.name for run in store.runs())


def test_folders_outside_are_found_only_when_links_are_followed(served: Path) -> None:
    outside = served.parent / "outside"
    (served / "project").symlink_to(outside / "q")
    (served / "p" / "run").symlink_to(outside / "q" / "other")
    (served / "tree").symlink_to(outside)
    assert _names(served) == ["own"]
    assert set(_names(served, follow_links=True)) == {"own", "other"}


def test_the_folder_itself_may_be_a_link(served: Path) -> None:
    link = served.parent / "link"
    link.symlink_to(served)
    assert _names(link) == ["own"]


def test_a_link_within_is_followed_and_its_run_listed_once(served: Path) -> None:
    (served / "p" / "latest").symlink_to("own")
    (served / "alias").symlink_to("p")
    hidden = served / ".archive" / "kept"
    shutil.copytree(served / "p" / "own", hidden)
    (hidden / "run.json").write_text('{"v": 1, "id": "k", "name": "kept", "project": "p"}')
    (served / "p" / "kept").symlink_to(hidden)
    assert _names(served) == ["kept", "own"]


def test_links_that_lead_in_circles_end(served: Path) -> None:
    (served / "up").symlink_to("..")
    (served / "here").symlink_to(".")
    (served / "p" / "here").symlink_to(".")
    (served / "p" / "top").symlink_to(served)
    (served / "self").symlink_to("self")
    assert _names(served) == ["own"]
    assert "own" in _names(served, follow_links=True)


@pytest.mark.parametrize("name", ["run.json", "labels.json", "journal", "segments"])
def test_a_link_in_a_run_that_leads_out_is_refused_with_a_sentence(served: Path, name: str) -> None:
    secret = served.parent / "secret"
    folder = RunFolder(served / "p" / "own")
    if name == "journal":
        shutil.move(folder.journal, secret)
    elif name == "segments":
        secret.mkdir()
    else:
        (folder.path / name).unlink(missing_ok=True)
        secret.write_text(json.dumps({"name": "stolen", "v": 1}))
    (folder.path / name).symlink_to(secret)
    with folder_store(served) as store:
        (run,) = store.runs()
        assert run.info.name == "own"
        assert f"{name} is a link that leads out" in str(run.info.problem)
    with folder_store(served, follow_links=True) as store:
        (run,) = store.runs()
        assert "is a link" not in str(run.info.problem)


def test_blobs_are_not_read_through_a_linked_folder(served: Path) -> None:
    secret = served.parent / "secret"
    secret.mkdir()
    (secret / "key").write_text("private")
    journal = Journal(served, "images").add({"log": "blob", "name": "b", "step": 1, "file": "key"})
    journal.folder.blobs.symlink_to(secret)
    with folder_store(served) as store, pytest.raises(UsageError, match="outside"):
        store.run("images").blob("key")
    assert load_run(journal.folder.path, follow_links=True).blob("key") == b"private"


@pytest.mark.parametrize("sample", FOREIGN, ids=lambda sample: sample.__name__)
def test_other_trackers_files_outside_are_not_read(sample: object, tmp_path: Path) -> None:
    assert callable(sample)
    served, outside = tmp_path / "served", tmp_path / "outside"
    served.mkdir()
    outside.mkdir()
    source = sample(outside).source
    inside = served / source.name
    inside.symlink_to(source)
    assert _names(served) == []
    assert open_foreign(served) is None
    assert _names(served, follow_links=True)
    assert _names(inside)  # named by the user, who knows where it leads


def test_commands_follow_links_when_told_to(served: Path, capsys: Capture) -> None:
    (served / "more").symlink_to(served.parent / "outside" / "q")
    main(["ls", "--dir", str(served)])
    assert "other" not in capsys.readouterr().out
    main(["ls", "--dir", str(served), "--follow-links"])
    assert "other" in capsys.readouterr().out
    assert main(["show", "other", "--dir", str(served)]) == 2
    assert main(["--follow-links", "show", "other", "--dir", str(served)]) == 0


def test_open_follows_links_when_told_to(served: Path) -> None:
    (served / "more").symlink_to(served.parent / "outside" / "q")
    with epochal.open(served) as runs:
        assert [run.name for run in runs] == ["own"]
    with epochal.open(served, follow_links=True) as runs:
        assert sorted(run.name for run in runs) == ["other", "own"]
