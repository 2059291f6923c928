"""The archives that a run was asked for, kept in its folder (``archive.json``).

So whoever still lives when the run has ended can write them: the training process as its last act,
or the companion after a crash.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

from epochal.journal.layout import RunFolder, read_json, write_json

_FILE = "archive.json"


def ask_for_archive(folder: RunFolder, path: str | Path) -> None:
    """Remember where an archive is to be written when the run has ended; each path once."""
    paths = dict.fromkeys([*archive_paths(folder), str(Path(path).expanduser().absolute())])
    write_json(folder.path / _FILE, {"paths": list(paths)})


def archive_paths(folder: RunFolder) -> list[str]:
    """Where archives are to be written, in the order they were asked for."""
    wish = folder.path / _FILE
    if not wish.exists():
        return []
    asked: dict[str, Any] = read_json(wish)
    # Runs of version 0.1.0 hold one path.
    return [str(path) for path in asked.get("paths", [asked["path"]] if "path" in asked else [])]


def archive_command(folder: RunFolder, path: str) -> list[str]:
    """The command that writes an archive of a run."""
    return [sys.executable, "-m", "epochal", "--quiet", *_export(folder, path)]


def shown_command(folder: RunFolder, path: str) -> str:
    """The same command as a person types it."""
    return shlex.join(["epochal", *_export(folder, path)])


def _export(folder: RunFolder, path: str) -> tuple[str, ...]:
    return ("export", str(folder.path), "--format", "html", "--output", path)
