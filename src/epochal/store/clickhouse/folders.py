"""Where each run lies in the working copy: a folder below its project's, or one in the trash."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from epochal.errors import FormatError
from epochal.journal.layout import RunFolder, json_bytes, read_json, run_folders, slugify
from epochal.store.clickhouse import transfer
from epochal.store.local.trash import FolderTrash


class CopyFolders:
    """The folders of runs below a root, by the ids of the runs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._places: dict[str, Path] = {}
        self._ids: dict[str, str] = {}
        # How many runs of a project have had a name, by their folder without a number.
        self._numbers: Counter[str] = Counter()
        # By the id of a run that is not known yet, the forks of it.
        self._forks: dict[str, set[str]] = {}
        for folder in run_folders(root):
            with contextlib.suppress(OSError, FormatError):
                run_id = str(read_json(folder.identity).get("id"))
                if run_id not in self._places:
                    self.note(run_id, folder.path)
        self._trashed = {one.id: Path(one.folder) for one in FolderTrash([root]).runs()}

    def all(self) -> dict[str, Path]:
        """The folder of each run that is not in the trash."""
        return dict(self._places)

    def of(self, run_id: str) -> Path | None:
        """The folder of a run, if it is there and not in the trash."""
        place = self._places.get(run_id)
        return place if place is not None and place.is_dir() else None

    def id_at(self, place: str) -> str | None:
        """The run in a folder."""
        return self._ids.get(place)

    def note(self, run_id: str, place: Path) -> None:
        """Know where the folder of a run lies."""
        self._places[run_id] = place
        self._ids[str(place)] = run_id

    def note_trashed(self, run_id: str, place: Path) -> None:
        """Know that a run was moved to the trash."""
        self._places.pop(run_id, None)
        self._trashed[run_id] = place

    def anywhere(self, run_id: str) -> Path | None:
        """The folder of a run, also in the trash."""
        place = self._trashed.get(run_id)
        return self.of(run_id) or (place if place is not None and place.is_dir() else None)

    def write_identity(
        self, run_id: str, identity: Mapping[str, Any], *, written_s: float
    ) -> RunFolder:
        """Have the folder of a run with its identity; it is made where there is none."""
        place = self.anywhere(run_id)
        is_new = place is None
        if place is None:
            place = self._new(str(identity.get("project", "")), str(identity.get("name", run_id)))
        self.note(run_id, place)
        folder, written = RunFolder(place), self._led_to_parent(run_id, identity)
        if is_new:  # nobody has read it: it needs no other name meanwhile
            with open(folder.identity, "xb", buffering=0) as file:
                file.write(json_bytes(written) + b"\n")
        if is_new or transfer.write_changed(folder.identity, written):
            # When it was written tells launches apart that have the same id.
            os.utime(folder.identity, (written_s, written_s))
        for fork_id in self._forks.pop(run_id, ()):
            self._lead_to_parent(fork_id)
        return folder

    def _new(self, project: str, name: str) -> Path:
        """A new folder of a project; a taken name gets a number."""
        folder = os.path.join(self.root, slugify(project))
        first = os.path.join(folder, slugify(name))
        while True:
            self._numbers[first] += 1
            number = self._numbers[first]
            place = first if number == 1 else os.path.join(folder, slugify(f"{name}-{number}"))
            try:
                os.mkdir(place)
            except FileExistsError:
                continue
            except FileNotFoundError:  # the first run of its project
                os.makedirs(folder, exist_ok=True)
                os.mkdir(place)
            return Path(place)

    def parent_of(self, run_id: str) -> str | None:
        """The run that another was forked from, if it is here."""
        place = self.of(run_id)
        if place is None:
            return None
        try:
            parent = _parent_of(read_json(RunFolder(place).identity))
        except (OSError, FormatError):
            return None
        return parent if parent != run_id and parent in self._places else None

    def _led_to_parent(self, run_id: str, identity: Mapping[str, Any]) -> dict[str, Any]:
        """An identity that says where the run lies here that a fork continues."""
        parent = _parent_of(identity)
        if parent is None:
            return dict(identity)
        place = self._places.get(parent)
        if place is None:
            self._forks.setdefault(parent, set()).add(run_id)
            return dict(identity)
        path = os.path.relpath(place, self._places[run_id])
        return {**identity, "fork": {**identity["fork"], "path": path}}

    def _lead_to_parent(self, fork_id: str) -> None:
        place = self.of(fork_id)
        if place is not None:
            file = RunFolder(place).identity
            transfer.write_changed(file, self._led_to_parent(fork_id, read_json(file)))

    def move_to_trash(self, run_id: str, place: Path, *, deleted_s: float) -> None:
        """Have a run in the trash that was deleted elsewhere."""
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(deleted_s))
        target = place.parent / ".trash" / stamp / place.name
        target.parent.mkdir(parents=True, exist_ok=True)
        place.rename(target)
        self.note_trashed(run_id, target)

    def restore(self, run_id: str, place: Path) -> None:
        """Have a run out of the trash that was restored elsewhere."""
        trash = FolderTrash([self.root])
        self.note(run_id, Path(trash.restore(trash.find(str(place)))))

    def forget(self, run_id: str) -> None:
        """Delete the folder of a run."""
        place = self.anywhere(run_id)
        self._places.pop(run_id, None)
        self._trashed.pop(run_id, None)
        if place is not None:
            shutil.rmtree(place, ignore_errors=True)
            with contextlib.suppress(OSError):
                place.parent.rmdir()


def _parent_of(identity: Mapping[str, Any]) -> str | None:
    fork = identity.get("fork")
    parent = fork.get("id") if isinstance(fork, dict) else None
    return parent if isinstance(parent, str) else None
