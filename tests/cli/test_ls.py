from __future__ import annotations

import contextlib
import io
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import epochal
from epochal.cli import ls
from epochal.cli.main import main
from epochal.cli.table import GrowingTable, table
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
    assert main(["ls", "config.lr <", "--dir", str(root)]) == 1
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
    assert main(["ls", "--dir", str(root)]) == 0
    by_name = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert " 1 error " in by_name["bad"]
    assert " none " in by_name["watched"]
    assert " — " in by_name["a"]


@pytest.mark.parametrize("few_s", [math.inf, -1.0])
def test_a_few_small_runs_are_read_whole_on_a_slow_machine_within_a_limit(
    root: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, few_s: float
) -> None:
    monkeypatch.setattr("epochal.cli.ls._WHOLE_S", -1.0)  # the time is up before the first run
    monkeypatch.setattr("epochal.cli.ls._FEW_WHOLE_S", few_s)
    assert main(["ls", "--dir", str(root)]) == 0
    assert ("in part" in capsys.readouterr().out) == (few_s < 0)


def test_the_last_step_done_is_all_of_them(tmp_path: Path, capsys: Capture) -> None:
    Journal(tmp_path, "a", totals={"steps": 600}).metrics(599, loss=1.0).finish()
    Journal(tmp_path, "b", totals={"steps": 600}).metrics(850, loss=1.0).finish()
    assert main(["ls", "--sort", "name", "--dir", str(tmp_path)]) == 0
    _, first, second = capsys.readouterr().out.splitlines()
    assert " 600/600 " in first
    assert " 850 (of 600) " in second


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_many_runs_some_at_a_time(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("epochal.cli.ls._WHOLE_S", math.inf)  # none is read in part
    monkeypatch.setattr("epochal.cli.ls._PATIENCE_S", math.inf)  # a busy machine prints the same
    for number in range(230):
        facts: dict[str, Any] = {"group": "late"} if number == 0 else {}
        journal = Journal(tmp_path, f"run-{number:03}", created=1e9 + number, **facts)
        journal.metrics(1, loss=float(number)).finish("failed" if number == 1 else "finished")
    names = listed(capsys, tmp_path)
    terminal = Terminal()
    with contextlib.redirect_stdout(terminal):
        assert main(["ls", "--dir", str(tmp_path)]) == 0
    title, *lines = re.sub(r"\x1b\[[0-9;]*m", "", terminal.getvalue()).splitlines()
    assert title.split()[:3] == ["NAME", "PROJECT", "STATUS"]
    assert [line.split()[0] for line in lines] == names
    (again,) = (line for line in lines if line.startswith("NAME"))
    assert again.split()[:3] == ["NAME", "PROJECT", "GROUP"]
    assert lines[-1].split()[:4] == ["run-000", "p", "late", "finished"]
    assert lines[-2].split()[3] == "failed"


def test_later_rows_of_a_growing_table_keep_its_columns() -> None:
    grown = GrowingTable(("NAME", "N"), width=12, shrink=(0,), right=(1,))
    assert grown.lines([("a long name", "1")]) == ["NAME       N", "a long n…  1"]
    assert grown.lines([("b", "12"), ("quite long name", "3")]) == ["b          12", "quite lo…  3"]
    assert table(("A",), []) == "A"


def test_projects_are_the_same_in_python_and_on_the_command_line(
    root: Path, capsys: Capture
) -> None:
    Journal(root, "d", project="q", owner="ada").metrics(1, loss=0.5).finish("failed")
    assert main(["ls", "--projects", "--json", "--dir", str(root)]) == 0
    printed = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    with epochal.open(root) as runs:
        found = {row.name: row for row in runs.projects()}
    assert {name: row.runs for name, row in found.items()} == {"p": 2, "q": 2}
    best = found["q"].best
    assert best is not None
    assert (best.role, best.value, best.name) == ("loss", 0.5, "d")
    assert found["q"].states["failed"] == 1
    assert printed["q"]["best"]["value"] == 0.5
    assert printed["q"]["owners"] == found["q"].owners == ["ada"]
    assert main(["ls", "--projects", "--dir", str(root)]) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split()[:4] == ["PROJECT", "RUNS", "LIVE", "FAILED"]
    assert sorted(line.split()[0] for line in lines) == ["p", "q"]
    assert main(["ls", "config.lr > 1", "--projects", "--dir", str(root)]) == 1
    assert "takes no query" in capsys.readouterr().err


def many_runs(root: Path, count: int) -> None:
    """Runs that were created an hour after one another, and never changed since."""
    for number in range(count):
        created = 1_700_000_000.0 + 3600 * number
        journal = Journal(root, f"r{number:03d}", created=created).metrics(1, loss=1.0).finish()
        os.utime(journal.folder.identity, (created, created))


# Waits for a line on stdin before the oldest run is read.
BLOCKED = """
import os, sys
opened = os.open
def waits(path, *args, **options):
    if "r000" in os.fspath(path):
        sys.stdin.readline()
    return opened(path, *args, **options)
os.open = waits
from epochal.cli import ls
from epochal.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def started_ls(root: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", BLOCKED, "ls", *arguments, "--dir", str(root)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("query", [(), ("summary.loss.last < 2",)])
def test_rows_appear_before_the_last_run_is_read(tmp_path: Path, query: tuple[str, ...]) -> None:
    many_runs(tmp_path, 130)
    with started_ls(tmp_path, *query) as process:
        assert process.stdout is not None
        first = [process.stdout.readline().split()[0] for _ in range(101)]
        assert first == ["NAME", *(f"r{number:03d}" for number in range(129, 29, -1))]
        rest, _ = process.communicate("go on\n")
    assert [line.split()[0] for line in rest.splitlines()][-1] == "r000"
    assert process.returncode == 0


def test_so_many_runs_as_are_asked_for_are_read(tmp_path: Path) -> None:
    many_runs(tmp_path, 5)
    with started_ls(tmp_path, "-n", "4") as process:
        assert process.stdout is not None
        lines = process.stdout.read().splitlines()
    assert [line.split()[0] for line in lines] == ["NAME", "r004", "r003", "r002", "r001"]


def test_a_run_whose_file_is_newer_than_itself_keeps_its_place(
    tmp_path: Path, capsys: Capture
) -> None:
    many_runs(tmp_path, 6)
    for name in ("r000", "r003"):
        os.utime(tmp_path / "p" / name / "run.json")
    assert listed(capsys, tmp_path) == ["r005", "r004", "r003", "r002", "r001", "r000"]


def test_a_column_that_only_later_rows_need_comes_with_them(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ls, "_AT_ONCE", 2)
    many_runs(tmp_path, 3)
    Journal(tmp_path, "grouped", created=1.0, group="ablation").metrics(1, loss=1.0)
    assert main(["ls", "--dir", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [
        "NAME",
        "r002",
        "r001",
        "NAME",
        "r000",
        "grouped",
    ]
    assert ["GROUP" in lines[0], "GROUP" in lines[3], "ablation" in lines[5]] == [False, True, True]
