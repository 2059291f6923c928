"""What fills the disk: the bytes of runs by kind of file, and of the trash."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from epochal.store.answers import TrashedRun
from epochal.store.local.run import LocalRun

TRASH = "trash"
OTHER = "other"
# The kind of a file is that of the folder of the run it lies in.
_KINDS = {
    "journal": "journals",
    "segments": "segments",
    "blobs": "blobs",
    "checkpoints": "checkpoints",
    "files": "files",
}
KINDS = (*_KINDS.values(), OTHER, TRASH)


@dataclass(slots=True)
class DiskUsage:
    """Bytes by project and kind, and by run folder."""

    by_project: dict[str, Counter[str]] = field(default_factory=dict)
    by_run: dict[str, int] = field(default_factory=dict)

    @property
    def by_kind(self) -> Counter[str]:
        """Bytes by kind, of all projects."""
        return sum(self.by_project.values(), Counter[str]())

    @property
    def runs_bytes(self) -> int:
        """What all runs take, without the trash."""
        return sum(self.by_run.values())


def disk_usage(runs: Sequence[LocalRun], trashed: Sequence[TrashedRun] = ()) -> DiskUsage:
    """Measure runs of ours and the trash; other trackers' files are not counted."""
    usage = DiskUsage()
    for run in runs:
        if run.tracker is None:
            kinds = run_bytes(run.path)
            usage.by_project.setdefault(run.outline().project, Counter()).update(kinds)
            usage.by_run[str(run.path)] = kinds.total()
    for deleted in trashed:
        size = folder_bytes(Path(deleted.folder))
        usage.by_project.setdefault(deleted.project, Counter())[TRASH] += size
    return usage


def run_bytes(folder: Path) -> Counter[str]:
    """The bytes of a run by kind."""
    kinds: Counter[str] = Counter()
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    kinds[_KINDS.get(entry.name, OTHER)] += folder_bytes(Path(entry.path))
                else:
                    kinds[OTHER] += entry.stat(follow_symlinks=False).st_size
    except OSError:  # gone meanwhile, or not for us to look into
        pass
    return kinds


def folder_bytes(folder: Path) -> int:
    """The sizes of all files below a folder; links are not followed."""
    return sum(_sizes(folder))


def _sizes(folder: Path) -> Iterator[int]:
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                yield os.lstat(os.path.join(place, name)).st_size
            except OSError:  # gone meanwhile
                continue
