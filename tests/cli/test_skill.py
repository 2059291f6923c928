"""The page for agents: everything in it runs, in its order, against real trainings."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from epochal.cli.main import main
from epochal.cli.skill import PAGE

TEXT = PAGE.read_text(encoding="utf-8")
Capture = pytest.CaptureFixture[str]


def test_the_page_is_short_and_has_a_name_and_a_description() -> None:
    lines = TEXT.splitlines()
    assert len(lines) <= 150
    assert lines[0] == lines[3] == "---"
    assert lines[1] == "name: epochal"
    assert lines[2].startswith("description: ")
    assert len(lines[2]) <= 1024


def test_it_is_printed_or_installed(tmp_path: Path, capsys: Capture) -> None:
    assert main(["skill"]) == 0
    assert capsys.readouterr().out == TEXT
    assert main(["skill", "--install", str(tmp_path / "skills")]) == 0
    installed = tmp_path / "skills" / "epochal" / "SKILL.md"
    assert installed.read_text(encoding="utf-8") == TEXT
    assert str(installed) in capsys.readouterr().out


def test_every_command_runs(tmp_path: Path) -> None:
    (script,) = re.findall(r"^```python\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
    (tmp_path / "train.py").write_text(script, encoding="utf-8")
    blocks = re.findall(r"^```bash\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
    env = {name: value for name, value in os.environ.items() if name != "EPOCHAL_COMPANION"}
    env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"
    codes = {}
    for command in "".join(blocks).splitlines():
        done = subprocess.run(
            command, shell=True, cwd=tmp_path, env=env, capture_output=True, text=True
        )
        codes[command] = done.returncode
        assert done.returncode in (0, 1, 4), f"{command}\n{done.stdout}{done.stderr}"
        assert done.stdout or done.stderr, command
        assert len(done.stdout) < 4000, command
    assert {code for command, code in codes.items() if "epochal run" in command} == {0}
    assert [code for command, code in codes.items() if "--until" in command] == [4, 1]
