"""Finds what ranks wrote aside because they met no rank 0 in time, and whose run it belongs to.

``<runs>/.launch/<id>.json`` says where rank 0 of a launch writes; a rank that did not see it in
time has its parts in ``<runs>/.launch/<id>/journal``, numbered as attempt 1. It moves them when it
finishes; one that died could not, so readers take them as part of the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from epochal.errors import FormatError
from epochal.journal.layout import LAUNCH_FOLDER, PartName, RunFolder, read_json


@dataclass(frozen=True, slots=True)
class Aside:
    """A folder whose parts belong to an attempt of a run that lies elsewhere."""

    folder: RunFolder
    attempt: int

    def parts(self) -> dict[Path, PartName]:
        """Every part in it, under the name it has in its run."""
        return {
            self.folder.part_path(name): name._replace(attempt=self.attempt)
            for name in self.folder.parts()
        }


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
