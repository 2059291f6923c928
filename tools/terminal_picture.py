"""Draws a terminal as an SVG: what a command prints, or the screen of ``epochal watch``.

python tools/terminal_picture.py OUT.svg COMMAND…
python tools/terminal_picture.py OUT.svg watch FOLDER_OF_RUNS
"""

from __future__ import annotations

import asyncio
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

from epochal.store.local.store import LocalStore
from epochal.tui.app import WatchApp
from epochal.tui.state import AppState

COLUMNS = 112
LINES_SHOWN = 26


def printed(command: list[str]) -> str:
    """Everything a command prints on a terminal of a fixed width."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(COLUMNS), "TERM": "xterm-256color"}
    process = subprocess.Popen(command, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    text = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:
            break
        if not piece:
            break
        text += piece
    process.wait()
    os.close(ours)
    return text.decode("utf-8", "replace").replace("\r\n", "\n")


def printed_picture(command: list[str]) -> str:
    """The first and the last lines that a command prints."""
    lines = [line for line in printed(command).split("\n") if line.strip()]
    shown = [*lines[: LINES_SHOWN - 12], " ⋮", *lines[-11:]]
    console = Console(record=True, width=COLUMNS, file=open(os.devnull, "w"))  # noqa: SIM115
    for line in shown:
        console.print(Text.from_ansi(line[: COLUMNS + 40]), overflow="crop", no_wrap=True)
    return console.export_svg(title=" ".join(["epochal", *command[1:]]))


async def watch_picture(folder: str) -> str:
    """The screen of ``epochal watch``, as Textual exports it."""
    with LocalStore(Path(folder)) as store:
        app = WatchApp(AppState(store))
        async with app.run_test(size=(COLUMNS, LINES_SHOWN)) as pilot:
            await pilot.pause()
            return app.export_screenshot(title="epochal watch", simplify=True)


def main() -> None:
    target, *command = sys.argv[1:]
    if command[0] == "watch":
        picture = asyncio.run(watch_picture(command[1]))
    else:
        picture = printed_picture(command)
    # The picture loads nothing: fonts are whatever monospace the reader has.
    picture = re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL)
    picture = re.sub(r"<!--.*?-->", "", picture).replace("Fira Code, monospace", "monospace")
    Path(target).write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
