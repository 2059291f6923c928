"""The wish for a run's archive, kept in its folder (``archive.json``).

So whoever still lives when the run has ended can fulfil it: the training process as its last act,
or the companion after a crash.
"""

from __future__ import annotations

import sys
from pathlib import Path

from epochal.journal.layout import RunFolder, read_json, write_json

_FILE = "archive.json"


def ask_for_archive(folder: RunFolder, path: str | Path) -> None:
    """Remember where the archive is to be written when the run has ended."""
    write_json(folder.path / _FILE, {"path": str(Path(path).expanduser().absolute())})


def archive_command(folder: RunFolder) -> list[str] | None:
    """The command that writes the archive that was asked for; None when none was."""
    wish = folder.path / _FILE
    if not wish.exists():
        return None
    where = str(read_json(wish)["path"])
    export = ("export", str(folder.path), "--format", "html", "--output", where)
    return [sys.executable, "-m", "epochal", "--quiet", *export]
