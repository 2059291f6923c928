"""Finds other trackers' files below the folders of a store, again and again as they come and go."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path

from epochal.errors import FormatError, InternalError
from epochal.guard import Guard
from epochal.imports.foreign import (
    Batch,
    Extent,
    Foreign,
    ForeignRun,
    Identity,
    file_extent,
    file_signature,
    stable_id,
)
from epochal.imports.registry import all_importers, open_all_foreign
from epochal.journal.search_bounds import SearchBounds
from epochal.store.survey import contents

# Files without a tracker's own layout are looked for so many folders deep.
_DEPTH = 2
# TensorBoard's folders are looked for at any depth, so once is enough for all folders below one.
_DEEP = frozenset({"tensorboard"})
# Looking through a large tree for nothing is repeated after so many times what it took.
_LOOK_SHARE = 20.0
_LOOK_EVERY_S = 1.0


@dataclass(slots=True)
class Place:
    """A source and its runs; whoever reads any of them holds the lock, as they share files."""

    source: Foreign
    lock: threading.RLock = field(default_factory=threading.RLock)
    found: Sequence[tuple[Foreign, ForeignRun]] | None = None

    def runs(self) -> Sequence[tuple[Foreign, ForeignRun]]:
        """Every run that is there now; as of the last look while another thread reads one."""
        if self.lock.acquire(blocking=self.found is None):
            try:
                self.found = list(_runs_of(self.source))
            finally:
                self.lock.release()
        return self.found or ()


@dataclass(slots=True)
class _Probed:
    """What a folder turned out to hold, and when to look again."""

    places: dict[str, Place] = field(default_factory=dict)
    look_after: float = 0.0


class ForeignPlaces:
    """The sources found so far; a run that stays keeps its place in its files."""

    def __init__(self, bounds: SearchBounds, guard: Guard | None = None) -> None:
        self._probed: dict[Path, _Probed] = {}
        self._bounds = bounds
        self._guard = Guard() if guard is None else guard

    def runs(self, places: Iterable[Path]) -> Iterator[tuple[Foreign, ForeignRun, threading.RLock]]:
        """Every run of another tracker in some folders and files, with the lock of its source.

        A file that is a tracker's and cannot be read is a run that has nothing but a problem.
        """
        for place in places:
            yield from self._below(place, depth=0, without=frozenset())

    def _below(
        self, path: Path, *, depth: int, without: Set[str]
    ) -> Iterator[tuple[Foreign, ForeignRun, threading.RLock]]:
        found = [(*pair, at.lock) for at in self._at(path, without) for pair in self._runs_at(at)]
        yield from found
        if depth == _DEPTH:
            return
        # What is found at a place may lie in folders below it; the others are looked into as well.
        holders = {folder for _, run, _ in found for folder in (run.path, *run.path.parents)}
        without = without | _DEEP | (self._general() if found else frozenset())
        there = contents(path, self._bounds)
        # A link that stays within the searched folders leads to what is found under its own name.
        links = frozenset() if self._bounds.follow_links else there.links
        for folder in sorted(there.folders):
            if folder not in holders and folder not in links:
                yield from self._below(folder, depth=depth + 1, without=without)

    def _general(self) -> frozenset[str]:
        importers = all_importers(self._guard)
        return frozenset(one.name for one in importers if one.is_general)

    def _at(self, path: Path, without: Set[str]) -> Sequence[Place]:
        """The sources in one place; the same objects as before for what was there before."""
        probed = self._probed.setdefault(path, _Probed())
        started = time.monotonic()
        if started >= probed.look_after:
            probed.places = {
                source.label: probed.places.get(source.label) or Place(source)
                for source in self._opened(path, without)
            }
            ended = time.monotonic()
            probed.look_after = ended + max(_LOOK_EVERY_S, (ended - started) * _LOOK_SHARE)
        return list(probed.places.values())

    def _opened(self, path: Path, without: Set[str]) -> Sequence[Foreign]:
        """What importers find; a fault of theirs is a problem of this one place."""
        found = self._guard.run(str(path), _opened, path, without, self._bounds, self._guard)
        return [self._faulty(path)] if found is None else found

    def _runs_at(self, place: Place) -> Sequence[tuple[Foreign, ForeignRun]]:
        path = place.source.path
        found = self._guard.run(str(path), place.runs)
        return list(_runs_of(self._faulty(path))) if found is None else found

    def _faulty(self, path: Path) -> UnreadableFile:
        error = self._guard.faults[str(path)].error
        return UnreadableFile(path, "an unknown tracker", f"{path} cannot be read: {error}.")


def _runs_of(source: Foreign) -> Iterator[tuple[Foreign, ForeignRun]]:
    try:
        found = source.runs()
    except (FormatError, OSError) as error:
        source = UnreadableFile(source.path, source.label, str(error))
        found = source.runs()
    for run in found:
        yield source, run


def runs_at(path: Path, *, follow_links: bool = False) -> Sequence[tuple[Foreign, ForeignRun]]:
    """The runs of other trackers in one file or folder."""
    bounds = SearchBounds(path, follow_links=follow_links)
    found = _opened(path, frozenset(), bounds, Guard())
    return [pair for source in found for pair in _runs_of(source)]


class UnreadableFile:
    """A file that is a tracker's and cannot be read: one run that says so, and its source."""

    key = "."

    def __init__(self, path: Path, label: str, problem: str) -> None:
        self.path = path
        self.label = label
        self.problems = [problem]

    def runs(self) -> Sequence[ForeignRun]:
        """Itself."""
        return [self]

    @property
    def identity(self) -> Identity:
        """Named after the file."""
        name, project = self.path.name, self.path.parent.name or "unreadable"
        return Identity(id=stable_id("unreadable", self.path), name=name, project=project)

    def signature(self) -> object:
        """Size and time of the file, and what is wrong with it."""
        return file_signature(self.path), self.problems

    def extent(self) -> Extent:
        """Size and time of the file."""
        return file_extent(self.path)

    def read_new(self) -> Iterator[Batch]:
        """Nothing can be read."""
        return iter(())

    def rewind(self) -> None:
        """Nothing was read."""

    def blob(self, file: str) -> bytes:
        """There are none."""
        raise KeyError(file)


def _opened(path: Path, without: Set[str], bounds: SearchBounds, guard: Guard) -> Sequence[Foreign]:
    try:
        return open_all_foreign(path, without=without, bounds=bounds, guard=guard)
    except FileNotFoundError:  # gone between two looks
        return []
    except (FormatError, InternalError, OSError) as error:
        return [UnreadableFile(path, "an unknown tracker", str(error))]
