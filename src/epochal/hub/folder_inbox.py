"""Receives runs into a folder that is laid out like any folder of runs.

An acknowledgement names only what a reader of this folder finds. A line is acknowledged after it is
on the disk, a file after it is there under its name. What a hub has of a part is counted in the
file itself, so a hub that was restored from an older copy states what it really has, and shippers
send the rest again.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from epochal.base.atomic_file import between_processes, replaced_file, sync_folder
from epochal.errors import FormatError
from epochal.hub.documents import FOLDER
from epochal.hub.inbox import (
    Readiness,
    UnknownRunError,
    check_lines,
    check_piece,
    fewer_records,
    other_content,
    other_project,
)
from epochal.hub.limits import FullError
from epochal.hub.summaries import checked_metrics, checked_summary
from epochal.journal.blobs import blob_is_whole, encode_pending
from epochal.journal.labels import read_labels
from epochal.journal.layout import (
    LABELS_LOCK,
    PartName,
    RunFolder,
    SearchBounds,
    create_run_folder,
    is_patch,
    json_bytes,
    read_json,
    run_folders,
    slugify,
    write_json,
)
from epochal.journal.row import Mark
from epochal.journal.summaries import identity_mark, metrics_bytes, names_of, summary_bytes
from epochal.shipping import protocol
from epochal.shipping.offering import PartCounts, json_or_empty, named_part, piece_of, state_of
from epochal.shipping.protocol import merged_labels
from epochal.shipping.shipper import file_digest


@dataclass(slots=True)
class GrowingPart:
    """A journal part that grows on a hub: its whole lines, and where they end."""

    path: Path
    lines: int
    size: int


def _labels_of(folder: RunFolder) -> dict[str, Any]:
    """The labels that are stored here; none where the file is damaged, which is then replaced."""
    try:
        read_labels(folder)
    except FormatError:
        return {}
    return json_or_empty(folder.labels)


def file_size(path: Path) -> int:
    """The size of a file; 0 for one that is not there."""
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def _version_of(folder: RunFolder) -> tuple[int, int] | None:
    """The time and the inode of who a run is; None where there is no such file."""
    try:
        status = os.stat(folder.identity)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_mtime_ns, status.st_ino


def append_durably(path: Path, new: bytes) -> None:
    """Append to a file and return when the disk has it: each call of the system once.

    Hundreds of threads that wait for the interpreter after each of them keep all requests waiting.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        left = memoryview(new)
        while left:  # a disk that is nearly full takes it in pieces, then raises
            left = left[os.write(descriptor, left) :]
        _sync_data(descriptor)
    finally:
        os.close(descriptor)


def _sync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _cut_off(path: Path, size: int) -> None:
    """Cut a file to a size that it had before; one that is not there has none."""
    if file_size(path) > size:
        os.truncate(path, size)


_sync_data: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)


# Rank 0 may start so much earlier than the other ranks of its launch.
_LAUNCH_SLACK_S = 600.0
# Is written to see whether anything can be.
_PROBE = ".ready"


@dataclass(slots=True)
class _Run:
    """One run that the hub receives; ``lock`` is held by each change of it.

    ``project`` is the name of the folder it lies in, which decides who sees it on the page too.
    ``version`` is of its ``run.json`` when that was last seen to be of this run.
    """

    id: str
    project: str
    folder: RunFolder
    version: tuple[int, int]
    lock: threading.Lock = field(default_factory=threading.Lock)
    parts: dict[str, GrowingPart] = field(default_factory=dict)
    # What the disk has of parts to which it failed to append.
    failed: dict[str, int] = field(default_factory=dict)
    # Parts that were here before, and folders, that the disk has.
    synced: set[str] = field(default_factory=set)


class FolderInbox:
    """The runs below one folder, as shippers see them.

    ``charge`` is called with a run's id and the bytes that are about to be stored; it
    raises ``FullError`` when they do not fit. ``on_commit`` is called with the bytes of lines that
    were made durable, and the seconds that it took.
    """

    # They wait for the disk, which writes what many wait for together.
    num_threads = 32

    def __init__(
        self,
        root: Path,
        *,
        charge: Callable[[str, int], None] = lambda _run_id, _num_bytes: None,
        on_commit: Callable[[int, float], None] = lambda _num_bytes, _seconds: None,
    ) -> None:
        self.root = root
        self._on_commit = on_commit
        self._bounds = SearchBounds(root)
        self._charge = charge
        self._lock = threading.Lock()
        self._folder_by_id: dict[str, Path] | None = None
        # The run in each folder: that of a deleted run may be given to another one.
        self._id_by_folder: dict[Path, str] = {}
        self._runs: dict[str, _Run] = {}
        self._counts = PartCounts()

    # -- runs -------------------------------------------------------------------------------------

    def known_project(self, run_id: str) -> str | None:
        """The project of a run that was received or asked for before; it waits for nothing."""
        run = self._runs.get(run_id)
        return None if run is None else run.project

    def project_of(self, run_id: str) -> str | None:
        """The project of a run that is here; None for an unknown run."""
        run = self._run_or_none(run_id)
        return None if run is None else run.project

    def folder_of(self, run_id: str) -> Path | None:
        """The folder of a run that is here; None for an unknown run."""
        run = self._run_or_none(run_id)
        return None if run is None else run.folder.path

    def rescan(self) -> None:
        """Search the folder for runs again: a person has moved some."""
        with self._lock:
            self._folder_by_id = None

    @contextlib.contextmanager
    def locked(self, run_id: str) -> Iterator[None]:
        """Let nothing be written to a run meanwhile."""
        run = self._run_or_none(run_id)
        with contextlib.nullcontext() if run is None else run.lock:
            yield

    def register(
        self, run_id: str, identity: Mapping[str, Any], *, writer: str = ""
    ) -> protocol.RunState:
        """Take in who a run is; the ledger knows its writer."""
        checked = protocol.checked_identity(run_id, identity)
        with self._lock:
            path = self._folders().get(run_id)
            if path is None:
                self._charge(run_id, len(json_bytes(checked)))
                project = self.root / slugify(checked["project"])
                folder, name = create_run_folder(project, checked["name"])
                checked["name"] = name
                try:
                    write_json(folder.identity, checked)
                    sync_folder(project)
                    sync_folder(self.root)  # an earlier try may have made the project and failed
                except OSError:  # at the next try the run would be there, and perhaps not lasting
                    shutil.rmtree(folder.path, ignore_errors=True)
                    raise
                self._set_folder(run_id, folder.path)
        run = self._run(run_id)
        with run.lock:
            if run.project != slugify(checked["project"]):
                raise other_project(run_id, run.project)
            self._update_identity(run, checked)
        return self.state(run_id)

    def launched(self, launch_id: str, project: str, *, age_s: float) -> str:
        """The run of rank 0 of a launch that began so long ago; ids of launches come again.

        ``run.json`` was written when that attempt began, so an older file is of another launch.
        """
        since = time.time() - age_s - _LAUNCH_SLACK_S
        with self._lock:
            folders = dict(self._folders())
        found: list[tuple[float, str]] = []
        for run_id, path in folders.items():
            with contextlib.suppress(OSError, FormatError):
                written = (path / "run.json").stat().st_mtime
                if written < since or self._project_at(path) != slugify(project):
                    continue
                if read_json(path / "run.json").get("launch_id") == launch_id:
                    found.append((written, run_id))
        if not found:
            raise UnknownRunError(f"no run of the launch {launch_id!r} is here.")
        return max(found)[1]

    def state(self, run_id: str) -> protocol.RunState:
        """What is here of a run."""
        run = self._run(run_id)
        with contextlib.suppress(OSError):  # a folder that is read-only
            encode_pending(run.folder)  # of a run that was written here
        with run.lock:
            for name in run.folder.parts():
                if name.stem in run.failed:
                    self._part(run, name)
                elif name.stem not in run.parts:
                    self._sync_known(run, name)
            return state_of(run.folder, self._counts)

    # -- what shippers send -----------------------------------------------------------------------

    def append(self, run_id: str, stem: str, *, first: int, lines: bytes) -> int:
        """Append lines of a part that are not here yet; how many lines are on the disk then.

        Lines beyond a gap are not taken: the answer says from where to send. Nothing is appended
        to a part that was sealed: its sender has to send the segment.
        """
        name = named_part(stem)
        check_lines(lines)
        run = self._run(run_id)
        with run.lock:
            part = run.parts.get(stem)
            # A file that is as this hub left it: the part is not sealed.
            if part is not None and part.size and part.size == file_size(part.path):
                return self._append(run, part, first=first, lines=lines)
            sealed = run.folder.sealed_path(name)
            if sealed.exists():
                return self._counts.sealed(sealed).lines
            return self._append(run, self._part(run, name), first=first, lines=lines)

    def put_file(
        self,
        run_id: str,
        kind: protocol.FileKind,
        name: str,
        chunk: bytes,
        *,
        offset: int,
        size: int,
        sha256: str,
    ) -> int:
        """Take in a piece of a file; how many bytes of it are here then.

        The file appears under its name when it is whole, has the stated digest, and is on the disk;
        only then is its whole size returned. An empty piece asks how much is here. A segment
        replaces one with fewer lines; of blobs, only damaged ones are replaced.
        """
        check_piece(kind, name, chunk, offset=offset, size=size, sha256=sha256)
        run = self._run(run_id)
        with run.lock:
            target = run.folder.path / kind / name
            if kind == "live":
                return self._put_live(run, target, chunk, size=size)
            if target.exists():
                if file_digest(target) == (sha256, size):
                    _sync_file(target)  # the hub that received it may not have done it
                    self._sync_names(run, kind)
                    self._drop_lines(run, kind, name)
                    return size
                if kind == "blobs" and blob_is_whole(target) is not False:
                    raise other_content(kind, name)
            partial = target.with_name(protocol.PARTIAL_NAME.format(name=name, digest=sha256[:16]))
            have = file_size(partial)
            if have < size or not size:
                if offset != have:
                    return have
                self._charge(run.id, len(chunk))
                target.parent.mkdir(exist_ok=True)
                with open(partial, "ab") as file:
                    file.write(chunk)
                have += len(chunk)
            # Also if a hub was killed after it had received the last piece.
            return have if have < size else self._complete(run, kind, partial, name, sha256)

    def put_labels(
        self,
        run_id: str,
        labels: Mapping[str, Any],
        base: Mapping[str, Any],
        *,
        on_change: Callable[[list[str]], object] = lambda _fields: None,
    ) -> dict[str, Any]:
        """Merge labels that were changed elsewhere; what holds for both sides then.

        ``on_change`` is called with the fields that changed here.
        """
        run = self._run(run_id)
        with run.lock, between_processes(run.folder.path / LABELS_LOCK):
            here = _labels_of(run.folder)
            merged = merged_labels(ours=here, theirs=labels, base=base)
            if merged != here:
                self._charge_growth(run, run.folder.labels, len(json_bytes(merged)))
                write_json(run.folder.labels, merged)
                fields = sorted({*merged, *here})
                on_change([name for name in fields if merged.get(name) != here.get(name)])
            return merged

    def put_summary(self, run_id: str, body: bytes) -> bool:
        """Take in ``summary.json`` as its sender has it; False for lines that are not here yet."""
        run = self._run(run_id)
        mark = identity_mark(str(run.folder.path))  # first: a newer file has another
        known = names_of(read_json(run.folder.identity).get, str(run.folder.path))
        names = {"name": known["name"], "project": known["project"]}
        row = checked_summary(run_id, body, names=names)
        return self._put_known(run, run.folder.summary, summary_bytes(row, mark), row.positions)

    def put_metrics(self, run_id: str, body: bytes) -> bool:
        """The same for ``metrics.json``."""
        known, run = checked_metrics(body), self._run(run_id)
        return self._put_known(run, run.folder.metrics, metrics_bytes(known), known.marks)

    def _put_known(self, run: _Run, path: Path, data: bytes, marks: Mapping[str, Mark]) -> bool:
        with run.lock:
            if not all(self._has(run.folder, stem, mark) for stem, mark in marks.items()):
                return False
            self._charge_growth(run, path, len(data))
            with replaced_file(path) as temporary:
                temporary.write_bytes(data)
        return True

    def _has(self, folder: RunFolder, stem: str, mark: Mark) -> bool:
        name = named_part(stem)
        return file_size(folder.part_path(name)) >= mark.bytes or folder.sealed_path(name).exists()

    # -- what others fetch ------------------------------------------------------------------------

    def lines(self, run_id: str, stem: str, *, first: int) -> bytes:
        """Whole lines of a part from an ordinal on, about as many as fit in one batch."""
        path = self._run(run_id).folder.part_path(named_part(stem))
        return self._counts.lines(path, first)

    def file(self, run_id: str, kind: protocol.FileKind, name: str, *, offset: int) -> bytes:
        """A piece of a file from an offset on."""
        return piece_of(self._run(run_id).folder, kind, name, offset=offset)

    def readiness(self) -> Readiness:
        """Whether anything can be stored now."""
        try:
            self._charge("", 0)
            # Catalogs list a folder again when it changes, but not that of the hub's own files.
            own = self.root / FOLDER
            probe = (own if own.is_dir() else self.root) / _PROBE
            probe.write_bytes(b"x")
            probe.unlink()
        except FullError as error:
            return Readiness((str(error),))
        except OSError as error:
            return Readiness((f"the folder cannot be written: {error.strerror}.",))
        return Readiness()

    # -- files ------------------------------------------------------------------------------------

    def _folders(self) -> dict[str, Path]:
        """Where each run lies, by its id; the folders are looked through once."""
        if self._folder_by_id is None:
            self._folder_by_id = {}
            for folder in run_folders(self.root):
                with contextlib.suppress(OSError, FormatError):
                    run_id = self._id_at(folder)
                    if run_id is not None and run_id not in self._folder_by_id:
                        self._set_folder(run_id, folder.path)
        return self._folder_by_id

    def _set_folder(self, run_id: str, path: Path) -> None:
        """Know where a run lies; the one that lay there before is gone."""
        folders, before = self._folders(), self._id_by_folder.get(path, run_id)
        if before != run_id and folders.get(before, path) == path:
            folders.pop(before, None)
            self._runs.pop(before, None)
        self._id_by_folder[path] = run_id
        folders[run_id] = path

    def _run(self, run_id: str) -> _Run:
        """A run that is here; raises ``UnknownRunError`` for any other."""
        run = self._runs.get(run_id)
        if run is not None and run.version == _version_of(run.folder):
            return run  # without the lock: whoever registers a run holds it while the disk syncs
        with self._lock:
            path = self._folders().get(run_id)
            folder = RunFolder(path) if path is not None else None
            version = None if folder is None else _version_of(folder)
            found = None if folder is None or version is None else self._id_at(folder)
            if folder is None or version is None or found != run_id:
                # It was removed or moved to the trash, and another run may lie there now.
                self._runs.pop(run_id, None)
                self._folders().pop(run_id, None)
                if folder is not None and found is not None:
                    self._set_folder(found, folder.path)
                raise UnknownRunError(f"the hub does not know the run {run_id}.")
            run = self._runs.get(run_id)
            if run is None or run.folder.path != folder.path:
                project = self._project_at(folder.path)
                run = self._runs[run_id] = _Run(run_id, project, folder, version)
            run.version = version
            return run

    def _run_or_none(self, run_id: str) -> _Run | None:
        try:
            return self._run(run_id)
        except UnknownRunError:
            return None

    def _id_at(self, folder: RunFolder) -> str | None:
        """Whose folder it is; None for nobody's, and where a link leads out of the hub's folder."""
        names = ("run.json", "labels.json", "journal", "segments", "blobs", "live")
        inside = [folder.path / name for name in names]
        if not self._bounds.allows(folder.path) or any(map(self._bounds.leads_out, inside)):
            return None
        run_id = read_json(folder.identity).get("id")
        return run_id if isinstance(run_id, str) else None

    def _project_at(self, path: Path) -> str:
        """The project of a run in a folder; none for one that lies in no project's."""
        return path.parent.name if path.parent.parent == self.root else ""

    def _update_identity(self, run: _Run, checked: dict[str, Any]) -> None:
        before = read_json(run.folder.identity)
        checked |= {key: before[key] for key in ("name", "project") if key in before}
        if before != checked:
            self._charge_growth(run, run.folder.identity, len(json_bytes(checked)))
            write_json(run.folder.identity, checked)

    def _part(self, run: _Run, name: PartName) -> GrowingPart:
        part, path = run.parts.get(name.stem), run.folder.part_path(name)
        if name.stem in run.failed:  # the next fsync would succeed, and prove nothing
            _cut_off(path, run.failed[name.stem])
            del run.failed[name.stem]
        # A file that another process changed was restored from a backup under a running hub.
        if part is None or part.size != file_size(path):
            lines, end = self._counts.whole(path)
            if file_size(path) > end:  # what follows the last whole line was never acknowledged
                os.truncate(path, end)
            self._sync_known(run, name)
            part = run.parts[name.stem] = GrowingPart(path, lines, end)
        return part

    def _sync_known(self, run: _Run, name: PartName) -> None:
        """Sync a part that this hub did not write: one that was killed may not have done it."""
        if name.stem not in run.synced and run.folder.part_path(name).exists():
            _sync_file(run.folder.part_path(name))
            sync_folder(run.folder.journal)
            sync_folder(run.folder.path)
            run.synced.add(name.stem)

    def _append(self, run: _Run, part: GrowingPart, *, first: int, lines: bytes) -> int:
        if first > part.lines:
            return part.lines
        new = protocol.lines_after(lines, part.lines - first)
        if new:
            self._charge(run.id, len(new))
            self._write(run, part, new)
        return part.lines

    def _write(self, run: _Run, part: GrowingPart, new: bytes) -> None:
        is_first, began_s = part.size == 0, time.monotonic()
        if is_first:
            run.folder.journal.mkdir(exist_ok=True)
        try:
            append_durably(part.path, new)
            if is_first:
                sync_folder(run.folder.journal)
                sync_folder(run.folder.path)
        except OSError:
            # Take away what the disk does not have, so that nothing of it is taken for received.
            run.parts.pop(part.path.stem, None)
            run.failed[part.path.stem] = part.size
            with contextlib.suppress(OSError):
                self._part(run, named_part(part.path.stem))
            raise
        part.lines += new.count(b"\n")
        part.size += len(new)
        self._on_commit(len(new), time.monotonic() - began_s)

    def _complete(
        self, run: _Run, kind: protocol.FileKind, partial: Path, name: str, sha256: str
    ) -> int:
        """Let a file appear under its name; 0 if it has another digest and is sent again."""
        digest, size = file_digest(partial)
        if digest != sha256:
            partial.unlink()
            return 0
        if kind == "segments":
            self._check_segment(run, name, partial)
        target = partial.with_name(name)
        if is_patch(name):
            partial.chmod(0o600)
        try:
            _sync_file(partial)
        except OSError:  # at the next try fsync would succeed, although the disk has not all of it
            partial.unlink()
            raise
        if kind == "segments":  # from here on, nothing is appended to the part
            run.parts.pop(target.stem, None)
        os.replace(partial, target)
        self._sync_names(run, kind)
        self._drop_lines(run, kind, name)
        return size

    def _sync_names(self, run: _Run, kind: protocol.FileKind) -> None:
        """Sync the names of received files, and once that of their folder."""
        sync_folder(run.folder.path / kind)
        if kind not in run.synced:
            sync_folder(run.folder.path)
            run.synced.add(kind)

    def _drop_lines(self, run: _Run, kind: protocol.FileKind, name: str) -> None:
        """Delete the lines of a part whose segment is here."""
        if kind == "segments":
            part = named_part(name.removesuffix(".parquet"))
            run.parts.pop(part.stem, None)
            run.folder.part_path(part).unlink(missing_ok=True)

    def _check_segment(self, run: _Run, name: str, partial: Path) -> None:
        """Raise unless a segment has at least as many lines as what is here of its part."""
        from epochal.journal.segments.read import Segment

        part = named_part(name.removesuffix(".parquet"))
        sealed = run.folder.sealed_path(part)
        path = run.folder.part_path(part)
        have = 0  # lines that are not blank
        if path.exists():
            with open(path, "rb") as file:
                have = sum(1 for line in file if line.endswith(b"\n") and line.strip())
        if sealed.exists():
            have = max(have, self._counts.sealed(sealed).lines)
        try:
            with Segment(partial) as segment:
                segment.check_pages()  # a damaged one must not replace a good one
                sent = segment.num_records + segment.num_damaged
        except FormatError:
            partial.unlink()
            raise
        if sent < have:
            partial.unlink()
            raise fewer_records(name, sent, have)

    def _charge_growth(self, run: _Run, path: Path, size: int) -> None:
        """Charge what a file that is replaced takes more than before."""
        before = path.stat().st_size if path.exists() else 0
        if size > before:
            self._charge(run.id, size - before)

    def _put_live(self, run: _Run, target: Path, chunk: bytes, *, size: int) -> int:
        self._charge_growth(run, target, size)
        target.parent.mkdir(exist_ok=True)
        with replaced_file(target) as temporary:
            temporary.write_bytes(chunk)
        return size
