"""Runs in text files, which are read as they grow and named after their files."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from epochal.imports.foreign import (
    Batch,
    Extent,
    Identity,
    batches_of,
    file_extent,
    file_signature,
    stable_id,
)
from epochal.imports.problems import Problems
from epochal.imports.rows import RowReader
from epochal.journal.regular_file import regular_only
from epochal.journal.search_bounds import SearchBounds
from epochal.records import Record

# A last line without a newline is taken as complete when nothing was written for so long.
_SETTLED_S = 5.0
# Names that say nothing about a run: its folder's name is taken instead.
_GENERIC = frozenset({"training", "metrics", "log", "logs", "history", "results", "train", "data"})


@dataclass(slots=True)
class TextFile:
    """One text file; ``offset`` is how far it has been taken in."""

    path: Path
    offset: int = 0
    problems: Problems = field(init=False)

    def __post_init__(self) -> None:
        self.problems = Problems(self.path)

    def read_rest(self) -> bytes:
        """What follows the offset; nothing, and a problem, when the file cannot be read."""
        try:
            with open(self.path, "rb", opener=regular_only) as file:
                size = os.fstat(file.fileno()).st_size
                if size < self.offset:
                    self.problems.say_shorter(self.offset)
                    self.offset = size
                file.seek(self.offset)
                return file.read()
        except OSError as error:
            self.problems.say_once(f"{self.path} cannot be read: {error.strerror or error}.")
            return b""

    @property
    def changed(self) -> float:
        """When the file was last written to, in Unix seconds; 0 when that is unknown."""
        try:
            return self.path.stat().st_mtime
        except OSError:
            return 0.0

    @property
    def is_settled(self) -> bool:
        """Whether nothing was written to it for some seconds."""
        return time.time() - self.changed > _SETTLED_S

    def say_damage(self, place: int, what: str) -> None:
        """Note that the bytes at a place of the file cannot be read."""
        self.problems.say_damage(place, what, once=True)


class TextFileRun(ABC):
    """A run whose records are the rows of one text file."""

    def __init__(self, path: Path, key: str) -> None:
        self.path = path
        self.key = key
        self.rewind()

    def rewind(self) -> None:
        """Begin at the first byte again."""
        self._file = TextFile(self.path)
        self._rows = RowReader(t=self._file.changed)

    @property
    def problems(self) -> Sequence[str]:
        """Sentences about rows that cannot be read."""
        return self._file.problems

    def signature(self) -> object:
        """Size and time of the file."""
        return file_signature(self.path)

    def extent(self) -> Extent:
        """Size and time of the file."""
        return file_extent(self.path)

    def read_new(self) -> Iterator[Batch]:
        """The records of whole rows written since."""
        return batches_of(self._new_records())

    @abstractmethod
    def _new_records(self) -> Iterator[Record]:
        """The same, one by one."""

    def blob(self, file: str) -> bytes:
        """There are none."""
        raise KeyError(file)


def identity_of(path: Path, kind: str, *, key: str = "") -> Identity:
    """A run named after its file, or after the file's folder when the file has a name of no use."""
    own, folder = path.stem, path.parent
    if own.lower() in _GENERIC and folder.name:
        own, folder = folder.name, folder.parent
    return Identity(
        id=stable_id(kind, path, key),
        name=key or own,
        project=folder.name or "imported",
        facts={"source": str(path)},
    )


def files_in(path: Path, patterns: Iterable[str], bounds: SearchBounds | None) -> Sequence[Path]:
    """The file itself, or the files of a folder that have such names; see ``foreign``."""
    if not path.is_dir():
        return [path] if path.is_file() else []
    found = {file for pattern in patterns for file in path.glob(pattern) if file.is_file()}
    return sorted((bounds or SearchBounds(path)).chosen(found))
