"""Looks through a folder for runs of ours, and for where others' runs may lie."""

from __future__ import annotations

import os
from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from epochal.journal.layout import is_run_folder
from epochal.journal.search_bounds import SearchBounds

# Files that only a tracker makes; any other that lies among runs of ours is not taken for a run.
_TRACKERS_ENDINGS = (".wandb", ".db", "training.json")
_EVENT_FILE = "tfevents"


@dataclass(slots=True)
class Survey:
    """Run folders of ours, and the outermost folders and files that hold none of them."""

    ours: list[Path] = field(default_factory=list)
    others: list[Path] = field(default_factory=list)


class Contents(NamedTuple):
    """The folders and the files in a folder, and which of both are links."""

    folders: list[Path]
    files: list[Path]
    links: set[Path]


def survey(root: Path, known: Container[Path], bounds: SearchBounds) -> Survey:
    """What lies below a folder: itself a run, a project's runs, or a tree of projects'.

    ``known`` are run folders already: they are not looked into. What a link leads to is listed
    once, under its own name where it has one here.
    """
    if _may_hold_run(root):
        return Survey([root])
    found = Survey()
    folders, files, links = contents(root, bounds)
    for entry in folders:
        if entry in known or _may_hold_run(entry):
            found.ours.append(entry)
        else:
            inside = _survey_project(entry, known, bounds, links)
            found.ours += inside.ours
            found.others += inside.others
    if not found.ours:
        return Survey(others=[root])
    found.others += filter(_is_trackers, files)
    return _without_repeats(root, found, links) if links else found


def _survey_project(
    project: Path, known: Container[Path], bounds: SearchBounds, links: set[Path]
) -> Survey:
    """What lies in a project's folder; what links lead to is added to ``links``."""
    found = Survey()
    folders, files, inner_links = contents(project, bounds)
    links |= {*folders, *files} if project in links else inner_links
    for entry in folders:
        is_ours = entry in known or _may_hold_run(entry)
        (found.ours if is_ours else found.others).append(entry)
    if not found.ours:
        return Survey(others=[project])
    found.others += filter(_is_trackers, files)
    return found


def _without_repeats(root: Path, found: Survey, links: set[Path]) -> Survey:
    """What was found, less what links lead to a second time."""
    here = os.path.realpath(root)
    seen = {os.path.join(here, path.relative_to(root)) for path in found.ours if path not in links}
    ours: list[Path] = []
    for path in found.ours:
        real = os.path.realpath(path)
        if path not in links or real not in seen:
            ours.append(path)
            seen.add(real)
    # Others' files are looked for in all folders here: a link is news only where it leads out.
    others = [
        path
        for path in found.others
        if path not in links or not _is_related(os.path.realpath(path), (here, *seen))
    ]
    return Survey(ours, others)


def _is_related(path: str, folders: Iterable[str]) -> bool:
    """Whether a path lies in one of some folders, or holds one of them."""
    return any(os.path.commonpath((path, folder)) in (path, folder) for folder in folders)


def contents(path: Path, bounds: SearchBounds) -> Contents:
    """What lies in a folder; hidden names are nobody's runs, and not every link is followed."""
    found = Contents([], [], set())
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.name.startswith(".") or not bounds.allows_entry(entry):
                    continue
                place = Path(entry.path)
                (found.folders if _is_folder(entry) else found.files).append(place)
                if entry.is_symlink():
                    found.links.add(place)
    except OSError:  # gone, no folder, or not for us to look into
        return Contents([], [], set())
    return found


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
