"""TensorBoard log folders: every folder with event files is a run.

Points keep the time and step of their event; nothing is sampled. A session that begins at step S
(as ``purge_step`` writes it) is a new attempt. ``add_hparams`` makes subfolders named by the time
of the call. They are part of the run above them and give it its configuration. The files that
``add_embedding`` writes for the projector are files of the run, under their paths in its folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from epochal.exchange.imports.foreign import (
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
from epochal.exchange.imports.tfevents_event import Event, KeptFile, Layout, Tags, layout_board
from epochal.exchange.imports.tfevents_file import EventFile
from epochal.journal.blobs import media_type_of_name
from epochal.journal.boards import Board
from epochal.journal.layout import RunFolder, json_or_empty
from epochal.journal.regular_file import read_regular
from epochal.records import Record

ORDER = 20
_FILE_NAME = re.compile(r"tfevents\.(?P<seconds>\d+)\.(?P<host>.+?)(?:\.\d+)*(?:\..*)?$")
_TIME_NAME = re.compile(r"\d{9,11}(\.\d+)?")
# What ``add_embedding`` writes beside the event file, in folders of step and tag.
_PROJECTOR = "projector_config.pbtxt"
_PROJECTOR_FILES = (_PROJECTOR, "*/*/tensors.tsv", "*/*/metadata.tsv", "*/*/sprite.png")


class TensorboardRun(FileRun):
    """One run: the event files of a folder, in the order of their names."""

    def __init__(self, key: str, root: Path) -> None:
        self._root = root
        self._files: dict[Path, EventFile] = {}
        self._projector_files: list[Path] = []
        super().__init__(root / key if root.is_dir() else root, key)

    def rewind(self) -> None:
        super().rewind()
        self._tags = Tags()
        self._files = {path: EventFile(path, tags=self._tags) for path in self._files}
        # The files of the projector that were read, as they were then.
        self._read_files: FileSignature = ()
        self._attempt = 1
        self._has_read = False
        self._writer: str | None = None
        self._layout: Layout = {}

    def learn(self, files: Sequence[Path], /) -> None:
        """Take these files as the run's; what was read of those that stay is kept."""
        events = {path for path in files if is_event_file(path.name)}
        self._projector_files = [path for path in files if path not in events]
        for path in events:
            self._files.setdefault(path, EventFile(path, tags=self._tags))
        for path in self._files.keys() - events:
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

    @property
    def board(self) -> Board | None:
        """The layout of custom charts that was read so far."""
        return layout_board(self._layout) if self._layout else None

    def signature(self) -> FileSignature:
        return file_signature(*self._files, *self._projector_files)

    def read_new(self) -> Iterator[Batch]:
        for path in self._ordered():
            file = self._files[path]
            if file.attempt is None:
                file.attempt = self._attempt
            try:
                yield from self._batches(file)
            except OSError as error:
                file.problems.say(f"{path} cannot be read: {error.strerror or error}.")
        for record in self._projector_records():
            yield Batch([record], self._attempt)

    def _ordered(self) -> list[Path]:
        """The files by name, which begins with the time they were begun at."""
        return sorted(self._files, key=lambda path: (path.name, path))

    def _projector_records(self) -> Iterator[Record]:
        """The files of the projector that are new or have changed, at the step of their folder."""
        found = file_signature(*self._projector_files)
        for path, _, changed_ns in sorted(set(found) - set(self._read_files)):
            name = Path(path).relative_to(self.path)
            try:
                data = read_regular(path)
            except OSError as error:
                self._said.say(f"{path} cannot be read: {error.strerror or error}.")
                continue
            self._blobs = {}
            sample = KeptFile(data, media_type_of_name(path))
            step = int(name.parts[0]) if name.parts[0].isdecimal() else 0
            t = round(changed_ns / 1e9, 3)
            yield from self.sample_records(name.as_posix(), sample, t=t, step=step)
        self._read_files = found

    def _batches(self, file: EventFile) -> Iterator[Batch]:
        """The new records of one file; a batch has records of one attempt."""
        for items in file.read():
            self._blobs = {}
            records = RecordList()
            for t, step, name, value in items:
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
                self._take(value, records)
            if records:
                yield self._batch(file, records)

    def _batch(self, file: EventFile, records: list[Record]) -> Batch:
        self._has_read = True
        return Batch(records, file.attempt or 1)

    def _take(self, event: Event, records: RecordList) -> None:
        self._writer = event.writer or self._writer
        self._layout.update(event.layout)
        t = round(event.t, 3)
        for name, value in event.points:
            records.add_point(name, value, step=event.step, t=t)
        for record in event.records:
            record["t"] = t
        records.extend(event.records)
        for name, sample in event.samples:
            records.extend(self.sample_records(name, sample, t=t, step=event.step))


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
            files = files and _without_own(folder, files)
            if files:
                more: list[Path] = []
                if any(entry.name == _PROJECTOR for entry in inner):
                    more = [path for name in _PROJECTOR_FILES for path in Path(folder).glob(name)]
                yield Path(folder), [*map(Path, files), *self.bounds.chosen(sorted(more))]

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


def _without_own(folder: str, files: list[str]) -> list[str]:
    """The files without the one that our sink wrote of the run in the folder, and ends in its id.

    Epochal 0.2.0 wrote it into a folder ``tensorboard`` in the folder of the run.
    """
    path = Path(folder)
    run = path.parent if path.name == "tensorboard" else path
    own = json_or_empty(RunFolder(run).identity).get("id")
    return [file for file in files if not file.endswith(f".{own}")]


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads to itself
        return False
