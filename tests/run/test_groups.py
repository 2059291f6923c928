"""``group``, ``job_type`` and ``owner``: arguments of ``init``, in lists and queries."""

from __future__ import annotations

from typing import Any

import pytest

from epochal.cli.main import main
from epochal.errors import UsageError
from epochal.journal.layout import read_json
from epochal.server.rows import run_row
from epochal.store.local.by_path import load_run
from epochal.store.local.catalog import open_store
from tests.conftest import StartRun


def test_they_are_in_run_json_and_in_every_list(
    start_run: StartRun, capsys: pytest.CaptureFixture[str]
) -> None:
    with start_run(name="a", group="sweep-1", job_type="train", owner="ada") as run:
        pass
    with start_run(name="b", owner="bob"):
        pass
    said = read_json(run.dir / "run.json")
    assert (said["group"], said["job_type"], said["owner"]) == ("sweep-1", "train", "ada")
    row = run_row(load_run(run.dir))
    assert (row.group, row.job_type, row.owner) == ("sweep-1", "train", "ada")
    root = run.dir.parent.parent
    for query in ("group == 'sweep-1'", "job_type == 'train'", "owner == 'ada'"):
        with open_store(root) as store:
            assert [view.info.name for view in store.runs(query)] == ["a"]
    assert main(["--dir", str(root), "ls"]) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split()[:5] == ["NAME", "PROJECT", "GROUP", "OWNER", "STATUS"]
    assert {tuple(line.split()[2:4]) for line in lines} == {("sweep-1", "ada"), ("—", "bob")}
    assert main(["--dir", str(root), "show", "a", "--all"]) == 0
    shown = capsys.readouterr().out
    assert all(word in shown for word in ("sweep-1", "job type", "ada"))


def test_the_owner_is_the_user_of_the_system(
    start_run: StartRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "grace")
    run = start_run()
    info = load_run(run.dir).info
    assert (info.owner, info.group, info.job_type) == ("grace", None, None)


def test_they_may_come_from_the_environment(
    start_run: StartRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = {"group": "sweep-3", "job_type": "eval", "owner": "ada", "notes": "a wider model"}
    for name, text in labels.items():
        monkeypatch.setenv(f"EPOCHAL_{name.upper()}", text)
    facts = read_json(start_run(group="sweep-4").dir / "run.json")
    assert {name: facts[name] for name in labels} == {**labels, "group": "sweep-4"}


def test_a_resumed_run_keeps_them_unless_they_are_given(start_run: StartRun) -> None:
    with start_run(name="one", group="g", job_type="train", owner="ada"):
        pass
    with start_run(name="one", resume="must", job_type="eval") as run:
        info = load_run(run.dir).info
    assert (info.group, info.job_type, info.owner) == ("g", "eval", "ada")


@pytest.mark.parametrize("argument", ["group", "job_type", "owner"])
@pytest.mark.parametrize("value", [3, " "])
def test_they_are_texts(start_run: StartRun, argument: str, value: Any) -> None:
    with pytest.raises(UsageError, match=argument):
        start_run(**{argument: value})
