"""Looks through a folder for runs of ours, and for where others' runs may lie."""

from __future__ import annotations

import os
from collections.abc import Container
from dataclasses import dataclass, field
from pathlib import Path

from epochal.journal.layout import is_run_folder

# Files that only a tracker makes; any other that lies among runs of ours is not taken for a run.
_TRACKERS_ENDINGS = (".wandb", ".db", "training.json")
_EVENT_FILE = "tfevents"


@dataclass(slots=True)
class Survey:
    """Run folders of ours, and the outermost folders and files that hold none of them."""

    ours: list[Path] = field(default_factory=list)
    others: list[Path] = field(default_factory=list)


def survey(root: Path, known: Container[Path]) -> Survey:
    """What lies below a folder: itself a run, a project's runs, or a tree of projects'.

    ``known`` are run folders already: they are not looked into.
    """
    if _may_hold_run(root):
        return Survey([root])
    found = Survey()
    folders, files = contents(root)
    for entry in folders:
        if entry in known or _may_hold_run(entry):
            found.ours.append(entry)
        else:
            _survey_project(entry, known, found)
    if not found.ours:
        return Survey(others=[root])
    found.others += filter(_is_trackers, files)
    return found


def _survey_project(project: Path, known: Container[Path], found: Survey) -> None:
    ours: list[Path] = []
    others: list[Path] = []
    folders, files = contents(project)
    for entry in folders:
        (ours if entry in known or _may_hold_run(entry) else others).append(entry)
    found.ours += ours
    found.others += [*others, *filter(_is_trackers, files)] if ours else [project]


def contents(path: Path) -> tuple[list[Path], list[Path]]:
    """The folders and the files in a folder; hidden ones are nobody's runs."""
    folders: list[Path] = []
    files: list[Path] = []
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if not entry.name.startswith("."):
                    (folders if _is_folder(entry) else files).append(Path(entry.path))
    except OSError:  # gone, no folder, or not for us to look into
        return [], []
    return folders, files


def _may_hold_run(path: Path) -> bool:
    """Whether a folder is listed: it holds a run, or nobody can tell, which is then its problem."""
    try:
        return is_run_folder(path)
    except OSError:
        return True


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads to itself, or into what cannot be looked into
        return False


def _is_trackers(file: Path) -> bool:
    return _EVENT_FILE in file.name or file.name.endswith(_TRACKERS_ENDINGS)
