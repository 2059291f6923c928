"""The protocol of an importer: runs of another tracker that can be read while they grow.

An importer is one file in ``formats/``, with a function ``find``; see ``registry.py``.

Importers never write to the files they read, and read on demand.

- ``Source.runs()`` lists the folder again. A known run is the same object, with its position in
  its files.
- ``SourceRun.read_new()`` returns what was written since the last call, in batches of records of
  Epochal's kinds (``epochal.records``). An incomplete record at the end of a file is left for the
  next call.
- A batch names its attempt. A run that was resumed at step S begins a new attempt, whose first
  record is ``resume`` with ``step`` S, as in a journal.
- Files only grow while they are read. Smaller sizes in the ``signature`` mean that they were
  replaced; then ``rewind`` makes the run be read again from its beginning.
- A run may have a ``board``, an ``epochal.journal.boards.Board`` that is copied with it.
- Records of the kinds ``blob`` and ``file`` name a file; ``SourceRun.blob`` gives its bytes
  until the next batch is read.
- ``read_new`` never raises for damage. It adds a sentence with the file and the position to
  ``problems``, and reads the rest. A file that cannot be read raises ``FormatError`` from ``find``
  or ``runs``, or is a problem of its run.

Runs of a server (``Source``, ``SourceRun``) are only copied. They are read once, and completely: a
fault of the server raises ``HttpError``, and the run is not copied.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import msgspec

from epochal.base.guard import attempt, describe
from epochal.errors import EpochalError
from epochal.exchange.media.types import Sample
from epochal.journal.blobs import Pixels, blob_name, encode
from epochal.journal.layout import SearchBounds
from epochal.journal.regular_file import read_regular
from epochal.records import Record

BATCH_RECORDS = 8192
_MAX_SENTENCES = 20


class Batch(msgspec.Struct, frozen=True, eq=False):
    """What one reading found; attempts count from 1."""

    records: Sequence[Record]
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a foreign run is, in our words; ``created`` in Unix seconds.

    ``id`` is the same at every reading; ``facts`` is what else its files say of it.
    """

    id: str
    name: str
    project: str
    created: float | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    notes: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


# Name, size and time of change in nanoseconds of each file; a fact that is no file has zeros.
FileSignature = tuple[tuple[str, int, int], ...]


class SourceRun(Protocol):
    """One run of another tracker that can be copied."""

    @property
    def key(self) -> str:
        """A stable key that identifies the run within its source."""

    @property
    def path(self) -> Any:
        """The file, folder or address it comes from; several runs may share one."""

    @property
    def identity(self) -> Identity:
        """The identity of the run, as far as it is read; the first call reads the beginning."""

    @property
    def problems(self) -> Sequence[str]:
        """What could not be read so far: a sentence each, with the file and the place in it."""

    def signature(self) -> FileSignature:
        """Names, sizes and times of its files; if unchanged, there is nothing new to read."""

    def rewind(self) -> None:
        """Forget what was read: the next ``read_new`` begins at the beginning."""

    def read_new(self) -> Iterator[Batch]:
        """What was written since the last call."""

    def blob(self, file: str) -> bytes:
        """The bytes of a file that the last batch names; ``KeyError`` for others."""


class Source(Protocol):
    """Where runs of another tracker can be copied from: files, or a server."""

    @property
    def label(self) -> str:
        """The tracker, as people call it."""

    @property
    def path(self) -> Any:
        """The file, folder or address that was opened."""

    def runs(self) -> Sequence[SourceRun]:
        """Every run that is there now."""


def stable_id(*parts: object) -> str:
    """Twelve hexadecimal digits that are the same for the same parts, for runs that have no id."""
    text = "\0".join(map(str, parts))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def file_signature(*paths: Path) -> FileSignature:
    """Name, size and time of change of files; those that are gone are left out."""
    found = []
    for path in paths:
        try:
            status = path.stat()
        except OSError:
            continue
        found.append((str(path), status.st_size, status.st_mtime_ns))
    return tuple(found)


def is_event_file(name: str) -> bool:
    """Whether TensorBoard's writers give a file this name."""
    return "tfevents" in name


def is_tracker_file(name: str) -> bool:
    """Whether only a tracker makes files of this name; others may be anything."""
    return is_event_file(name) or name.endswith((".wandb", ".db", "training.json"))


class RecordList(list[Record]):
    """Records in the order written, whose times are rounded to milliseconds already."""

    def add_point(self, name: str, value: float, *, step: int, t: float) -> None:
        """Add a value of a free metric.

        Values that follow each other with the same step, at the same time and under different names
        are one record.
        """
        last = self[-1] if self else {}
        is_same = last.get("log") == "metrics" and last["t"] == t and last["step"] == step
        if is_same and name not in last["m"]:
            last["m"][name] = value
        else:
            self.append({"log": "metrics", "t": t, "step": step, "m": {name: value}})


def batches_of(records: Iterable[Record]) -> Iterator[Batch]:
    """Records in batches, as they come."""
    source = iter(records)
    while batch := list(islice(source, BATCH_RECORDS)):
        yield Batch(batch)


class Problems(list[str]):
    """Sentences about one file; of many only the first, and how many more there are."""

    def __init__(self, path: Path | str) -> None:
        super().__init__()
        self._path = path
        self._num = 0

    def say(self, sentence: str) -> None:
        """Add a problem that is not among the sentences."""
        if sentence in self:
            return
        self._num += 1
        if len(self) < _MAX_SENTENCES:
            self.append(sentence)
        else:
            more = self._num - _MAX_SENTENCES
            self[_MAX_SENTENCES:] = [f"{self._path} is damaged in {more} more places."]

    def say_shorter(self, offset: int) -> None:
        """Add that the file is shorter than what was read of it."""
        self.say(f"{self._path} became shorter than the {offset} bytes read of it.")

    def say_damage(self, place: int, what: str) -> None:
        """Add that the bytes at a place of the file cannot be read."""
        self.say(f"{self._path} is damaged at byte {place}: {what}.")


class FileRun:
    """What most runs in files have in common; the parts of ``SourceRun`` for one file."""

    identity: Any

    def __init__(self, path: Any, key: str) -> None:
        self.path = path  # or an address
        self.key = key
        self.rewind()

    def rewind(self) -> None:
        """Begin at the beginning of the file again."""
        self._said = Problems(self.path)
        self._blobs: dict[str, Path | bytes] = {}

    @property
    def problems(self) -> Sequence[str]:
        return self._said

    def learn(self, facts: Any, /) -> None:
        """Take what listing the place says of the run."""

    def signature(self) -> FileSignature:
        """Size and time of the file."""
        return file_signature(self.path)

    def read_new(self) -> Iterator[Batch]:
        """The records that were written since."""
        return batches_of(self._new_records())

    def _new_records(self) -> Iterable[Record]:
        """The same one by one, for runs that have no batches."""
        return ()

    def sample_records(
        self, name: str, samples: Sample | list[Sample], *, t: float, step: int
    ) -> Iterator[Record]:
        """The records of samples, whose files ``blob`` returns; problems if they cannot be read."""
        for index, sample in enumerate(samples if isinstance(samples, list) else [samples]):
            place = {"index": index} if isinstance(samples, list) else {}
            record, error = attempt(sample.record, self)
            if record is not None:
                yield {"log": "", "t": t, "step": step, "name": name, **record, **place}
            elif error is not None:
                reason = str(error) if isinstance(error, EpochalError) else f"{describe(error)}."
                self._said.say(f"{self.path}: {name!r} at step {step} is skipped: {reason}")

    def file(self, data: bytes, media_type: str) -> str:
        """Keep the file of a sample until it is copied."""
        name = blob_name(media_type, data)
        self._blobs[name] = data
        return name

    def pixels(self, pixels: Pixels) -> str:
        return self.file(encode(pixels), pixels.media_type)

    def note(self, sentence: str) -> None:
        self._said.say(f"{self.path}: {sentence}")

    def blob(self, file: str) -> bytes:
        content = self._blobs[file]
        return content if isinstance(content, bytes) else read_regular(content)


R = TypeVar("R", bound=FileRun)


class Files(Generic[R]):
    """The files of one format at a path, and their runs; a run that stays is the same object.

    ``patterns`` are the names that such files have below a folder.
    """

    label: ClassVar[str]
    patterns: ClassVar[Sequence[str]] = ()
    run_type: type[R]

    def __init__(self, path: Path, bounds: SearchBounds | None = None) -> None:
        self.path = path
        self.bounds = SearchBounds(path) if bounds is None else bounds
        self._runs: dict[Hashable, R] = {}

    @classmethod
    def find(cls, path: Path, bounds: SearchBounds | None = None) -> Files[R] | None:
        """The runs in a file or folder; None if it has no files of this format."""
        found = cls(path, bounds)
        return found if next(iter(found.files()), None) is not None else None

    def files(self) -> Iterable[Any]:
        """The file itself, or the files of the folder that have such names."""
        if not self.path.is_dir():
            return [self.path] if self.path.is_file() else []
        named = {file for pattern in self.patterns for file in self.path.glob(pattern)}
        return sorted(self.bounds.chosen(file for file in named if file.is_file()))

    def listed(self) -> Iterable[tuple[tuple[Any, ...], Any]]:
        """What identifies each run, and what is known of it, for its ``learn``."""
        return [((file,), None) for file in self.files()]

    def runs(self) -> Sequence[R]:
        """Every run that is there now; raises ``FormatError``."""
        found: dict[Hashable, R] = {}
        for key, facts in self.listed():
            found[key] = self._runs.get(key) or self.run_type(*key)
            found[key].learn(facts)
        self._runs = found
        return list(found.values())


class UnreadableFile(FileRun):
    """A file that is a tracker's and cannot be read: one run that says so, and its source."""

    def __init__(self, path: Path, label: str, problem: str) -> None:
        self.label = label
        self._problem = problem
        super().__init__(path, ".")

    def runs(self) -> Sequence[SourceRun]:
        """Itself."""
        return [self]

    @property
    def identity(self) -> Identity:
        """Named after the file."""
        name, project = self.path.name, self.path.parent.name or "unreadable"
        return Identity(id=stable_id("unreadable", self.path), name=name, project=project)

    def signature(self) -> FileSignature:
        """Size and time of the file, and what is wrong with it."""
        return (*file_signature(self.path), (self._problem, 0, 0))

    @property
    def problems(self) -> Sequence[str]:
        return [self._problem]
