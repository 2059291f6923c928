"""Documents are executed or compared: what they say is what the program does."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from epochal import record, settings
from epochal.cli.main import COMMANDS

ROOT = Path(__file__).parent.parent
COVERAGE = (ROOT / "docs" / "coverage.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
SPEC = (ROOT / "spec" / "journal.md").read_text(encoding="utf-8")


def rows_of_coverage() -> list[list[str]]:
    rows = re.findall(r"^\| ([A-O]\d+) \|(.*)\|$", COVERAGE, flags=re.MULTILINE)
    return [[number, *(cell.strip() for cell in rest.split(" | "))] for number, rest in rows]


def test_coverage_has_every_row_once_with_a_known_state() -> None:
    rows = rows_of_coverage()
    assert len(rows) == len({row[0] for row in rows}) == 221
    assert {row[3] for row in rows} <= {"done", "part", "open"}


def test_every_test_that_coverage_names_exists() -> None:
    for row in rows_of_coverage():
        named = re.findall(r"`(tests/[^`]*)`", row[4])
        assert named or row[3] != "done", f"{row[0]} is done but names no test"
        for path in named:
            assert (ROOT / path).exists(), f"{row[0]} names {path}"


def test_the_specification_lists_every_kind_and_role() -> None:
    for kind in record.KINDS:
        assert f"| `{kind}` |" in SPEC, kind
    for role, names in record.ROLE_GUESSES.items():
        assert f"| `{role}` | `{' '.join(names)}` |" in SPEC


def test_every_environment_variable_is_documented() -> None:
    source = Path(settings.__file__).read_text(encoding="utf-8")
    used = set(re.findall(r'"(EPOCHAL_[A-Z_]+)"', source)) - {"EPOCHAL_PARENT_RUN"}
    page = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    assert used == {name for name in used if f"`{name}`" in page}


@pytest.mark.parametrize("number", range(len(re.findall(r"```python\n", README))))
def test_the_readme_examples_run(number: int, tmp_path: Path) -> None:
    code = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)[number]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", list(COMMANDS))
def test_the_page_of_commands_has_every_option(command: str) -> None:
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    section = page.partition(f"## epochal {command}\n")[2].partition("\n## ")[0]
    shown = subprocess.run(
        [sys.executable, "-m", "epochal", command, "--help"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    # Python's own layout of help differs between versions, so options are compared, not lines.
    for option in set(re.findall(r"--[a-z][a-z-]*", shown)):
        assert option in section, f"run 'make docs': {option} is missing"


def test_the_readme_commands_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"`make (\w+)`", README):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


def test_no_path_or_host_of_a_machine_is_in_the_repository() -> None:
    listing = subprocess.run(
        ["git", "grep", "-nIE", r"/(home|root|work)/[a-z]", "--", ".", ":!*.lock"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    found = [line for line in listing.stdout.splitlines() if "test_docs.py" not in line]
    assert found == []
