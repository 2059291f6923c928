"""Textual is loaded for the screen and for nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.store.journals import Journal

MISSING = """
import sys
sys.modules[{name!r}] = None
from epochal.cli.main import main
sys.exit(main({arguments!r}))
"""


def python(source: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", source],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("command", ["ls", "watch", "tail", "show", "doctor"])
def test_commands_work_without_textual_where_there_is_no_screen(
    tmp_path: Path, command: str
) -> None:
    Journal(tmp_path, "a").metrics(0, loss=1.0).finish()
    arguments = [command, "--dir", str(tmp_path), *([] if command == "ls" else ["a"])]
    done = python(MISSING.format(name="textual", arguments=arguments))
    assert (done.returncode, done.stderr) == (0, "")


def test_a_missing_package_is_one_sentence_with_the_way_to_add_it() -> None:
    source = """
    import sys
    sys.modules["textual"] = None
    from epochal.cli import main, watch
    watch.command.callback = lambda **_: __import__("epochal.cli.tui.app")
    sys.exit(main.main(["watch"]))
    """
    done = python("\n".join(line.strip() for line in source.splitlines()))
    said = "epochal: this command needs the package 'textual': pip install textual.\n"
    assert (done.returncode, done.stderr) == (2, said)
