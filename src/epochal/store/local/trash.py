"""The trash: deleted runs, each beside the place where it was; and what fills the disk.

A run ``runs/<project>/<slug>`` is moved to ``runs/<project>/.trash/<time>/<slug>``: one rename, on
one disk, that needs no list of its own. Readers do not look into folders whose names begin with a
dot.
"""

from __future__ import annotations

import calendar
import contextlib
import os
import re
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from epochal.base.atomic_file import make_folder, sync_folder
from epochal.errors import FormatError, RunNotFoundError, UsageError
from epochal.journal.labels import read_labels
from epochal.journal.layout import LAUNCH_FOLDER, RunFolder, is_run_folder, read_json
from epochal.journal.row import RunRow
from epochal.store.catalog import RUNS, TRASH
from epochal.store.lookup import choose
from epochal.store.row import TrashedRun
from epochal.store.run import RunView
from epochal.store.status import GONE_AFTER_S

TRASH_FOLDER = ".trash"
_STAMP = "%Y%m%dT%H%M%SZ"
_STAMPED = re.compile(r"(\d{8}T\d{6}Z)(-\d+)?")
# Runs lie at most so deep below a root.
_MAX_DEPTH = 5
_TRIES = 1000


def move_to_trash(info: RunRow) -> TrashedRun:
    """Move a run's folder to the trash beside it; see ``epochal.store.store.Store.remove``."""
    check_removable(info)
    return put_in_trash(Path(info.folder), time.time())


def put_in_trash(path: Path, when: float) -> TrashedRun:
    """Move a folder to the trash beside it, as one that was deleted at a time in Unix seconds."""
    stamp = time.strftime(_STAMP, time.gmtime(when))
    for number in range(1, _TRIES):
        group = path.parent / TRASH_FOLDER / (stamp if number == 1 else f"{stamp}-{number}")
        if os.path.lexists(group / path.name):
            continue  # the second run of this name within a second
        make_folder(group)
        try:
            os.rename(path, group / path.name)
        except FileNotFoundError:
            if not path.exists():
                raise RunNotFoundError(f"{path} is no longer there.") from None
            continue  # another process has just erased the emptied group
        return _described(group / path.name, path, when)
    raise UsageError(f"there is no free place for {path.name!r} in {path.parent / TRASH_FOLDER}.")


def check_removable(info: RunRow) -> None:
    """Raise ``UsageError`` for a run whose folder cannot be moved to the trash."""
    check_ended(info)
    path = Path(info.folder)
    if path.is_symlink():
        raise UsageError(f"{path} is a link to a run, so it is not deleted: delete the link.")
    if not is_run_folder(path):
        raise UsageError(f"{path} is not a run folder, so it is not deleted.")


def check_ended(info: RunRow) -> None:
    """Raise ``UsageError`` for a run that is live, or that another tracker wrote."""
    if info.tracker is not None:
        raise UsageError(
            f"{info.name!r} lies in files of {info.tracker}, which are only read:"
            f" delete {info.folder} yourself, or hide the run."
        )
    if is_live(info):
        raise UsageError(
            f"{info.project}/{info.name} is {info.status.text}, and a live run cannot be deleted:"
            f" 'epochal stop {info.name}' ends it."
        )


def is_removable(info: RunRow) -> bool:
    """Whether a run has ended, and is no other tracker's."""
    return info.tracker is None and not is_live(info)


def is_live(info: RunRow) -> bool:
    """Whether a run may still be written: it is running, or has been silent for a short time."""
    state, since = info.status.state, info.status.since
    if state == "silent":
        return since is not None and time.time() - since < GONE_AFTER_S
    return state == "running"


class FolderTrash:
    """The trash folders below some roots; see ``epochal.store.catalog.Trash``."""

    def __init__(self, roots: Sequence[Path]) -> None:
        self._roots = roots

    def runs(self) -> list[TrashedRun]:
        folders = {folder: None for root in self._roots for folder in _trash_folders(root)}
        found = [run for folder in folders for run in _runs_in(folder)]
        return sorted(found, key=lambda run: run.deleted, reverse=True)

    def find(self, key: str) -> TrashedRun:
        found = self.runs()
        for run in found:
            if key in (run.folder, run.origin, run.id):
                return run
        newest = {(run.project, run.name): run for run in reversed(found)}
        runs = [run for run in found if run is newest[run.project, run.name]]
        try:
            return runs[choose(key, runs)]
        except RunNotFoundError:
            raise RunNotFoundError(
                f"there is no run {key!r} in the trash: 'epochal manage trash' lists them."
            ) from None

    def put(self, run: RunView) -> TrashedRun:
        return move_to_trash(run.info)

    def restore(self, run: TrashedRun) -> str:
        folder, origin = Path(run.folder), Path(run.origin)
        self._check_here(run)
        place = origin
        for number in range(2, _TRIES):
            if not os.path.lexists(place):
                break
            place = origin.with_name(f"{origin.name}-{number}")
        try:
            os.rename(folder, place)
        except FileNotFoundError:
            raise RunNotFoundError(f"{run.project}/{run.name} is no longer in the trash.") from None
        sync_folder(place.parent)  # before a hub forgets that it was deleted
        _tidy(folder.parent)
        return str(place)

    def erase(self, run: TrashedRun) -> None:
        folder = Path(run.folder)
        self._check_here(run)
        with contextlib.suppress(FileNotFoundError):  # another process was faster
            shutil.rmtree(folder)
        _tidy(folder.parent)

    def _check_here(self, run: TrashedRun) -> None:
        folder = Path(run.folder)
        is_trash = folder.parent.parent.name == TRASH_FOLDER and _STAMPED.fullmatch(
            folder.parent.name
        )
        if not is_trash or not any(folder.is_relative_to(root) for root in self._roots):
            raise UsageError(f"{run.folder} is not in the trash of these runs.")


def _tidy(group: Path) -> None:
    """Remove folders of the trash that have become empty."""
    for folder in (group, group.parent):
        with contextlib.suppress(OSError):  # others are still in it
            folder.rmdir()


def _trash_folders(root: Path) -> Iterator[Path]:
    # Ranks that found no run write to the second folder, and are listed as runs.
    for top, deepest in ((root, _MAX_DEPTH), (root / LAUNCH_FOLDER, 0)):
        for path, names, _ in os.walk(top):
            folder = Path(path)
            if TRASH_FOLDER in names and not (folder / TRASH_FOLDER).is_symlink():
                yield folder / TRASH_FOLDER
            is_deep = len(folder.relative_to(top).parts) >= deepest
            names[:] = [] if is_deep else [n for n in names if _may_have_trash(folder / n)]


def _may_have_trash(folder: Path) -> bool:
    return not folder.name.startswith(".") and not is_run_folder(folder)


def _runs_in(trash: Path) -> Iterator[TrashedRun]:
    for group in _entries(trash):
        match = _STAMPED.fullmatch(group.name)
        if match is None:
            continue
        deleted = float(calendar.timegm(time.strptime(match[1], _STAMP)))
        for folder in _entries(group):
            yield _described(folder, trash.parent / folder.name, deleted)


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(entry for entry in folder.iterdir() if entry.is_dir())
    except OSError:
        return []


def _described(folder: Path, origin: Path, deleted: float) -> TrashedRun:
    try:
        said = read_json(folder / "run.json")
        name = read_labels(RunFolder(folder)).name
    except (OSError, FormatError):  # damaged runs can be restored as well
        said, name = {}, None
    return TrashedRun(
        id=str(said.get("id") or origin.name),
        name=name or str(said.get("name") or origin.name),
        project=str(said.get("project") or origin.parent.name),
        folder=str(folder),
        origin=str(origin),
        deleted=deleted,
    )


OTHER = "other"
# The kind of a file is that of the folder of the run it lies in.
_KINDS = {"journal": "journals"}
_KINDS |= {name: name for name in ("segments", "blobs", "checkpoints", "files")}
KINDS = (*_KINDS.values(), RUNS, OTHER, TRASH)


def folder_usage(run: RunRow | TrashedRun) -> Counter[str]:
    """Bytes of the folder of a run by kind."""
    folder = Path(run.folder)
    if isinstance(run, TrashedRun):
        return Counter({TRASH: folder_bytes(folder)})
    kinds: Counter[str] = Counter()
    # A run may be gone meanwhile, or not for us to look into.
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                kinds[_KINDS.get(entry.name, OTHER)] += folder_bytes(Path(entry.path))
            else:
                kinds[OTHER] += entry.stat(follow_symlinks=False).st_size
    return kinds


def folder_bytes(folder: Path) -> int:
    """The sizes of all files below a folder; links are not followed."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):  # gone meanwhile
                total += os.lstat(os.path.join(place, name)).st_size
    return total
