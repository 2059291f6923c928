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
LINK_OUT = "is a link that leads out of the searched folder: --follow-links has it read."
# The files of a folder that could be parts: name, size and time of each, in the order of names.
_Files = Sequence[tuple[str, int, int]]
# So deep below a root runs are looked for, and in so many folders below those of projects.
_MAX_DEPTH = 5
_MAX_DEEP_FOLDERS = 1_000
_NOTHING: frozenset[str] = frozenset()
T = TypeVar("T")


class Stat(NamedTuple):
    """The version of a file; ``size`` is -1 if it is no plain file."""

    size: int
    mtime_ns: int


class FoundPart(NamedTuple):
    """A file that holds a part."""

    path: Path
    stat: Stat


_Parts = dict[PartName, FoundPart]


class Listing:
    """What lies in a run's folder; two equal signatures mean that nothing has changed.

    This is made for every run whenever a list is looked at: names are taken apart only when
    something has changed. ``refused`` are names in the folder that are links out of the folders
    that may be read.
    """

    __slots__ = (
        "_aside",
        "_asides",
        "_bounds",
        "_journal",
        "_parts",
        "_place",
        "_sealed",
        "has_links",
        "identity",
        "inodes",
        "labels",
        "problem",
        "refused",
        "signature",
        "summary",
    )

    def __init__(
        self, place: str, asides: Sequence[Aside] = (), *, bounds: SearchBounds | None = None
    ) -> None:
        self._place = place
        self._bounds = bounds = SearchBounds(place) if bounds is None else bounds
        self._asides = [a for a in asides if bounds.allows(a.folder.journal)] if asides else ()
        self._parts: tuple[_Parts, _Parts] | None = None
        self.problem: str | None = None
        self.refused: Set[str] = _NOTHING
        self.has_links = False
        self.identity, identity_inode = self._stat("run.json")
        self.labels, labels_inode = self._stat("labels.json")
        self.summary, summary_inode = self._stat("summary.json")
        # These files are replaced. Where times are coarse, another inode is the only sign of it.
        self.inodes = (identity_inode, labels_inode, summary_inode)
        self._journal: _Files = ()
        self._aside: Sequence[_Files] = ()
        self._sealed: _Files = ()
        try:
            # Journals first: a part goes from here to the segments, never back.
            self._journal = self._files("journal", _JOURNAL)
            folders = [str(aside.folder.journal) for aside in self._asides]
            self._aside = [_files(folder, _JOURNAL, bounds)[0] for folder in folders]
            self._sealed = self._files("segments", _SEALED)
        except OSError as error:
            self.problem = f"the journal cannot be listed: {error}"
        parts = (self._journal, self._aside, self._sealed)
        files = (self.identity, self.labels, self.summary, self.inodes)
        said = repr((*files, parts, sorted(self.refused)))
        self.signature = hashlib.blake2b(said.encode(), digest_size=16).hexdigest()

    def _files(self, name: str, suffix: str) -> _Files:
        if self._is_refused(name):
            return ()
        found, has_links = _files(f"{self._place}/{name}", suffix, self._bounds)
        self.has_links |= has_links
        return found

    def _is_refused(self, name: str) -> bool:
        """Whether a name in the folder is a link that is not followed."""
        path = f"{self._place}/{name}"
        if not os.path.islink(path):
            return False
        self.has_links = True
        if self._bounds.leads_out(path):
            self.refused = {*self.refused, name}
            return True
        return False

    def _stat(self, name: str) -> tuple[Stat | None, int]:
        """The version of a file and its inode; None and 0 where there is none."""
        if self._is_refused(name):
            return None, 0
        path = f"{self._place}/{name}"
        try:
            status = os.stat(path)
        except OSError:  # a link to itself is there, and cannot be read
            return (Stat(-1, 0) if os.path.islink(path) else None), 0
        size = status.st_size if stat.S_ISREG(status.st_mode) else -1
        return Stat(size, status.st_mtime_ns), status.st_ino

    @property
    def newest_s(self) -> float:
        """When anything was written last, in Unix seconds."""
        newest = 0
        for files in (self._journal, self._sealed, *self._aside):
            for _, _, mtime_ns in files:
                newest = max(newest, mtime_ns)
        for file in (self.identity, self.labels):
            newest = newest if file is None else max(newest, file.mtime_ns)
        return newest / 1e9

    @property
    def unsealed_bytes(self) -> int:
        """The size of all parts that are not sealed."""
        return sum(size for files in (self._journal, *self._aside) for _, size, _ in files)

    @property
    def journal_written_s(self) -> float | None:
        """When a part that is not sealed was written last, by the clock of its disk."""
        times = [mtime_ns for files in (self._journal, *self._aside) for _, _, mtime_ns in files]
        return max(times) / 1e9 if times else None

    @property
    def journal(self) -> dict[PartName, FoundPart]:
        """The journal parts, those written aside under the attempt they belong to."""
        return self._found()[0]

    @property
    def sealed(self) -> dict[PartName, FoundPart]:
        return self._found()[1]

    def _found(self) -> tuple[_Parts, _Parts]:
        if self._parts is None:
            path = Path(self._place)
            journal = _parts(path / "journal", self._journal, _JOURNAL)
            for aside, files in zip(self._asides, self._aside, strict=False):
                for name, part in _parts(aside.folder.journal, files, _JOURNAL).items():
                    journal[name._replace(attempt=aside.attempt)] = part
            sealed = _parts(path / "segments", self._sealed, _SEALED)
            if is_orphan(self._place):
                journal, sealed = in_place_of_rank_zero(journal), in_place_of_rank_zero(sealed)
            self._parts = journal, sealed
        return self._parts


def _files(folder: str, suffix: str, bounds: SearchBounds) -> tuple[_Files, bool]:
    """The files of a folder with this ending, and whether there are links in it."""
    found: list[tuple[str, int, int]] = []
    has_links = False
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                is_link = entry.is_symlink()
                has_links |= is_link
                if entry.name.endswith(suffix) and (not is_link or bounds.allows_entry(entry)):
                    try:
                        status = entry.stat()
                    except OSError:  # sealed or removed meanwhile, or a link to nothing
                        continue
                    # Opening a pipe would wait for somebody to write to it.
                    if stat.S_ISREG(status.st_mode):
                        found.append((entry.name, status.st_size, status.st_mtime_ns))
    except (FileNotFoundError, NotADirectoryError):
        return (), has_links
    # A tuple: the garbage collector does not go through those of texts and numbers.
    return tuple(sorted(found)), has_links


def _parts(folder: Path, files: _Files, suffix: str) -> dict[PartName, FoundPart]:
    return {
        name: FoundPart(folder / file_name, Stat(size, mtime_ns))
        for file_name, size, mtime_ns in files
        if (name := parse_part_name(file_name, suffix)) is not None
    }


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
