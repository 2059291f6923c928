from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import epochal
from epochal.cli.main import main
from tests.store.journals import Journal, settle

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, project, lr in (("a", "p", 0.1), ("b", "p", 0.3), ("c", "q", 0.2)):
        Journal(tmp_path, name, project=project, config={"lr": lr}).metrics(1, loss=lr * 10)
    return tmp_path


def listed(capsys: Capture, root: Path, *arguments: str) -> list[str]:
    assert main(["ls", *arguments, "--dir", str(root)]) == 0
    return [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]]


def test_ls_takes_a_query_and_an_order(root: Path, capsys: Capture) -> None:
    assert listed(capsys, root, "config.lr > 0.1", "--sort", "config.lr") == ["c", "b"]
    assert listed(capsys, root, "--sort=-summary.loss.last", "-n", "2") == ["b", "c"]


def test_a_word_alone_is_a_project(root: Path, capsys: Capture) -> None:
    assert listed(capsys, root, "q") == ["c"]
    assert sorted(listed(capsys, root, "config.lr")) == ["a", "b", "c"]
    assert main(["ls", "nothing", "--dir", str(root)]) == 0
    assert "No run of project 'nothing'" in capsys.readouterr().out


def test_a_mistake_in_a_query_is_shown(root: Path, capsys: Capture) -> None:
    assert main(["ls", "config.lr <", "--dir", str(root)]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == "               ^"


def test_runs_listed_before_are_listed_from_the_index(
    root: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setenv("EPOCHAL_CACHE_DIR", str(cache))
    settle(root)
    first = listed(capsys, root)
    assert list(cache.rglob("*.sqlite"))
    assert listed(capsys, root) == first


def test_a_run_with_errors_is_marked(root: Path, capsys: Capture) -> None:
    found = {"log": "finding", "id": "1", "rule": "nonfinite", "sentence": "The loss is nan."}
    error, warning = ({**found, "id": word, "severity": word} for word in ("error", "warning"))
    Journal(root, "bad").metrics(1, loss=1.0).add(error, warning, writer="findings")
    Journal(root, "watched").metrics(1, loss=1.0).add(writer="findings")
    assert listed(capsys, root, "errors > 0") == ["bad"]
    assert listed(capsys, root, 'diagnosis == "broken"') == ["bad"]
    assert main(["ls", "--dir", str(root)]) == 0
    by_name = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert " broken " in by_name["bad"]
    assert " unknown " in by_name["watched"]
    assert " — " in by_name["a"]


def test_metrics_with_a_declared_goal_are_columns(root: Path, capsys: Capture) -> None:
    goal = {"log": "define", "name": "score", "goal": "max"}
    Journal(root, "d", created=9e8).metrics(1, loss=1.0, score=0.5, acc=0.1).add(goal)
    Journal(root, "e", created=8e8).metrics(1, loss=1.0, score=0.25, acc=0.9).add(goal)
    assert main(["ls", "--dir", str(root)]) == 0
    header, *lines = (line.split() for line in capsys.readouterr().out.splitlines())
    assert header[-3:] == ["score", "DIAGNOSIS", "AGE"]
    assert "acc" not in header
    assert ["0.5000" in line for line in lines if line[0] in ("d", "e")] == [True, False]


def test_the_last_step_done_is_all_of_them(tmp_path: Path, capsys: Capture) -> None:
    Journal(tmp_path, "a", totals={"steps": 600}).metrics(599, loss=1.0).finish()
    Journal(tmp_path, "b", totals={"steps": 600}).metrics(850, loss=1.0).finish()
    assert main(["ls", "--sort", "name", "--dir", str(tmp_path)]) == 0
    _, first, second = capsys.readouterr().out.splitlines()
    assert " 600/600 " in first
    assert " 850 (of 600) " in second


def test_projects_in_python(root: Path) -> None:
    Journal(root, "d", project="q", owner="ada").metrics(1, loss=0.5).finish("failed")
    with epochal.open(root) as runs:
        found = {row.name: row for row in runs.projects()}
    assert {name: row.runs for name, row in found.items()} == {"p": 2, "q": 2}
    best = found["q"].best
    assert best is not None
    assert (best.role, best.value, best.name) == ("loss", 0.5, "d")
    assert found["q"].states["failed"] == 1
    assert found["q"].owners == ["ada"]


def many_runs(root: Path, count: int) -> None:
    """Runs that were created an hour after one another, and never changed since."""
    for number in range(count):
        created = 1_700_000_000.0 + 3600 * number
        journal = Journal(root, f"r{number:03d}", created=created).metrics(1, loss=1.0).finish()
        os.utime(journal.folder.identity, (created, created))


def test_a_run_whose_file_is_newer_than_itself_keeps_its_place(
    tmp_path: Path, capsys: Capture
) -> None:
    many_runs(tmp_path, 6)
    for name in ("r000", "r003"):
        os.utime(tmp_path / "p" / name / "run.json")
    assert listed(capsys, tmp_path) == ["r005", "r004", "r003", "r002", "r001", "r000"]


def test_a_list_says_of_how_many_runs_it_knows_no_more_than_who_they_are(
    tmp_path: Path, capsys: Capture
) -> None:
    large = {"log": "text", "name": "t", "text": "x" * 1_000_000}
    Journal(tmp_path, "large").add(*[large] * 9).metrics(1, loss=1.0)
    Journal(tmp_path, "small").metrics(1, loss=1.0)
    assert main(["ls", "--dir", str(tmp_path)]) == 0
    said = capsys.readouterr()
    assert ("…" in said.out, "small" in said.out, "large" in said.out) == (True, True, True)
    assert "1 run is not summarised yet: 'epochal manage pack --all' does that." in said.err


@pytest.fixture
def tried(tmp_path: Path) -> Path:
    for number, (lr, score, note) in enumerate(
        ((0.1, 0.5, "the first try"), (0.3, 0.75, "a larger rate\nhelps"), (0.2, None, None))
    ):
        facts: dict[str, Any] = {"notes": note, "tags": ["best"] if number == 1 else []}
        journal = Journal(
            tmp_path, f"try-{number}", config={"lr": lr}, created=1e9 + number, **facts
        )
        journal.add({"log": "metrics", "step": 1, "m": {"train/loss": lr}})
        journal.add({"log": "metrics", "step": 2, "m": {"train/loss": 2 * lr, "val/acc": lr / 2}})
        if score is not None:
            journal.add({"log": "summary", "name": "score", "value": score})
        journal.finish()
    return tmp_path


def test_what_was_tried_before_is_one_call(tried: Path, capsys: Capture) -> None:
    assert main(["ls", "--columns", "score,notes", "--sort=-score", "--dir", str(tried)]) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split() == ["NAME", "score", "NOTES", "AGE"]
    assert lines[0].startswith("try-1  0.7500  a larger rate helps  ")
    assert lines[1].startswith("try-0  0.5000  the first try        ")
    assert lines[2].startswith("try-2       —  —  ")


def test_fields_that_are_sorted_or_filtered_by_are_columns(tried: Path, capsys: Capture) -> None:
    query = ["config.lr > 0.15", "--sort=-val/acc", "--dir", str(tried)]
    assert main(["ls", *query]) == 0
    header, first, second = capsys.readouterr().out.splitlines()
    assert header.split() == (
        "NAME PROJECT STATUS STEP LOSS config.lr val/acc DIAGNOSIS AGE".split()
    )
    assert first.split()[:8] == "try-1 p finished 2 0.6000 0.3 * 0.1500".split()
    assert second.split()[:9] == "try-2 p finished 2 * 0.4000 0.2 0.1000 —".split()
    assert main(["ls", *query, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["name"], row["config.lr"], row["val/acc"]) for row in rows] == [
        ("try-1", 0.3, 0.15),
        ("try-2", 0.2, 0.1),
    ]
    assert rows[0].keys() >= {"id", "project", "status", "step", "loss", "tags", "notes"}


def test_columns_are_metrics_their_best_values_and_the_configuration(
    tried: Path, capsys: Capture
) -> None:
    columns = "loss,best.loss,summary.loss.mean,lr,tags,step"
    assert main(["ls", "-c", columns, "--sort", "name", "--csv", "--dir", str(tried)]) == 0
    header, first, second, _ = capsys.readouterr().out.splitlines()
    assert header == "id,name,project,loss,best.loss,summary.loss.mean,lr,tags,step"
    assert first.startswith("id-try-0,try-0,p,0.2,0.1,0.15")
    assert second.split(",")[-3:] == ["0.3", "best", "2"]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("loss < 0.3", ["try-0"]),
        ("loss.min < 0.15", ["try-0"]),
        ("lr == 0.2", ["try-2"]),
        ("val/acc >= 0.1 and score > 0.5", ["try-1"]),
        ('tags == "best"', ["try-1"]),
        ('tags != "best"', ["try-0", "try-2"]),
    ],
)
def test_short_names_are_understood_in_queries(
    tried: Path, capsys: Capture, query: str, names: list[str]
) -> None:
    assert sorted(listed(capsys, tried, query)) == names


def test_a_name_that_no_run_has_gets_a_suggestion(tried: Path, capsys: Capture) -> None:
    assert main(["ls", "val/ac > 0.1", "--dir", str(tried)]) == 2
    assert "no run has 'val/ac'; did you mean 'val/acc':\n" in capsys.readouterr().err
    assert main(["ls", "--sort", "acc/val", "--dir", str(tried)]) == 2
    assert "did you mean 'val/acc':" in capsys.readouterr().err
    assert main(["ls", "--columns", "scor", "--dir", str(tried)]) == 0
    assert "No run here has 'scor'. Did you mean 'score'?" in capsys.readouterr().err


def test_the_same_damage_of_many_runs_is_one_warning(root: Path, capsys: Capture) -> None:
    folders = [path.parent for path in root.glob("*/*/run.json")]
    for folder in folders:
        (folder / "labels.json").write_text('{"name":5,"tags":"x","hidden":"no"}')
    assert main(["--dir", str(root), "ls"]) == 0
    shown = capsys.readouterr()
    assert len(shown.out.splitlines()) == 1 + len(folders)
    (warning,) = shown.err.splitlines()
    assert f" and {len(folders) - 1} more: labels.json is not valid" in warning
