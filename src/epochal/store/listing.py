"""Looks at folders without reading journals: which runs there are, which parts each run has.

``<runs>/.launch/<id>.json`` says where rank 0 of a launch writes. A rank that did not see it in
time writes its parts to ``<runs>/.launch/<id>/journal``, numbered as attempt 1, and moves them when
it finishes. One that died could not, so readers take them as part of the run. Where there is no
such run, the folder is listed as a run of its own, and its lowest rank is read as rank 0.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Container, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeVar

from epochal.exchange.imports.foreign import is_tracker_file
from epochal.journal.layout import (
    LAUNCH_FOLDER,
    LOOP,
    PartName,
    RunFolder,
    SearchBounds,
    is_run_folder,
    parse_part_name,
    rank_of_writer,
    rank_writer,
)
from epochal.journal.ranks import Published

_JOURNAL, _SEALED = ".jsonl", ".parquet"
_SMALL_FILES = ("run.json", "labels.json", "summary.json")
_NAMES = frozenset((*_SMALL_FILES, "journal", "segments"))
LINK_OUT = "is a link that leads out of the searched folder: --follow-links has it read."
# After so long without a change, the time of a file or folder tells the next one.
SETTLED_S = 60.0
# So deep below a root runs are looked for, and in so many folders below those of projects.
_MAX_DEPTH = 5
_MAX_DEEP_FOLDERS = 1_000
_NOTHING: frozenset[str] = frozenset()
T = TypeVar("T")


class File(NamedTuple):
    """The version of a file; ``size`` is -1 if it is no plain file."""

    path: str
    size: int
    mtime_ns: int
    # Small files are replaced. Where times are coarse, another inode is the only sign of it.
    inode: int = 0


Parts = dict[PartName, File]


class Listing:
    """What lies in a run's folder; two equal signatures mean that nothing has changed.

    This is made for every run whenever a list is looked at. A signature begins with what changes
    whenever a run that has ended does: the times of its folders, and its labels. ``refused`` are
    names in the folder that are links out of the folders that may be read.
    """

    def __init__(
        self, place: str, asides: Sequence[Aside] = (), *, bounds: SearchBounds | None = None
    ) -> None:
        bounds = SearchBounds(place) if bounds is None else bounds
        self._dirs = _changed(place)  # first: what changes from here on makes another signature
        self.problem: str | None = None
        self.refused: Set[str] = _NOTHING
        self.has_links = False
        self.journal: Parts = {}
        self.sealed: Parts = {}
        small: dict[str, File] = {}
        try:
            small = self._small_files(place, bounds)
            # Journals first: a part goes from here to the segments, never back.
            if "journal" not in self.refused:
                self.journal = self._parts(f"{place}/journal", _JOURNAL, bounds)
            for aside in asides:
                self._add_aside(aside, bounds)
            if "segments" not in self.refused:
                self.sealed = self._parts(f"{place}/segments", _SEALED, bounds)
        except OSError as error:
            self.problem = f"the journal cannot be listed: {error}"
        if is_orphan(place):
            self.journal = in_place_of_rank_zero(self.journal)
            self.sealed = in_place_of_rank_zero(self.sealed)
        self.identity, self.labels, self.summary = map(small.get, _SMALL_FILES)
        small_files = (file for file in (self.identity, self.labels, self.summary) if file)
        versions = [
            *map(_version_of, (*small_files, *self.journal.values(), *self.sealed.values())),
            *sorted(self.refused),
            *(str(aside.attempt) for aside in asides),
        ]
        digest = hashlib.blake2b(os.fsencode("\n".join(versions)), digest_size=16).hexdigest()
        self.signature = f"{_head(self._dirs, self.labels)}|{digest}"

    def _small_files(self, place: str, bounds: SearchBounds) -> dict[str, File]:
        found: dict[str, File] = {}
        try:
            with os.scandir(place) as entries:
                for entry in entries:
                    name = entry.name
                    if name not in _NAMES:
                        continue
                    if entry.is_symlink():
                        self.has_links = True
                        if not bounds.allows_entry(entry):
                            self.refused = {*self.refused, name}
                            continue
                    if name in _SMALL_FILES:
                        found[name] = _file(entry)
        except (FileNotFoundError, NotADirectoryError):
            pass
        return found

    def _parts(self, folder: str, suffix: str, bounds: SearchBounds) -> Parts:
        """The parts in a folder, in order."""
        found: list[tuple[PartName, File]] = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    name = parse_part_name(entry.name, suffix)
                    is_link = entry.is_symlink()
                    self.has_links |= is_link
                    if name is None or (is_link and not bounds.allows_entry(entry)):
                        continue
                    # Opening a pipe would wait for somebody to write to it. What is not there was
                    # sealed or removed meanwhile, or is a link to nothing.
                    file = _file(entry)
                    if file.size >= 0:
                        found.append((name, file))
        except (FileNotFoundError, NotADirectoryError):
            return {}
        return dict(sorted(found))

    def _add_aside(self, aside: Aside, bounds: SearchBounds) -> None:
        if bounds.allows(aside.folder.journal):
            for name, file in self._parts(str(aside.folder.journal), _JOURNAL, bounds).items():
                self.journal[name._replace(attempt=aside.attempt)] = file

    @property
    def is_settled(self) -> bool:
        """Whether the beginning of the signature tells a later change of a run that has ended.

        It does not where a link has a part, nor where a folder has just changed: a clock with
        coarse ticks would hide a second change.
        """
        is_old = self._dirs is not None and time.time() - max(self._dirs) / 1e9 >= SETTLED_S
        return is_old and not self.has_links

    @property
    def newest_s(self) -> float:
        """When anything was written last, in Unix seconds."""
        small = (file for file in (self.identity, self.labels) if file is not None)
        every = (*self.journal.values(), *self.sealed.values(), *small)
        return max((file.mtime_ns for file in every), default=0) / 1e9

    @property
    def unsealed_bytes(self) -> int:
        """The size of all parts that are not sealed."""
        return sum(file.size for file in self.journal.values())

    @property
    def journal_written_s(self) -> float | None:
        """When a part that is not sealed was written last, by the clock of its disk."""
        times = [file.mtime_ns for file in self.journal.values()]
        return max(times) / 1e9 if times else None


def _version_of(file: File) -> str:
    path, size, mtime_ns, inode = file
    return f"{path} {size} {mtime_ns} {inode}"


def is_as_signed(place: str, signature: str) -> bool:
    """Whether a signature begins as now: two stats, and a third where there are labels."""
    head = signature.partition("|")[0]
    labels = None
    if head.count(" ") > 1:
        try:
            found = os.lstat(f"{place}/labels.json")
        except OSError:
            return False
        labels = File("", found.st_size, found.st_mtime_ns)
    return head == _head(_changed(place), labels)


def _head(dirs: tuple[int, int] | None, labels: File | None) -> str:
    if dirs is None:
        return ""
    of_labels = "" if labels is None else f" {labels.size} {labels.mtime_ns}"
    return f"{dirs[0]} {dirs[1]}{of_labels}"


def _changed(place: str) -> tuple[int, int] | None:
    """When a run's folder and its journal's changed; None where they are not two folders."""
    try:
        folder, journal = os.lstat(place), os.lstat(f"{place}/journal")
    except OSError:
        return None
    if not (stat.S_ISDIR(folder.st_mode) and stat.S_ISDIR(journal.st_mode)):
        return None
    return folder.st_mtime_ns, journal.st_mtime_ns


def _file(entry: os.DirEntry[str]) -> File:
    try:
        found = entry.stat()
    except OSError:  # a link to itself is there, and cannot be read
        return File(entry.path, -1, 0)
    size = found.st_size if stat.S_ISREG(found.st_mode) else -1
    return File(entry.path, size, found.st_mtime_ns, found.st_ino)


@dataclass(slots=True)
class Survey:
    """Run folders of ours, and the outermost folders and files that hold none of them."""

    ours: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)


class Contents(NamedTuple):
    """The folders and the files in a folder, and which of both are links."""

    folders: list[str]
    files: list[str]
    links: set[str]


def survey(root: str, known: Container[str], bounds: SearchBounds) -> Survey:
    """What lies below a folder: itself a run, a project's runs, or a tree of projects'.

    ``known`` are run folders already: they are not looked into. What a link leads to is listed
    once, under its own name where it has one here. Folders of a SummaryWriter may lie deeper than
    those of projects: they are looked for in a bounded number of folders.
    """
    if _may_hold_run(root):
        return Survey([root])
    links: set[str] = set()
    found = _Search(known, bounds, links).below(root, depth=0)
    return _without_repeats(root, found, links) if links and found.ours else found


class _Search:
    """One search for run folders; adds what links lead to to ``links``."""

    def __init__(self, known: Container[str], bounds: SearchBounds, links: set[str]) -> None:
        self._known = known
        self._bounds = bounds
        self._links = links
        self._left = _MAX_DEEP_FOLDERS

    def below(self, folder: str, *, depth: int) -> Survey:
        """What lies in a folder; the folder itself when no run of ours does."""
        found = Survey()
        folders, files, links = contents(folder, self._bounds)
        self._links.update([*folders, *files] if folder in self._links else links)
        for entry in folders:
            if entry in self._known or _may_hold_run(entry):
                found.ours.append(entry)
            elif self._may_enter(entry, depth + 1):
                inside = self.below(entry, depth=depth + 1)
                found.ours += inside.ours
                found.others += inside.others
            else:
                found.others.append(entry)
        if not found.ours:
            return Survey(others=[folder])
        found.others += (file for file in files if is_tracker_file(os.path.basename(file)))
        return found

    def _may_enter(self, folder: str, depth: int) -> bool:
        """Whether to look into a folder: a project's always, deeper ones while few were."""
        if depth <= 1:
            return True
        if depth > _MAX_DEPTH or folder in self._links or not self._left:
            return False
        self._left -= 1
        return True


def _without_repeats(root: str, found: Survey, links: set[str]) -> Survey:
    """The found folders, without those that links lead to a second time."""
    here = os.path.realpath(root)
    seen = {
        os.path.join(here, os.path.relpath(path, root)) for path in found.ours if path not in links
    }
    ours: list[str] = []
    for path in found.ours:
        real = os.path.realpath(path)
        if path not in links or real not in seen:
            ours.append(path)
            seen.add(real)
    # Others' files are looked for in all folders here: a link is news only where it leads out.
    others = [
        path
        for path in found.others
        if path not in links or not _is_related(os.path.realpath(path), (here, *seen))
    ]
    return Survey(ours, others)


def _is_related(path: str, folders: Iterable[str]) -> bool:
    """Whether a path lies in one of some folders, or holds one of them."""
    return any(os.path.commonpath((path, folder)) in (path, folder) for folder in folders)


def contents(path: str, bounds: SearchBounds) -> Contents:
    """The content of a folder, without hidden names and links that are not followed."""
    found = Contents([], [], set())
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                is_link = entry.is_symlink()
                if entry.name[0] == "." or (is_link and not bounds.allows_entry(entry)):
                    continue
                (found.folders if _is_folder(entry) else found.files).append(entry.path)
                if is_link:
                    found.links.add(entry.path)
    except OSError:  # gone, no folder, or not for us to look into
        return Contents([], [], set())
    return found


def _may_hold_run(path: str) -> bool:
    """Whether a folder is listed: it holds a run, or cannot be read, which is its problem then."""
    try:
        if stat.S_ISREG(os.stat(f"{path}/run.json").st_mode):
            return True
    except OSError:
        pass  # looked at with more care
    try:
        return is_run_folder(Path(path))
    except OSError:
        return True


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads to itself, or into what cannot be looked into
        return False


@dataclass(frozen=True, slots=True)
class Aside:
    """A folder whose parts belong to an attempt of a run that lies elsewhere."""

    folder: RunFolder
    attempt: int


def asides_below(runs_root: Path) -> dict[Path, list[Aside]]:
    """By run folder, what was written aside for it; a launch file that is damaged is no claim."""
    found: dict[Path, list[Aside]] = {}
    for path in sorted((runs_root / LAUNCH_FOLDER).glob("*.json")):
        folder = RunFolder(path.with_suffix(""))
        if not folder.journal.is_dir():
            continue
        if (published := Published.read(path)) is not None:
            aside = Aside(folder, published.attempt)
            found.setdefault(runs_root / published.folder, []).append(aside)
    return found


def asides_of(found: Set[str]) -> dict[str, Sequence[Aside]]:
    """What was written aside for some runs, by their folders."""
    roots = {Path(folder).parent for folder in {path.rpartition(os.sep)[0] for path in found}}
    return {str(run): asides for root in roots for run, asides in asides_below(root).items()}


def orphans_below(runs_root: Path) -> list[Path]:
    """The folders that ranks wrote aside for a run that does not exist."""
    try:
        entries = sorted((runs_root / LAUNCH_FOLDER).iterdir())
    except OSError:  # there is none, or it is not for us to look into
        return []
    folders = [RunFolder(entry) for entry in entries if (entry / "journal").is_dir()]
    written = {one.path for one in folders if one.parts() or one.sealed_parts()}
    if not written:
        return []
    claimed = {
        aside.folder.path
        for run, asides in asides_below(runs_root).items()
        if is_run_folder(run)
        for aside in asides
    }
    return sorted(written - claimed)


def is_orphan(place: str) -> bool:
    """Whether a folder is one that ranks wrote aside."""
    return LAUNCH_FOLDER in place and Path(place).parent.name == LAUNCH_FOLDER


def orphaned_ranks(names: Iterable[PartName]) -> list[int]:
    """The ranks that wrote some parts."""
    return sorted({rank for name in names if (rank := rank_of_writer(name.writer)) is not None})


def in_place_of_rank_zero(parts: Mapping[PartName, T]) -> dict[PartName, T]:
    """The parts of an orphan, those of its lowest rank named as if rank 0 had written them."""
    ranks = orphaned_ranks(parts)
    first = rank_writer(ranks[0]) if ranks else LOOP
    return {
        name._replace(writer=LOOP) if name.writer == first else name: part
        for name, part in parts.items()
    }
