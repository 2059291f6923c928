"""How the ranks of one launch find the folder that rank 0 made.

Rank 0 publishes folder and attempt in ``<dir>/.launch/<id>.json``. The others wait for that file
for a bounded time. A rank that does not find it writes into ``<dir>/.launch/<id>/journal``, and
moves its files at the end if rank 0 has appeared. The id of the second run that a rank opens in
a launch ends in ``.2``, that of the third in ``.3``: a slow rank still finds the right run.

Launches can share an id (a fixed port, a fixed rendezvous id). So the file names the process that
wrote it. A file of a dead process belongs to an earlier launch, unless it was written after this
process began: then rank 0 was faster.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import msgspec

from epochal.journal.layout import LAUNCH_FOLDER, RunFolder, read_json, slugify, write_json
from epochal.journal.process import liveness, process_identity

WAIT_S = 30.0
_LOOK_EVERY_S = 0.05
# Rank 0 of another machine cannot be looked at; what it published this long ago is not from now.
_STALE_AFTER_S = 600.0


class RankRendezvous(msgspec.Struct, frozen=True):
    """Where a launch's records go; `last_step` is the step they follow, -1 in a new run."""

    folder: RunFolder
    attempt: int
    last_step: int = -1


class Published(msgspec.Struct, frozen=True):
    """What rank 0 publishes: its folder below the root, when, and which process it is."""

    folder: str
    attempt: int
    t: float
    by: dict[str, Any]
    last_step: int = -1

    @classmethod
    def read(cls, path: Path) -> Published | None:
        """What a file contains; None if there is nothing yet, or nothing that rank 0 wrote."""
        try:
            return msgspec.convert(read_json(path), cls)
        except (OSError, ValueError, msgspec.ValidationError):
            return None


def publish(root: Path, launch_id: str, meeting: RankRendezvous) -> None:
    """Publish to the other ranks of a launch where to write."""
    path = _published(root, launch_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = meeting.folder.path.relative_to(root).as_posix()
    by = process_identity()
    published = Published(folder, meeting.attempt, time.time(), by, meeting.last_step)
    write_json(path, msgspec.structs.asdict(published))


def find(root: Path, launch_id: str, *, wait_s: float = WAIT_S) -> RankRendezvous | None:
    """Return where rank 0 writes; None if it has not published that in time."""
    deadline = time.monotonic() + wait_s
    while (meeting := _look(root, launch_id)) is None:
        if time.monotonic() >= deadline:
            return None
        time.sleep(_LOOK_EVERY_S)
    return meeting


def _look(root: Path, launch_id: str) -> RankRendezvous | None:
    found = Published.read(_published(root, launch_id))
    if found is None:
        return None
    seen = liveness(found.by)
    if seen == "dead" and found.t < _own_start():
        return None
    if seen == "unknown" and time.time() - found.t > _STALE_AFTER_S:
        return None
    return RankRendezvous(RunFolder(root / found.folder), found.attempt, found.last_step)


def _own_start() -> float:
    """When this process began, in Unix seconds."""
    import psutil  # heavy, and rarely needed

    return float(psutil.Process().create_time())


def pending_dir(root: Path, launch_id: str) -> RunFolder:
    """The folder of ranks that could not find rank 0."""
    return RunFolder(root / LAUNCH_FOLDER / slugify(launch_id))


def _published(root: Path, launch_id: str) -> Path:
    return root / LAUNCH_FOLDER / f"{slugify(launch_id)}.json"
