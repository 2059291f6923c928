"""TensorBoard log folders: every folder with event files is a run.

Points keep the time and step of their event; nothing is sampled. A session that begins at step S
(as ``purge_step`` writes it) is a new attempt. ``add_hparams`` makes subfolders named by the time
of the call. They are part of the run above them and give it its configuration.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from epochal.imports.foreign import (
    Batch,
    FileRun,
    Files,
    FileSignature,
    Identity,
    RecordList,
    file_signature,
    is_event_file,
    stable_id,
)
from epochal.imports.tfevents_event import Event, Tags
from epochal.imports.tfevents_file import EventFile
from epochal.journal.regular_file import regular_only
from epochal.records import Record

ORDER = 20
_FILE_NAME = re.compile(r"tfevents\.(?P<seconds>\d+)\.(?P<host>.+?)(?:\.\d+)*(?:\..*)?$")
_TIME_NAME = re.compile(r"\d{9,11}(\.\d+)?")


class TensorboardRun(FileRun):
    """One run: the event files of a folder, in the order of their names."""

    def __init__(self, key: str, root: Path) -> None:
        self._root = root
        self._files: dict[Path, EventFile] = {}
        super().__init__(root / key if root.is_dir() else root, key)

    def rewind(self) -> None:
        """Begin at the first event of every file again."""
        super().rewind()
        self._tags = Tags()
        self._files = {path: EventFile(path, tags=self._tags) for path in self._files}
        # Where the bytes of blobs lie: file, start and end.
        self._places: dict[str, tuple[Path, int, int]] = {}
        self._attempt = 1
        self._has_read = False
        self._writer: str | None = None

    def learn(self, files: Sequence[Path], /) -> None:
        """Take these files as the run's; what was read of those that stay is kept."""
        for path in files:
            self._files.setdefault(path, EventFile(path, tags=self._tags))
        for path in self._files.keys() - set(files):
            self._said += self._files.pop(path).problems

    @property
    def identity(self) -> Identity:
        """Folder names, and the time and host that are part of an event file's name."""
        folder = self._root.parent if self._root.is_file() else self._root
        project = folder.name or "tensorboard"
        facts: dict[str, object] = {"source": str(self._root)}
        created: float | None = None
        for path in self._ordered():
            match = _FILE_NAME.search(path.name)
            if match is not None:
                created = float(match["seconds"])
                facts["host"] = match["host"]
                break
        if self._writer is not None:
            facts["writer"] = self._writer
        return Identity(
            id=stable_id("tensorboard", self.path),
            name=project if self.key == "." else self.key,
            project=project,
            created=created,
            facts=facts,
        )

    @property
    def problems(self) -> Sequence[str]:
        """Places that are damaged, and files that could not be opened."""
        return [*self._said, *(p for file in self._files.values() for p in file.problems)]

    def signature(self) -> FileSignature:
        """Sizes and times of the event files."""
        return file_signature(*self._files)

    def read_new(self) -> Iterator[Batch]:
        """What was written to any of the files since."""
        for path in self._ordered():
            file = self._files[path]
            if file.attempt is None:
                file.attempt = self._attempt
            try:
                yield from self._batches(file)
            except OSError as error:
                file.problems.say_once(f"{path} cannot be read: {error.strerror or error}.")

    def _ordered(self) -> list[Path]:
        """The files by name, which begins with the time they were begun at."""
        return sorted(self._files, key=lambda path: (path.name, path))

    def blob(self, file: str) -> bytes:
        """The bytes of an image, a sound or a graph, from its place in the event file."""
        path, start, end = self._places[file]
        with open(path, "rb", opener=regular_only) as opened:
            opened.seek(start)
            return opened.read(end - start)

    def _batches(self, file: EventFile) -> Iterator[Batch]:
        """The new records of one file; a batch has records of one attempt."""
        for items in file.read():
            records = RecordList()
            for place, t, step, name, value in items:
                if not isinstance(value, Event):
                    records.add_point(name, value, step=step, t=t)
                    continue
                if value.is_restart and (self._has_read or records):
                    if records:
                        yield self._batch(file, records)
                    self._attempt += 1
                    file.attempt = self._attempt
                    at: Record = {"t": t, "attempt": self._attempt, "step": step}
                    records = RecordList([{"log": "resume", **at}])
                self._take(file.path, place, value, records)
            if records:
                yield self._batch(file, records)

    def _batch(self, file: EventFile, records: list[Record]) -> Batch:
        self._has_read = True
        return Batch(records, file.attempt or 1)

    def _take(self, path: Path, place: int, event: Event, records: RecordList) -> None:
        self._writer = event.writer or self._writer
        t = round(event.t, 3)
        for name, value in event.points:
            records.add_point(name, value, step=event.step, t=t)
        for record in event.records:
            record["t"] = t
        records.extend(event.records)
        for file, blob in event.blobs.items():
            self._places.setdefault(file, (path, place + blob.start, place + blob.end))


class TensorboardFolder(Files[TensorboardRun]):
    """A log folder as TensorBoard's ``--logdir`` takes it, or one event file."""

    label = "TensorBoard"
    run_type = TensorboardRun

    def files(self) -> Iterator[tuple[Path, list[Path]]]:
        """Every folder with event files, and those files; each folder once."""
        if self.path.is_file() and is_event_file(self.path.name):
            yield self.path.parent, [self.path]
        seen: set[tuple[int, int]] = set()
        left = [str(self.path)]
        while left:
            folder = left.pop()
            try:
                status = os.stat(folder)
                if (status.st_dev, status.st_ino) in seen:  # a link to a folder above
                    continue
                seen.add((status.st_dev, status.st_ino))
                with os.scandir(folder) as entries:
                    inner = [entry for entry in entries if self.bounds.allows_entry(entry)]
            except OSError:  # gone, no folder, or not for us to look into
                continue
            folders = {entry.path for entry in inner if _is_folder(entry)}
            left += folders
            files = sorted({e.path for e in inner if is_event_file(e.name)} - folders)
            if files:
                yield Path(folder), [Path(file) for file in files]

    def listed(self) -> Iterable[tuple[tuple[str, Path], list[Path]]]:
        """Every folder with event files, those of hyperparameters as part of the run above."""
        folders = dict(sorted(self.files()))
        found: dict[str, list[Path]] = {}
        for folder, files in folders.items():
            is_part = _TIME_NAME.fullmatch(folder.name) and folder.parent in folders
            home = folder.parent if is_part else folder
            key = "." if self.path.is_file() else home.relative_to(self.path).as_posix()
            found.setdefault(key, []).extend(files)
        return [((key, self.path), files) for key, files in found.items()]


find = TensorboardFolder.find


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads to itself
        return False
