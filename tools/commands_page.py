"""Writes docs/commands.md from the commands' own help."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from epochal.cli.main import COMMANDS

PAGE = Path(__file__).parent.parent / "docs" / "commands.md"
INTRODUCTION = """# Commands

This page is printed by the program (`make docs`). `RUN` is an id, the beginning of one, a name,
`project/name` or a folder. Every command takes the options of the first list.
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


def without_common_options(text: str) -> str:
    """The help of a command without the options of all commands, which the page has once."""
    options = r"-h, --help|--dir DIR|--follow-links|-v, --verbose|-q, --quiet"
    text = re.sub(rf"^  (?:{options})\b.*\n(?: {{10,}}.*\n)*", "", f"{text}\n", flags=re.MULTILINE)
    return re.sub(r"\noptions:\n(?=\n|$)", "", text).rstrip()


def page() -> str:
    parts = [INTRODUCTION, f"```\n{help_of()}\n```"]
    parts += [
        f"## epochal {name}\n\n```\n{without_common_options(help_of(name))}\n```"
        for name in COMMANDS
    ]
    return "\n".join(f"{part}\n" for part in parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
