"""Keeps a run folder in the cache for every run of another tracker, and follows the original.

    <cache>/converted/<id>/    run.json  journal/  blobs/  labels.json  converted.json

``converted.json`` names the version of the original that was read completely, and who wrote the
folder last. Whoever wrote it last appends what the original gains. Any other reader uses the folder
as it is while the original has that version, and otherwise builds it again. ``labels.json`` stays.

The copies can be deleted at any time. ``delete_unused`` deletes those of originals that are gone,
those that nobody has used for 30 days, and the least recently used ones beyond 20 GiB.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
import threading
import time
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from epochal.base.atomic_file import between_processes, replaced_file, temporary_folder
from epochal.base.guard import Guard
from epochal.errors import FormatError, InternalError
from epochal.exchange.imports.copying import RunCopy, swap_in
from epochal.exchange.imports.foreign import Source, SourceRun, UnreadableFile, stable_id
from epochal.exchange.imports.registry import all_importers, open_all_foreign
from epochal.journal.layout import (
    RunFolder,
    SearchBounds,
    json_bytes,
    json_or_empty,
    read_json,
    staged_folder,
)

FOLDER = "converted"
KEEP_S = 30 * 86400.0
MAX_BYTES = 20 * 1024**3
_UNKNOWN = "an unknown tracker"
_STATE = "converted.json"
_LOCK = ".lock"
_CLEANED = ".cleaned"
_CLEAN_EVERY_S = 86400.0
# A line that is being written may be completed without a new size or time.
_SETTLED_S = 10.0
# A run that another process took in news of so lately is left to that process.
_LEFT_TO_OTHERS_S = 2.0
# Files without a tracker's own layout are looked for so many folders deep.
_DEPTH = 2
# TensorBoard's folders are looked for at any depth, so once is enough for all folders below one.
_DEEP = frozenset({"tensorboard"})
# Searching a large tree for nothing is repeated after so many times what it took.
_SEARCH_SHARE = 20.0
_SEARCH_EVERY_S = 1.0


class ConvertedRun:
    """One run of another tracker, and the run folder that follows it.

    ``lock`` is held while the original is read: the runs of one place share files. ``project``
    stands in for the one that the run's files name.
    """

    def __init__(
        self,
        owner: Conversions,
        source: Source,
        run: SourceRun,
        *,
        lock: threading.RLock | None = None,
        project: str | None = None,
    ) -> None:
        self.tracker = source.label
        self.path = run.path
        self.run = run
        self._owner = owner  # a temporary folder goes with it
        self.index_key = (str(source.path), f"{source.path}/{source.label}:{run.key}")
        self.folder = RunFolder(owner.root / stable_id(source.label, run.path, run.identity.id))
        self._lock = threading.RLock() if lock is None else lock
        self._copy = RunCopy(self.folder, run, project=project)
        # What marks a folder that this object wrote last, and how much of the original it has.
        self._token = ""
        self._converted_bytes = 0
        # Of the original: as it was at the last look, and as it is in the folder.
        self._seen = self._converted = ""
        self.size_bytes, self.changed = 0, 0.0
        self._num_left = 0

    @property
    def is_kept(self) -> bool:
        """Whether the folder stays after this process."""
        return self._owner.is_kept

    @property
    def is_current(self) -> bool:
        """Whether the folder has all that the original had at the last look."""
        return self._converted == self._seen and self.folder.identity.exists()

    def look(self) -> str:
        """Look at the original, without reading it; two equal answers mean that it is the same."""
        with self._lock:
            signature = self.run.signature()
        self.size_bytes = sum(size for _, size, _ in signature)
        self.changed = max((changed_ns for *_, changed_ns in signature), default=0) / 1e9
        text = repr(signature).encode("utf-8", "surrogatepass")
        self._seen = hashlib.blake2b(text, digest_size=16).hexdigest()
        if not self._converted and self._state()[0].get("signature") == self._seen:
            self._converted = self._seen
        # What was left to another process is looked for again.
        return f"{self._seen}-{self._num_left}" if self._num_left else self._seen

    def run_json(self) -> dict[str, Any]:
        """The content of run.json, with the names that the run has in the folder it was opened in.

        A run that is not converted yet has what its identity says.
        """
        stored = json_or_empty(self.folder.identity)
        with self._lock:
            found = self._copy.identity_record({})
        source = {**stored.get("source", {}), **self._source()}
        created = found["created"] or stored.get("created") or self.changed
        return {**stored, **found, "created": created, "source": source}

    def refresh(self) -> None:
        """Write what the original has gained since."""
        with self._lock:
            self.look()
            if self.is_current:
                return
            self.folder.path.mkdir(parents=True, exist_ok=True)
            with between_processes(self.folder.path / _LOCK):
                self._convert()

    def _convert(self) -> None:
        state, written = self._state()
        if state.get("signature") == self._seen:
            self._converted, self._num_left = self._seen, 0
            os.utime(self.folder.path / _STATE)  # it is in use
            return
        token, self._token = self._token, ""  # until everything is written
        is_ours = state.get("writer") == token
        if is_ours and self.size_bytes >= self._converted_bytes:
            if self._copy.read_on():
                self._write_identity(self.folder)
        elif not is_ours and self._converted and time.time() - written < _LEFT_TO_OTHERS_S:
            self._num_left += 1
            return
        else:
            token = self._build()
        self._token, self._converted_bytes = token, self.size_bytes
        self._converted, self._num_left = self._seen, 0
        is_settled = time.time() - self.changed > _SETTLED_S
        with replaced_file(self.folder.path / _STATE) as temporary:
            known = self._seen if is_settled else None
            temporary.write_bytes(json_bytes({"signature": known, "writer": token}))

    def _build(self) -> str:
        """Convert all of the original; its parts have numbers that no earlier build has."""
        self.run.rewind()
        parts = self.folder.all_parts()
        first = max((part.part + 1 for part in parts), default=0)
        with staged_folder(self.folder.path.parent) as staged:
            staged.journal.mkdir()
            self._copy = RunCopy(staged, self.run, project=self._copy.project, first_part=first)
            self._copy.read_on()
            self._write_identity(staged)
            swap_in(staged, self.folder)
        self._copy.folder = self.folder
        return secrets.token_hex(8)

    def _source(self) -> dict[str, Any]:
        source = {"format": self.tracker, "path": str(self.path), "key": self.run.key}
        return {**source, "in_place": True}

    def _write_identity(self, folder: RunFolder) -> None:
        problems = {"problems": list(self.run.problems)} if self.run.problems else {}
        record = self._copy.identity_record({**self._source(), **problems})
        with replaced_file(folder.identity) as temporary:
            temporary.write_bytes(json_bytes(record))

    def _state(self) -> tuple[dict[str, Any], float]:
        """What was read of which version of the original, and when that was written."""
        try:
            path = self.folder.path / _STATE
            self.folder.identity.stat()
            return read_json(path), path.stat().st_mtime
        except (OSError, FormatError):
            return {}, 0.0


@dataclass(slots=True)
class _Place:
    """A source and its runs; whoever reads any of them holds the lock, as they share files."""

    source: Source
    lock: threading.RLock = field(default_factory=threading.RLock)
    found: Sequence[tuple[Source, SourceRun]] | None = None

    def runs(self) -> Sequence[tuple[Source, SourceRun]]:
        """Every run that is there now; as of the last search while another thread reads one."""
        if self.lock.acquire(blocking=self.found is None):
            try:
                self.found = list(_runs_of(self.source))
            finally:
                self.lock.release()
        return self.found or ()


class Conversions:
    """The runs of other trackers below some folders; one that stays is the same object.

    Without a ``cache`` folder, or with one that cannot be written, the converted runs lie in a
    temporary folder that goes with this object.
    """

    def __init__(
        self, bounds: SearchBounds, cache: Path | None, guard: Guard | None = None
    ) -> None:
        self._bounds = bounds
        self._cache = cache
        self._guard = Guard() if guard is None else guard
        self.is_kept = False
        # By folder, the sources in it by their labels, and when to search it again.
        self._places: dict[Path, dict[str, _Place]] = {}
        self._again_after: dict[Path, float] = {}
        self._runs: dict[int, ConvertedRun] = {}

    def runs(self, places: Iterable[Path]) -> Sequence[ConvertedRun]:
        """Every run in some folders and files; nothing is converted yet.

        A file that is a tracker's and cannot be read is a run that has nothing but a problem.
        """
        found = {
            id(run): self._runs.get(id(run)) or self._converted(source, run, lock)
            for place in places
            for source, run, lock in self._below(place, depth=0, without=frozenset())
        }
        self._runs = found
        return list(found.values())

    def _converted(self, source: Source, run: SourceRun, lock: threading.RLock) -> ConvertedRun:
        """A run to convert; a fault in its identity is a problem of this one run."""
        member = f"{run.path}/{run.key}"
        made = self._guard.run(member, lambda: ConvertedRun(self, source, run, lock=lock))
        if made is not None:
            return made
        faulty = self._faulty(run.path, member, source.label)
        return ConvertedRun(self, faulty, faulty)

    def at(self, path: Path) -> Sequence[ConvertedRun]:
        """The runs of one file or folder, without those in folders below it."""
        found = [pair for source in self._open(path, frozenset()) for pair in _runs_of(source)]
        # A folder that is a run itself belongs to the one around it, as a list of that has it.
        project = path.parent.name if path.is_dir() else None
        return [
            ConvertedRun(self, source, run, project=project if run.key == "." else None)
            for source, run in found
        ]

    @cached_property
    def root(self) -> Path:
        """The folder of the converted runs."""
        if self._cache is not None:
            with contextlib.suppress(OSError):
                root = self._cache / FOLDER
                root.mkdir(parents=True, exist_ok=True)
                delete_unused(root)
                self.is_kept = os.access(root, os.W_OK)
        if self.is_kept:
            return root
        return temporary_folder(self)

    # -- searching --------------------------------------------------------------------------------

    def _below(
        self, path: Path, *, depth: int, without: Set[str]
    ) -> Iterator[tuple[Source, SourceRun, threading.RLock]]:
        found = [
            (*pair, place.lock)
            for place in self._at(path, without)
            for pair in self._runs_at(place)
        ]
        yield from found
        if depth == _DEPTH:
            return
        # What is found at a place may lie in folders below it; the others are searched as well.
        holders = {folder for _, run, _ in found for folder in (run.path, *run.path.parents)}
        general = {importer.name for importer in all_importers(self._guard) if importer.is_general}
        without = without | _DEEP | (general if found else frozenset())
        for folder in _folders_in(path, self._bounds):
            if folder not in holders:
                yield from self._below(folder, depth=depth + 1, without=without)

    def _at(self, path: Path, without: Set[str]) -> Sequence[_Place]:
        """The sources in one place; the same objects as before for what was there before."""
        known, started = self._places.get(path, {}), time.monotonic()
        if started >= self._again_after.get(path, 0.0):
            found = self._guard.run(str(path), self._open, path, without)
            sources = [self._faulty(path)] if found is None else found
            known = {s.label: known.get(s.label) or _Place(s) for s in sources}
            self._places[path] = known
            ended = time.monotonic()
            pause_s = max(_SEARCH_EVERY_S, (ended - started) * _SEARCH_SHARE)
            self._again_after[path] = ended + pause_s
        return list(known.values())

    def _open(self, path: Path, without: Set[str]) -> Sequence[Source]:
        try:
            return open_all_foreign(path, without=without, bounds=self._bounds, guard=self._guard)
        except FileNotFoundError:  # gone meanwhile
            return []
        except (FormatError, InternalError, OSError) as error:
            return [UnreadableFile(path, _UNKNOWN, str(error))]

    def _runs_at(self, place: _Place) -> Sequence[tuple[Source, SourceRun]]:
        path = place.source.path
        found = self._guard.run(str(path), place.runs)
        return list(_runs_of(self._faulty(path))) if found is None else found

    def _faulty(
        self, path: Path, member: str | None = None, label: str = _UNKNOWN
    ) -> UnreadableFile:
        member = member or str(path)
        error = self._guard.faults[member].error
        return UnreadableFile(path, label, f"{member} cannot be read: {error}.")


def _runs_of(source: Source) -> Iterator[tuple[Source, SourceRun]]:
    try:
        found = source.runs()
    except (FormatError, OSError) as error:
        source = UnreadableFile(source.path, source.label, str(error))
        found = source.runs()
    for run in found:
        yield source, run


def _folders_in(path: Path, bounds: SearchBounds) -> list[Path]:
    """The folders to search in a folder; what a link leads to is found under its own name."""
    try:
        with os.scandir(path) as entries:
            return sorted(
                Path(entry.path)
                for entry in entries
                if not entry.name.startswith(".")
                and (bounds.follow_links or not entry.is_symlink())
                and os.path.isdir(entry.path)
            )
    except OSError:  # gone, no folder, or not for us to look into
        return []


def delete_unused(root: Path, *, keep_s: float = KEEP_S, max_bytes: int = MAX_BYTES) -> None:
    """Delete copies that are not needed, at most once a day; their labels stay."""
    now = time.time()
    cleaned = root / _CLEANED
    if cleaned.exists() and now - cleaned.stat().st_mtime < _CLEAN_EVERY_S:
        return
    cleaned.touch()
    used: list[tuple[float, int, RunFolder]] = []
    for state in root.glob(f"*/{_STATE}"):
        folder = RunFolder(state.parent)
        with contextlib.suppress(OSError, FormatError, KeyError):
            unused_s = now - state.stat().st_mtime
            if unused_s > keep_s or not os.path.exists(
                read_json(folder.identity)["source"]["path"]
            ):
                _delete(folder)
            else:
                files = (path for path in folder.path.rglob("*") if path.is_file())
                used.append((unused_s, sum(file.stat().st_size for file in files), folder))
    total = 0
    for _, size, folder in sorted(used, key=lambda item: item[0]):
        total += size
        if total > max_bytes:
            _delete(folder)


def _delete(folder: RunFolder) -> None:
    with contextlib.suppress(OSError), between_processes(folder.path / _LOCK):
        (folder.path / _STATE).unlink()
        folder.identity.unlink()
        for part in (folder.journal, folder.segments, folder.blobs):
            shutil.rmtree(part, ignore_errors=True)
        if not folder.labels.exists():
            shutil.rmtree(folder.path, ignore_errors=True)
