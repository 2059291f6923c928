"""Looks at a run's folder without reading a file: which parts there are, and what has changed."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from epochal.journal.layout import PartName, RunFolder, parse_part_name
from epochal.journal.search_bounds import SearchBounds
from epochal.store.adoption import Aside, in_place_of_rank_zero, is_orphan

_JOURNAL, _SEALED = ".jsonl", ".parquet"


class Stat(NamedTuple):
    """What tells two versions of a file apart; ``size`` is -1 for what is no plain file."""

    size: int
    mtime_ns: int


class FoundPart(NamedTuple):
    """A file that holds a part."""

    path: Path
    stat: Stat


# The files of a folder that could be parts: name, size and time of each, in the order of names.
_Files = list[tuple[str, int, int]]


class Listing:
    """What lies in a run's folder; two equal signatures mean that nothing has changed.

    This is made for every run whenever a list is looked at: names are taken apart only when
    something has changed. ``newest_s`` is when anything was written last, in Unix seconds.
    ``refused`` are names in the folder that are links out of the folders that may be read.
    """

    def __init__(
        self,
        folder: RunFolder,
        asides: Sequence[Aside] = (),
        *,
        bounds: SearchBounds | None = None,
    ) -> None:
        self._folder = folder
        self._bounds = bounds = SearchBounds(folder.path) if bounds is None else bounds
        self._asides = [aside for aside in asides if bounds.allows(aside.folder.journal)]
        self.problem: str | None = None
        self.refused: set[str] = set()
        self.identity = self._stat("run.json")
        self.labels = self._stat("labels.json")
        self._journal: _Files = []
        self._aside: list[_Files] = []
        self._sealed: _Files = []
        try:
            # Journals first: a part goes from here to the segments, never back.
            self._journal = self._files("journal", _JOURNAL)
            self._aside = [_files(str(a.folder.journal), _JOURNAL, bounds) for a in self._asides]
            self._sealed = self._files("segments", _SEALED)
        except OSError as error:
            self.problem = f"the journal cannot be listed: {error}"
        parts = (self._journal, self._aside, self._sealed)
        said = repr((self.identity, self.labels, *parts, sorted(self.refused)))
        self.signature = hashlib.blake2b(said.encode(), digest_size=16).hexdigest()

    def _files(self, name: str, suffix: str) -> _Files:
        folder = f"{self._folder.path}/{name}"
        if self._bounds.leads_out(folder):
            self.refused.add(name)
            return []
        return _files(folder, suffix, self._bounds)

    def _stat(self, name: str) -> Stat | None:
        path = f"{self._folder.path}/{name}"
        if self._bounds.leads_out(path):
            self.refused.add(name)
            return None
        return _stat(path)

    @property
    def newest_s(self) -> float:
        """When anything was written last, in Unix seconds."""
        groups = (self._journal, self._sealed, *self._aside)
        times = [mtime_ns for files in groups for _, _, mtime_ns in files]
        times += [file.mtime_ns for file in (self.identity, self.labels) if file is not None]
        return max(times, default=0) / 1e9

    @property
    def journal_written_s(self) -> float | None:
        """When a part that is not sealed was written last, by the clock of its disk."""
        times = [mtime_ns for files in (self._journal, *self._aside) for _, _, mtime_ns in files]
        return max(times) / 1e9 if times else None

    @cached_property
    def journal(self) -> dict[PartName, FoundPart]:
        """The journal parts, those written aside under the attempt they belong to."""
        found = _parts(self._folder.journal, self._journal, _JOURNAL)
        for aside, files in zip(self._asides, self._aside, strict=False):
            for name, part in _parts(aside.folder.journal, files, _JOURNAL).items():
                found[name._replace(attempt=aside.attempt)] = part
        return in_place_of_rank_zero(found) if is_orphan(self._folder) else found

    @cached_property
    def sealed(self) -> dict[PartName, FoundPart]:
        """The sealed parts."""
        found = _parts(self._folder.segments, self._sealed, _SEALED)
        return in_place_of_rank_zero(found) if is_orphan(self._folder) else found


def _files(folder: str, suffix: str, bounds: SearchBounds) -> _Files:
    found: _Files = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(suffix) and bounds.allows_entry(entry):
                    try:
                        status = entry.stat()
                    except OSError:  # sealed or removed meanwhile, or a link to nothing
                        continue
                    # Opening a pipe would wait for somebody to write to it.
                    if stat.S_ISREG(status.st_mode):
                        found.append((entry.name, status.st_size, status.st_mtime_ns))
    except (FileNotFoundError, NotADirectoryError):
        return []
    found.sort()
    return found


def _parts(folder: Path, files: _Files, suffix: str) -> dict[PartName, FoundPart]:
    return {
        name: FoundPart(folder / file_name, Stat(size, mtime_ns))
        for file_name, size, mtime_ns in files
        if (name := parse_part_name(file_name, suffix)) is not None
    }


def _stat(path: str) -> Stat | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return Stat(status.st_size if stat.S_ISREG(status.st_mode) else -1, status.st_mtime_ns)
