"""Finds what ranks wrote aside because they met no rank 0 in time, and whose run it belongs to.

``<runs>/.launch/<id>.json`` says where rank 0 of a launch writes; a rank that did not see it in
time has its parts in ``<runs>/.launch/<id>/journal``, numbered as attempt 1. It moves them when it
finishes; one that died could not, so readers take them as part of the run. Where there is no such
run, the folder is listed as a run of its own, and its lowest rank is read in place of rank 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from epochal.errors import FormatError
from epochal.journal.layout import (
    LAUNCH_FOLDER,
    LOOP,
    PartName,
    RunFolder,
    is_run_folder,
    rank_of_writer,
    rank_writer,
    read_json,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Aside:
    """A folder whose parts belong to an attempt of a run that lies elsewhere."""

    folder: RunFolder
    attempt: int


def asides_below(runs_root: Path) -> dict[Path, list[Aside]]:
    """By run folder, what was written aside for it; a launch file that is damaged is no claim."""
    found: dict[Path, list[Aside]] = {}
    for path in sorted((runs_root / LAUNCH_FOLDER).glob("*.json")):
        folder = RunFolder(path.with_suffix(""))
        if not folder.journal.is_dir():
            continue
        try:
            told = read_json(path)
            run, attempt = runs_root / str(told["folder"]), int(told["attempt"])
        except (OSError, FormatError, KeyError, TypeError, ValueError):
            continue
        found.setdefault(run, []).append(Aside(folder, attempt))
    return found


def orphans_below(runs_root: Path) -> list[Path]:
    """The folders that ranks wrote aside for a run that does not exist."""
    try:
        entries = sorted((runs_root / LAUNCH_FOLDER).iterdir())
    except OSError:  # there is none, or it is not for us to look into
        return []
    folders = [RunFolder(entry) for entry in entries if (entry / "journal").is_dir()]
    written = {one.path for one in folders if one.parts() or one.sealed_parts()}
    if not written:
        return []
    claimed = {
        aside.folder.path
        for run, asides in asides_below(runs_root).items()
        if is_run_folder(run)
        for aside in asides
    }
    return sorted(written - claimed)


def is_orphan(folder: RunFolder) -> bool:
    """Whether a folder is one that ranks wrote aside."""
    return folder.path.parent.name == LAUNCH_FOLDER


def orphaned_ranks(names: Iterable[PartName]) -> list[int]:
    """The ranks that wrote some parts."""
    return sorted({rank for name in names if (rank := rank_of_writer(name.writer)) is not None})


def in_place_of_rank_zero(parts: Mapping[PartName, T]) -> dict[PartName, T]:
    """The parts of an orphan, those of its lowest rank named as if rank 0 had written them."""
    ranks = orphaned_ranks(parts)
    first = rank_writer(ranks[0]) if ranks else LOOP
    return {
        name._replace(writer=LOOP) if name.writer == first else name: part
        for name, part in parts.items()
    }
