"""The working copy of a hub: a folder of runs that follows the tables.

Everything that a store answers comes from this folder, so answers are those of any folder of runs.
It can be deleted at any time: what is in it comes from the tables again. What is in it and not in
the tables, because they were restored from an older backup, is stored there again.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from epochal.errors import FormatError, UsageError
from epochal.journal.layout import (
    RunFolder,
    create_run_folder,
    read_json,
    run_folders,
    slugify,
)
from epochal.shipping.offering import PartCounts, named_part
from epochal.shipping.protocol import is_run_id
from epochal.store.answers import TrashedRun
from epochal.store.clickhouse import transfer
from epochal.store.clickhouse.tables import (
    DELETED,
    IDENTITY,
    LABELS,
    SEALED,
    Fact,
    Tables,
)
from epochal.store.local.trash import FolderTrash

# Clocks of servers and hubs differ, and inserts take their time: so far back is looked again.
_SLACK_S = 60
# And so often at everything.
_WHOLE_EVERY_S = 300.0
ERASED = "erased"
_LIVE_EVERY_S = 2.0


@dataclass(slots=True)
class _Run:
    """What is stored of a run, as of the last look; ``lock`` is held by each change of its copy."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    parts: dict[str, int] = field(default_factory=dict)
    facts: dict[str, Fact] = field(default_factory=dict)
    changed: int = 0
    is_behind: bool = True
    live_s: float = 0.0


class Copies:
    """The runs of the tables in a folder; threads may share it, other processes may not."""

    def __init__(self, tables: Tables, root: Path) -> None:
        self.tables = tables
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        self.counts = PartCounts()
        self._lock = threading.Lock()
        self._looking = threading.Lock()
        self._runs: dict[str, _Run] = {}
        self._places: dict[str, Path] = {}
        self._seen_s = self._seen_version = 0
        self._whole_s = 0.0
        # Runs that cannot be copied, with a sentence.
        self.problems: dict[str, str] = {}
        for folder in run_folders(root):
            with contextlib.suppress(OSError, FormatError):
                self._places.setdefault(str(read_json(folder.identity).get("id")), folder.path)

    # -- looking ----------------------------------------------------------------------------------

    def fetch_changed(self) -> None:
        """Have everything that was stored since the last look, the newest runs first.

        Raises ``ClickHouseError``.
        """
        with self._looking:
            self._look()
            behind = [(run.changed, run_id) for run_id, run in self._runs.items() if run.is_behind]
            for _, run_id in sorted(behind, reverse=True):
                try:
                    self._catch_up(run_id)
                except FormatError as error:
                    self.problems[run_id] = str(error)

    def fetch(self, run_id: str) -> Path | None:
        """Have everything that is stored of one run; its folder, None where there is no such run.

        A deleted run has none.
        """
        run = self._run(run_id)
        with run.lock:
            run.facts = {fact.key: fact for fact in self.tables.facts(run_id)}
            for part in self.tables.parts(run_id):
                run.parts[part.part] = part.lines
                run.changed = max(run.changed, part.changed)
            run.is_behind = True
            self._catch_up(run_id)
            return None if self.is_deleted(run_id) else self.place_of(run_id)

    def place_of(self, run_id: str) -> Path | None:
        """The folder of a run, if its copy is there."""
        place = self._places.get(run_id)
        return place if place is not None and place.is_dir() else None

    def lock(self, run_id: str) -> threading.RLock:
        """What is held by whoever changes the copy of a run."""
        return self._run(run_id).lock

    # -- storing ----------------------------------------------------------------------------------

    def put_fact(self, run_id: str, key: str, value: str) -> None:
        """Store something about a run, unless it is stored already."""
        run = self._run(run_id)
        known = run.facts.get(key)
        if known is None or known.value != value:
            after = 0 if known is None else known.version
            version = self.tables.put_fact(run_id, key, value, after=after)
            run.facts[key] = Fact(run_id, key, value, version)

    def is_deleted(self, run_id: str) -> bool:
        """Whether a run is in the trash, or erased."""
        deleted = self._run(run_id).facts.get(DELETED)
        return deleted is not None and deleted.value != ""

    def delete(self, moved: TrashedRun) -> None:
        """Store that a run is in the trash since it was moved there."""
        self._places.pop(moved.id, None)
        self.put_fact(moved.id, DELETED, repr(moved.deleted))

    def note_place(self, run_id: str, place: Path) -> None:
        """Know where the copy of a run lies."""
        self._places[run_id] = place

    def note_lines(self, run_id: str, stem: str, num_lines: int) -> None:
        """Know that so many lines of a part are stored."""
        self._run(run_id).parts[stem] = num_lines

    def num_lines(self, run_id: str, stem: str) -> int:
        """How many lines of a part are stored, as far as is known here."""
        return self._run(run_id).parts.get(stem, 0)

    def _run(self, run_id: str) -> _Run:
        with self._lock:
            return self._runs.setdefault(run_id, _Run())

    def _look(self) -> None:
        if time.monotonic() > self._whole_s:
            self._seen_s = self._seen_version = 0
        # A clock that is ahead must not hide what others store meanwhile.
        since_s = min(self._seen_s, int(time.time())) - _SLACK_S
        since_version = min(self._seen_version, time.time_ns() // 1000) - _SLACK_S * 1_000_000
        parts = self.tables.parts(since=max(0, since_s))
        facts = self.tables.facts(since=max(0, since_version))
        for part in parts:
            run = self._run(part.run)
            if run.parts.get(part.part) != part.lines:
                run.parts[part.part] = part.lines
                run.is_behind = True
            run.changed = max(run.changed, part.changed)
        for fact in facts:
            if not fact.run:
                continue  # of all hubs together
            run = self._run(fact.run)
            known = run.facts.get(fact.key)
            if known is None or known.version < fact.version:
                run.facts[fact.key] = fact
                run.is_behind = True
        self._seen_s = max((part.changed for part in parts), default=self._seen_s)
        self._seen_version = max((fact.version for fact in facts), default=self._seen_version)
        if time.monotonic() > self._whole_s:
            self._whole_s = time.monotonic() + _WHOLE_EVERY_S

    # -- one run ----------------------------------------------------------------------------------

    def _catch_up(self, run_id: str) -> None:
        run = self._run(run_id)
        with run.lock:
            if IDENTITY not in run.facts or not is_run_id(run_id):
                return  # its first lines came, who it is did not yet
            self.problems.pop(run_id, None)
            deleted = run.facts.get(DELETED)
            if deleted is not None and deleted.value == ERASED:
                self._forget(run_id)
                run.is_behind = False
                return
            folder = self._folder(run_id, run)
            parts = {stem: n for stem, n in run.parts.items() if transfer.is_part(stem)}
            transfer.fetch_parts(
                self.tables, run_id, folder, parts, self.counts, changed_s=run.changed
            )
            self._give_back(run_id, run, folder)
            self._seal(run, folder)
            labels = run.facts.get(LABELS)
            if labels is not None:
                transfer.write_changed(folder.labels, transfer.decoded(labels.value))
            if time.monotonic() > run.live_s:
                run.live_s = time.monotonic() + _LIVE_EVERY_S
                transfer.fetch_live(self.tables, run_id, folder)
            self._move(run_id, run, folder)
            run.is_behind = False

    def _folder(self, run_id: str, run: _Run) -> RunFolder:
        """The folder of a run with its identity; it is made where there is none."""
        fact = run.facts[IDENTITY]
        identity = transfer.decoded(fact.value)
        place = self.place_of(run_id) or self._trashed_place(run_id)
        if place is None:
            project = slugify(str(identity.get("project", "")))
            folder, _ = create_run_folder(self.root / project, str(identity.get("name", run_id)))
            place = folder.path
        self._places[run_id] = place
        folder = RunFolder(place)
        self._lead_to_parent(place, identity)
        if transfer.write_changed(folder.identity, identity):
            # When it was written tells launches apart that have the same id.
            os.utime(folder.identity, (fact.version / 1e6, fact.version / 1e6))
        return folder

    def _lead_to_parent(self, place: Path, identity: dict[str, Any]) -> None:
        """Say where the run lies here that a fork continues."""
        fork = identity.get("fork")
        if isinstance(fork, dict) and isinstance(fork.get("id"), str):
            parent = self._places.get(fork["id"])
            path = os.path.relpath(parent, place) if parent is not None else fork.get("path")
            identity["fork"] = {**fork, "path": path}

    def _give_back(self, run_id: str, run: _Run, folder: RunFolder) -> None:
        """Store lines that this copy has and the tables have lost."""
        for name in folder.parts():
            have, _ = self.counts.whole(folder.part_path(name))
            if have > run.parts.get(name.stem, 0):
                transfer.send_parts(self.tables, run_id, folder, self.counts)
                run.parts.update({part.part: part.lines for part in self.tables.parts(run_id)})
                return

    def _seal(self, run: _Run, folder: RunFolder) -> None:
        """Seal the parts of which the sender has sent a segment: it holds a tenth of the bytes."""
        from epochal.segments.seal import seal_part

        for key, fact in run.facts.items():
            stem = key.removeprefix(SEALED)
            if stem == key or not transfer.is_part(stem):
                continue
            name = named_part(stem)
            have, _ = self.counts.whole(folder.part_path(name))
            if have and have >= int(fact.value) and not folder.sealed_path(name).exists():
                with contextlib.suppress(FormatError, UsageError):  # it stays a journal part
                    seal_part(folder, name, into=folder.segments)
                    folder.part_path(name).unlink()

    def _trashed_place(self, run_id: str) -> Path | None:
        for trashed in FolderTrash([self.root]).runs():
            if trashed.id == run_id:
                return Path(trashed.folder)
        return None

    def _move(self, run_id: str, run: _Run, folder: RunFolder) -> None:
        """Have a run in the trash when it is deleted, and out of it when it is not."""
        is_trashed = ".trash" in folder.path.parts
        if self.is_deleted(run_id) and not is_trashed:
            stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(float(run.facts[DELETED].value)))
            target = folder.path.parent / ".trash" / stamp / folder.path.name
            target.parent.mkdir(parents=True, exist_ok=True)
            folder.path.rename(target)
            self._places.pop(run_id, None)
        elif not self.is_deleted(run_id) and is_trashed:
            trash = FolderTrash([self.root])
            self._places[run_id] = Path(trash.restore(trash.find(str(folder.path))))

    def _forget(self, run_id: str) -> None:
        place = self.place_of(run_id) or self._trashed_place(run_id)
        self._places.pop(run_id, None)
        if place is not None:
            shutil.rmtree(place, ignore_errors=True)
            with contextlib.suppress(OSError):
                place.parent.rmdir()
