"""Seals run folders as they stand, live or not."""

from __future__ import annotations

from pathlib import Path

from epochal.journal.layout import PartName, RunFolder, run_folders
from epochal.journal.segments.seal import seal_part

LOOP = PartName("loop", 1, 0)


def seal(folder: RunFolder, *names: PartName) -> None:
    """Seal these parts, or all of them."""
    for name in names or folder.parts():
        seal_part(folder, name, into=folder.segments)
        folder.part_path(name).unlink()


def seal_all(root: Path) -> None:
    for folder in run_folders(root):
        seal(folder)
