"""One run folder, read once and then only where it has grown."""

from __future__ import annotations

import difflib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from epochal.errors import FormatError, UsageError
from epochal.journal.layout import PartName, RunFolder, read_json
from epochal.journal.reader import NewerFormatError
from epochal.record import FORMAT_VERSION, Axis, Position, Record
from epochal.store.adoption import Aside
from epochal.store.answers import Cursor, Entry, Labels, Metric, RunInfo, Series, Status
from epochal.store.columns import SeriesKey, whole_number
from epochal.store.labels import read_labels, write_labels
from epochal.store.merge import merge
from epochal.store.parts import TailedPart
from epochal.store.places import Place, standing
from epochal.store.state import DENSE_KINDS, RunState
from epochal.store.status import derive_status
from epochal.store.store import MetricNotFoundError

_AXES: tuple[Axis, ...] = ("step", "epoch", "time")
_UNREADABLE = Status("unreadable", "unreadable")


class LocalRun:
    """A run in a folder; nothing of its journal is read before the first question about it."""

    def __init__(self, folder: RunFolder, asides: Sequence[Aside] = ()) -> None:
        self._folder = folder
        self.asides = asides
        self._identity: dict[str, Any] = {}
        self._labels = Labels()
        self._problems: dict[str, str] = {}
        self._closed = False  # of a newer format: never half-read
        self._read = False
        self._forget()
        self._read_small_files()

    def _forget(self) -> None:
        self._state = RunState()
        self._parts: dict[Path, TailedPart] = {}
        self._series: dict[tuple[SeriesKey, int], Series] = {}

    # -- reading ----------------------------------------------------------------------------------

    def refresh(self) -> bool:
        """Read what was written since; True when there was anything."""
        self._read = True
        self._read_small_files()
        if self._closed:
            return False
        before = self._state.num_records
        try:
            self._poll()
        except NewerFormatError as error:
            self._forget()
            self._closed = True
            self._problems["journal"] = str(error)
        except FormatError:
            # A part became shorter than what was read of it: the folder was replaced.
            self._forget()
            self._poll()
        grown = self._state.num_records != before
        if grown:
            self._series.clear()
        return grown

    def _poll(self) -> None:
        self._problems.pop("journal", None)
        try:
            names = self._part_names()
        except OSError as error:
            self._problems["journal"] = f"the journal cannot be listed: {error}"
            return
        if any(path not in names for path in self._parts):
            self._forget()  # parts went elsewhere; what they held is read again from there
        for path, name in names.items():
            if path not in self._parts:
                self._parts[path] = TailedPart(path, name)
        for index, part in enumerate(self._parts.values()):
            try:
                if part.has_grown():
                    for position, record, span in part.poll():
                        self._state.add(position, record, part=index, span=span)
            except OSError as error:
                self._problems["journal"] = f"a part of the journal cannot be read: {error}"

    def _part_names(self) -> dict[Path, PartName]:
        names = {self._folder.part_path(name): name for name in self._folder.parts()}
        for aside in self.asides:
            names.update(aside.parts())
        return names

    def _read_small_files(self) -> None:
        for what, read in (("run.json", self._read_identity), ("labels.json", self._read_labels)):
            self._problems.pop(what, None)
            try:
                read()
            except FileNotFoundError:
                self._problems[what] = f"{what} is missing; 'epochal repair' can rebuild it."
            except (OSError, FormatError) as error:
                self._problems[what] = f"{what} cannot be read: {error}"

    def _read_identity(self) -> None:
        identity = read_json(self._folder.identity)
        version = identity.get("v", FORMAT_VERSION)
        if isinstance(version, (int, float)) and int(version) > FORMAT_VERSION:
            self._closed = True
            self._problems["journal"] = (
                f"run.json was written by a newer Epochal (format {version}, this one reads"
                f" up to {FORMAT_VERSION}): upgrade with 'pip install -U epochal'."
            )
        self._identity = identity

    def _read_labels(self) -> None:
        self._labels = read_labels(self._folder)

    def _known(self) -> RunState:
        if not self._read:
            self.refresh()
        return self._state

    # -- the run as a whole -----------------------------------------------------------------------

    @property
    def path(self) -> Path:
        """The run's folder."""
        return self._folder.path

    @property
    def created(self) -> float:
        """When the run was made, in Unix seconds; the folder's own time where nothing says it."""
        created = self._said("created")
        if isinstance(created, (int, float)):
            return float(created)
        header = self._known().header
        if header is not None and isinstance(header.get("t"), (int, float)):
            return float(header["t"])
        try:
            return self.path.stat().st_mtime
        except OSError:
            return 0.0

    def brief(self) -> RunInfo:
        """Who the run is, without a look at its journal where run.json says it."""
        tags = self._labels.tags
        own_tags = self._said("tags")
        return RunInfo(
            id=str(self._said("id") or self.path.name),
            name=self._labels.name or str(self._said("name") or self.path.name),
            project=str(self._said("project") or self.path.parent.name),
            folder=str(self.path),
            status=_UNREADABLE,
            tags=tuple(map(str, own_tags or ())) if tags is None else tags,
            notes=self._said("notes") if self._labels.notes is None else self._labels.notes,
            hidden=self._labels.hidden,
        )

    @property
    def info(self) -> RunInfo:
        """The run in one row; its status as of now."""
        state, brief = self._known(), self.brief()
        totals = self._said("totals") or {}
        return RunInfo(
            id=brief.id,
            name=brief.name,
            project=brief.project,
            folder=brief.folder,
            tags=brief.tags,
            notes=brief.notes,
            hidden=brief.hidden,
            status=self._status(),
            created=self.created,
            updated=state.updated,
            attempts=state.attempts,
            step=state.reached("step"),
            epoch=state.reached("epoch"),
            total_steps=whole_number(totals.get("steps")),
            num_epochs=state.num_epochs or whole_number(totals.get("epochs")),
            records=state.num_records,
            damaged=state.num_misshapen + sum(p.damaged for p in self._parts.values()),
            config=self.config,
            problem=" ".join(self._problems.values()) or None,
        )

    @property
    def config(self) -> Mapping[str, Any]:
        """What the run was configured with, options set later included."""
        own = self._said("config")
        return {**(own if isinstance(own, dict) else {}), **self._known().config}

    @property
    def facts(self) -> Mapping[str, Any]:
        """What run.json says; the first record of the journal where it is missing."""
        return dict(self._identity or self._known().header or {})

    @property
    def labels(self) -> Labels:
        """What people changed later."""
        return self._labels

    def relabel(self, labels: Labels) -> None:
        """Replace the labels, atomically."""
        write_labels(self._folder, labels)
        self._labels = labels
        self._problems.pop("labels.json", None)

    def _said(self, field: str) -> Any:
        if self._identity:
            return self._identity.get(field)
        return (self._known().header or {}).get(field)

    def _status(self) -> Status:
        state = self._known()
        if self._closed or (not state.num_records and self._problems):
            return _UNREADABLE
        return derive_status(
            finish=state.finish,
            process=state.header or self._identity or None,
            updated=state.updated,
            now=time.time(),
        )

    # -- numbers ----------------------------------------------------------------------------------

    def metrics(self) -> list[Metric]:
        """Every series there is, in order of first appearance."""
        return self._known().metrics()

    def role(self, role: str) -> Metric | None:
        """The metric that plays a role, defined or guessed."""
        return next((metric for metric in self.metrics() if metric.role == role), None)

    def series(self, name: str, *, rank: int = 0, axis: Axis | None = None) -> Series:
        """Every point of a series; raises ``MetricNotFoundError``."""
        columns = self._known().columns
        axes = _AXES if axis is None else (axis,)
        key = next((k for a in axes if (k := SeriesKey(name, a)) in columns), None)
        if key is None or all(origin.rank != rank for origin in columns.of(key)):
            raise MetricNotFoundError(self._no_metric(name, rank, axis))
        if (key, rank) not in self._series:
            self._series[key, rank] = self._merged(key, rank)
        return self._series[key, rank]

    def _merged(self, key: SeriesKey, rank: int) -> Series:
        merged = merge(
            self._state.columns.of(key), rank=rank, axis=key.axis, cuts=self._state.cuts(key.axis)
        )
        for column in (merged.steps, merged.times, merged.values):
            column.flags.writeable = False  # answers are shared between all who ask
        return Series(
            name=key.name,
            axis=key.axis,
            rank=rank,
            steps=merged.steps,
            times=merged.times,
            values=merged.values,
            duplicates=merged.duplicates,
            hidden=merged.hidden,
            goal=next((m.goal for m in self.metrics() if (m.name, m.axis) == key), None),
        )

    def _no_metric(self, name: str, rank: int, axis: Axis | None) -> str:
        known = list(dict.fromkeys(key.name for key in self._state.columns))
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
        where = f" on rank {rank}" + (f" and the {axis} axis" if axis else "")
        hint = f" Near: {', '.join(near)}." if near else ""
        return f"run {self.brief().name!r} has no metric {name!r}{where}.{hint}"

    # -- records ----------------------------------------------------------------------------------

    def entries(self, *kinds: str, name: str | None = None, rank: int | None = 0) -> list[Entry]:
        """Records of these kinds in the order of steps, then of time."""
        state = self._known()
        dense = DENSE_KINDS.intersection(kinds)
        if dense:
            raise UsageError(
                f"{', '.join(sorted(dense))} records are series: ask series() or records()."
            )
        chosen: list[Place] = []
        for kind in kinds:
            places = state.places.get(kind)
            if places is not None:
                chosen += standing(places, cuts=state.cuts(places.axis), rank=rank, label=name)
        chosen.sort(key=lambda place: (place.at, place.t))
        return list(self._entries(chosen))

    def _entries(self, chosen: list[Place]) -> Iterator[Entry]:
        parts = list(self._parts.values())
        records: dict[Position, Record] = {}
        for index in sorted({place.part for place in chosen}):
            part, wanted = parts[index], [place for place in chosen if place.part == index]
            found = part.read_spans([place.span for place in wanted])
            for place, record in zip(wanted, found, strict=True):
                records[Position(*part.name, place.ordinal)] = record
        for place in chosen:
            position = Position(*parts[place.part].name, place.ordinal)
            yield Entry(position, place.origin.rank, records[position])

    def histograms(self, name: str | None = None, *, rank: int = 0) -> list[Entry]:
        """Histograms, of one name or of all."""
        return self.entries("histogram", name=name, rank=rank)

    def texts(self, name: str | None = None, *, rank: int = 0) -> list[Entry]:
        """Text samples, of one name or of all."""
        return self.entries("text", name=name, rank=rank)

    def blobs(self, name: str | None = None, *, rank: int = 0) -> list[Entry]:
        """Images and other blobs, of one name or of all."""
        return self.entries("blob", name=name, rank=rank)

    def blob(self, file: str) -> bytes:
        """The bytes of a blob that a record names."""
        named = {entry.record.get("file") for entry in self.entries("blob", rank=None)}
        if file not in named or Path(file).name != file:
            raise UsageError(f"run {self.brief().name!r} has no blob {file!r}.")
        return (self._folder.blobs / file).read_bytes()

    def messages(self) -> list[Entry]:
        """Messages of all ranks, by time."""
        return _by_time(self.entries("message", rank=None))

    def events(self) -> list[Entry]:
        """What happened, of all ranks, by time."""
        return _by_time(self.entries("event", rank=None))

    def findings(self) -> list[Entry]:
        """What the health rules found, by time."""
        return _by_time(self.entries("finding", rank=None))

    def records(self, since: Cursor | None = None) -> Iterator[tuple[Position, Record]]:
        """Every record as written, writer by writer in file order; after ``since`` if given."""
        self._known()
        for part in sorted(self._parts.values(), key=lambda part: part.name):
            seen = (since or {}).get(part.name.writer)
            if seen is None or part.name[1:] > seen[1:3]:
                yield from part.records(first=0)
            elif part.name[1:] == seen[1:3]:
                yield from part.records(first=seen.ordinal + 1)

    def end(self) -> Cursor:
        """Where the records read so far end."""
        self._known()
        end: dict[str, Position] = {}
        for part in sorted(self._parts.values(), key=lambda part: part.name):
            if part.num_records:
                end[part.name.writer] = Position(*part.name, part.num_records - 1)
        return end


def _by_time(entries: Iterable[Entry]) -> list[Entry]:
    return sorted(entries, key=lambda entry: entry.t or 0.0)
