"""Writes docs/commands.md from the commands' own help."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from epochal.cli.main import COMMANDS

PAGE = Path(__file__).parent.parent / "docs" / "commands.md"
INTRODUCTION = """# Commands

This page is printed by the program (`make docs`). `RUN` is an id, the beginning of one, a name,
`project/name` or a folder.
Exit codes: 0 it worked, 1 the command found a problem, 2 it was called wrongly.
"""


def help_of(*command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "epochal", *command, "--help"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "COLUMNS": "100", "NO_COLOR": "1"},
    )
    return done.stdout.rstrip()


def page() -> str:
    parts = [INTRODUCTION, f"```\n{help_of()}\n```"]
    parts += [f"## epochal {name}\n\n```\n{help_of(name)}\n```" for name in COMMANDS]
    return "\n".join(f"{part}\n" for part in parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
