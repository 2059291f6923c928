"""Runs in other trackers' files, which are read where they are and never written to."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from epochal.errors import FormatError, InternalError, UsageError
from epochal.guard import Guard
from epochal.imports.foreign import Foreign, ForeignRun, Identity, UnreadableFile, stable_id
from epochal.imports.gathered import Gathered, GatheredAttempt
from epochal.imports.registry import all_importers, open_all_foreign
from epochal.imports.values import json_safe
from epochal.journal.layout import LOOP, PartName, RunFolder
from epochal.journal.search_bounds import SearchBounds
from epochal.records import FORMAT_VERSION, Axis, Position, Record
from epochal.segments.footer import PartSummary
from epochal.series.series import Series, concatenated
from epochal.store.answers import NO_LABELS, Labels, LabelsEdit, Machine
from epochal.store.local.columns import SeriesKey, SeriesTable
from epochal.store.local.index import IndexPlace, Stamp
from epochal.store.local.listing import contents
from epochal.store.local.part import Part, PartFacts, Place
from epochal.store.local.run_files import edit_labels, read_labels
from epochal.store.local.tail import PartDigest

_POINT_BYTES = 32
# A small dictionary with a few numbers in it, as Python keeps it.
_RECORD_BYTES = 600
# Files without a tracker's own layout are looked for so many folders deep.
_DEPTH = 2
# TensorBoard's folders are looked for at any depth, so once is enough for all folders below one.
_DEEP = frozenset({"tensorboard"})
# Looking through a large tree for nothing is repeated after so many times what it took.
_LOOK_SHARE = 20.0
_LOOK_EVERY_S = 1.0


class ForeignSource:
    """One run of a tracker. Its files are not changed: labels lie in a cache folder.

    ``project`` stands in for the one that the run's files say.
    """

    is_newer = False
    # Known only to the tracker's reader.
    unsealed_bytes = 0
    journal_written_s: float | None = None

    def __init__(
        self,
        origin: Foreign,
        run: ForeignRun,
        *,
        cache: Path | None = None,
        project: str | None = None,
    ) -> None:
        self.run = run
        self._project = project
        self._origin = origin
        self._gathered = Gathered(run)
        self._parts: dict[int, ForeignPart] = {}
        self._cache = cache
        self._signature: str | None = None
        self._run_json: dict[str, Any] | None = None
        self._labels: Labels | None = None
        self._faults: list[str] = []

    @property
    def path(self) -> Path:
        """The file or folder that the run lies in."""
        return self.run.path

    @property
    def place(self) -> str:
        """The path of what was opened, and what the tracker calls the run there."""
        return place_of(self._origin, self.run)

    @property
    def tracker(self) -> str | None:
        """The tracker, as people call it."""
        return self._origin.label

    # -- the run as a whole -----------------------------------------------------------------------

    def look(self) -> None:
        """Look at sizes and times of the files."""
        folder = self._labels_folder()
        labels = None if folder is None else _changed_ns(folder.labels)
        looks = repr((self.run.signature(), labels)).encode("utf-8", "surrogatepass")
        signature = hashlib.blake2b(looks, digest_size=16).hexdigest()
        if signature != self._signature:
            self._signature = signature
            self._run_json = self._labels = None

    @property
    def index_place(self) -> IndexPlace:
        """In the cache: others' folders are not written to."""
        return IndexPlace(str(self._origin.path), self.place, is_beside=False)

    def outline(self, own_id: str) -> None:
        """None: a tracker's files are read whole."""

    @property
    def stamp(self) -> None:
        """None: only the tracker knows which of its files may change."""

    def has_stamp(self, stamp: Stamp) -> bool:
        """No stamp is ever made of these files."""
        return False

    @property
    def signature(self) -> str | None:
        """The signature of the files at the last look."""
        return self._signature

    @property
    def version(self) -> object:
        """The signature."""
        return self._signature

    @property
    def newest_s(self) -> float:
        """When anything was written last."""
        folder = self._labels_folder()
        labels = None if folder is None else _changed_ns(folder.labels)
        return max(self.run.extent().changed, (labels or 0) / 1e9)

    @property
    def run_json(self) -> Mapping[str, Any]:
        """The identity as fields of a run.json; ``source`` names the file."""
        if self._run_json is None:
            self._run_json = self._as_run_json(self.run.identity)
        return self._run_json

    def _as_run_json(self, identity: Identity) -> dict[str, Any]:
        facts = {key: json_safe(value) for key, value in identity.facts.items() if key != "source"}
        source = {"format": self._origin.label, "path": str(self.run.path), "key": self.run.key}
        return {
            "v": FORMAT_VERSION,
            "id": identity.id,
            "name": identity.name,
            "project": self._project or identity.project,
            "created": identity.created,
            "tags": list(identity.tags),
            "notes": identity.notes,
            "config": json_safe(identity.config),
            **facts,
            "source": {**source, "in_place": True},
        }

    def _header(self, part: PartName) -> Record:
        run_json = self.run_json
        first = {} if part.attempt > 1 else {"config": run_json["config"]}
        t = run_json["created"] or self.run.extent().changed
        who = {key: run_json[key] for key in ("v", "id", "name", "project")}
        where = {"writer": part.writer, "attempt": part.attempt, "part": part.part, "rank": 0}
        return {"log": "run", "t": float(t), **who, **where, **first}

    @property
    def labels(self) -> Labels:
        """What people changed later."""
        if self._labels is None:
            self._labels, self._faults = NO_LABELS, []
            folder = self._labels_folder()
            try:
                if folder is not None:
                    self._labels = read_labels(folder)
            except (OSError, FormatError) as error:
                self._faults = [f"the labels cannot be read: {error}"]
        return self._labels

    def relabel(self, edit: LabelsEdit) -> None:
        """Keep edited labels in the cache folder."""
        folder = self._labels_folder()
        if folder is None:
            raise UsageError(
                f"{self.run.identity.name!r} lies in files of {self.tracker}, which are only read,"
                " and there is no cache folder for its labels: 'epochal import' makes a copy that"
                " can be changed."
            )
        folder.path.mkdir(parents=True, exist_ok=True)
        edit_labels(folder, edit)

    def _labels_folder(self) -> RunFolder | None:
        if self._cache is None:
            return None
        name = stable_id(self.tracker, self.path, self.run.identity.id)
        return RunFolder(self._cache / "labels" / name)

    @property
    def problems(self) -> Sequence[str]:
        """What could not be read of the files."""
        return [*self._faults, *self.run.problems]

    # -- parts ------------------------------------------------------------------------------------

    def small(self) -> None:
        """Another tracker's files are read in full."""

    def poll(self) -> bool:
        """Read on in the files."""
        if not self._gathered.poll():
            return False
        attempts = self._gathered.attempts
        self._parts = {
            number: part
            for number, part in self._parts.items()
            if part.gathered is attempts.get(number)
        }
        for number, gathered in attempts.items():
            if number not in self._parts:
                self._parts[number] = ForeignPart(number, gathered, self._header)
            self._parts[number].poll()
        return True

    @property
    def parts(self) -> Sequence[Part]:
        """A part per attempt."""
        return list(self._parts.values())

    @property
    def held_bytes(self) -> int:
        """How much of what was read is in memory: all of it."""
        return sum(part.held_bytes for part in self._parts.values())

    def blob(self, file: str) -> bytes:
        """The bytes of an image or a sound, from where its tracker put them."""
        try:
            return self.run.blob(file)
        except KeyError:
            raise UsageError(f"there is no blob {file!r} in {self.path}.") from None

    def machines(self) -> Sequence[Machine]:
        """None: what a tracker knows of its machine is in its records."""
        return ()

    def close(self) -> None:
        """Free what was read."""
        self._parts = {}
        self._gathered.release()


def place_of(origin: Foreign, run: ForeignRun) -> str:
    """The identifier of a run on this machine."""
    return f"{origin.path}/{origin.label}:{run.key}"


def _changed_ns(path: Path) -> int | None:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None


class ForeignPart:
    """What was gathered of one attempt; a ``run`` record that its tracker never wrote goes first.

    That record is made by ``header`` when it is asked for; a run's configuration may grow.
    """

    def __init__(
        self, attempt: int, gathered: GatheredAttempt, header: Callable[[PartName], Record]
    ) -> None:
        self.name = PartName(LOOP, attempt, 0)
        self.gathered = gathered
        self._header = header
        self._digest = PartDigest(self.name)
        self._num_taken = 0
        first = {key: value for key, value in header(self.name).items() if key != "config"}
        self._digest.take(0, first, 0, 0)

    def poll(self) -> None:
        """Process what was gathered since the last call."""
        gathered, facts = self.gathered, self._digest.facts
        for place in range(self._num_taken, len(gathered.others)):
            ordinal, record = gathered.others[place]
            self._digest.take(ordinal + 1, record, place, place)
        self._num_taken = len(gathered.others)
        if gathered.latest is not None:
            facts.updated = max(gathered.latest, facts.updated or gathered.latest)
        if gathered.furthest is not None:
            facts.reach("step", gathered.furthest)
        facts.num_records = gathered.num_records + 1

    @property
    def facts(self) -> PartFacts:
        """The facts about the run that its records hold."""
        return self._digest.facts

    @property
    def held_bytes(self) -> int:
        """The points, and the records as they are."""
        gathered = self.gathered
        return gathered.num_points * _POINT_BYTES + len(gathered.others) * _RECORD_BYTES

    def series_keys(self) -> Iterable[SeriesKey]:
        """Every series it holds: those that came as points, then those of records."""
        points = (SeriesKey(name, "step") for name in self.gathered.names)
        return dict.fromkeys((*points, *self._digest.blocks))

    def tables(self) -> Sequence[SeriesTable]:
        """None: other trackers keep each series by itself."""
        return ()

    def kept_summaries(self) -> Mapping[tuple[str, Axis], PartSummary]:
        """None: its series are read."""
        return {}

    def series(self, key: SeriesKey) -> Series | None:
        """Its points of one series in the order written, None when there are none."""
        column = self.gathered.column(key.name) if key.axis == "step" else None
        blocks, rank = self._digest.blocks, self.facts.origin.rank
        rest = blocks.series(key, rank) if key in blocks else None
        if column is None:
            return rest
        points = Series(key.name, key.axis, rank, column.steps, column.times, column.values)
        if rest is None:
            return points
        ordinals = np.concatenate([column.ordinals + 1, blocks.ordinals(key)])
        return concatenated([points, rest]).select(np.argsort(ordinals, kind="stable"))

    def places(self, kind: str, *, label: str | None = None) -> Iterable[Place]:
        """Where its records of a kind are."""
        places = self._digest.places.get(kind)
        return () if places is None else places.of(self.facts.origin, label=label)

    def read(self, kind: str, places: list[Place]) -> Iterator[Record]:
        """The records at these places."""
        for place in places:
            yield self._header(self.name) if place.ordinal == 0 else self._other(place)

    def _other(self, place: Place) -> Record:
        return self.gathered.others[place.key[0]][1]

    def records(self, *, first: int) -> Iterator[tuple[Position, Record]]:
        """The records read so far, from an ordinal on; a point is one."""
        if first == 0:
            yield Position(*self.name, 0), self._header(self.name)
        for ordinal, record in self.gathered.records(first=max(0, first - 1)):
            yield Position(*self.name, ordinal + 1), record

    def close(self) -> None:
        """Does nothing: no file stays open between reads."""


@dataclass(slots=True)
class TrackerPlace:
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
    """What a folder holds, and when to look again."""

    places: dict[str, TrackerPlace] = field(default_factory=dict)
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
        there = contents(str(path), self._bounds)
        # A link that stays within the searched folders leads to what is found under its own name.
        links = set() if self._bounds.follow_links else there.links
        for folder in map(Path, sorted(there.folders)):
            if folder not in holders and str(folder) not in links:
                yield from self._below(folder, depth=depth + 1, without=without)

    def _general(self) -> frozenset[str]:
        importers = all_importers(self._guard)
        return frozenset(one.name for one in importers if one.is_general)

    def _at(self, path: Path, without: Set[str]) -> Sequence[TrackerPlace]:
        """The sources in one place; the same objects as before for what was there before."""
        probed = self._probed.setdefault(path, _Probed())
        started = time.monotonic()
        if started >= probed.look_after:
            probed.places = {
                source.label: probed.places.get(source.label) or TrackerPlace(source)
                for source in self._opened(path, without)
            }
            ended = time.monotonic()
            probed.look_after = ended + max(_LOOK_EVERY_S, (ended - started) * _LOOK_SHARE)
        return list(probed.places.values())

    def _opened(self, path: Path, without: Set[str]) -> Sequence[Foreign]:
        """What importers find; a fault of theirs is a problem of this one place."""
        found = self._guard.run(str(path), _opened, path, without, self._bounds, self._guard)
        return [self._faulty(path)] if found is None else found

    def _runs_at(self, place: TrackerPlace) -> Sequence[tuple[Foreign, ForeignRun]]:
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


def _opened(path: Path, without: Set[str], bounds: SearchBounds, guard: Guard) -> Sequence[Foreign]:
    try:
        return open_all_foreign(path, without=without, bounds=bounds, guard=guard)
    except FileNotFoundError:  # gone between two looks
        return []
    except (FormatError, InternalError, OSError) as error:
        return [UnreadableFile(path, "an unknown tracker", str(error))]
