"""One run on disk, answered from its parts; what has been read is read on only where it grew."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from epochal.errors import FormatError, MetricNotFoundError, UsageError
from epochal.journal.layout import RunFolder
from epochal.journal.reader import NewerFormatError
from epochal.record import Axis, Position, Record
from epochal.series.reduce import Summary
from epochal.store.adoption import Aside
from epochal.store.answers import Cursor, Entry, Labels, Metric, RunInfo, Series, Status
from epochal.store.columns import SeriesKey
from epochal.store.entries import by_time, end_of, entries_of, records_of
from epochal.store.held import Held
from epochal.store.identity import Identity
from epochal.store.labels import write_labels
from epochal.store.listing import Listing
from epochal.store.loading import LoadedParts
from epochal.store.naming import no_metric, resolve
from epochal.store.row import Row, make_row
from epochal.store.state import RunState
from epochal.store.status import derive_status

_AXES: tuple[Axis, ...] = ("step", "epoch", "time")
_UNREADABLE = Status("unreadable", "unreadable")
_SETTLED_S = 60.0
# Longer than any id that was ever made here; links and positions have to hold it.
_MAX_ID = 200


class LocalRun:
    """A run in a folder; nothing of its journal is read before the first question about it."""

    def __init__(
        self, folder: RunFolder, *, asides: Sequence[Aside] = (), held: Held | None = None
    ) -> None:
        self._folder = folder
        self.asides = asides
        self._held = Held() if held is None else held
        self._listing: Listing | None = None
        self._files = Identity(folder)
        self._parts = LoadedParts(self._held)
        self._state: RunState | None = None
        self._row: Row | None = None
        self._resolved: dict[str, Metric | None] = {}
        self._summaries: dict[tuple[str, Axis | None, int], Summary] = {}
        self._ended: tuple[Row, Status] | None = None
        # Set when the row has learnt something that the index does not know.
        self.has_news = False
        # Counts up whenever the files are not as they were.
        self.version = 0
        # Which one it is of the runs in its store that say the same id, as copies of a folder do.
        self.copy = 1

    # -- reading ----------------------------------------------------------------------------------

    def refresh(self) -> bool:
        """Look for what was written since; True when there was anything."""
        before, self._listing = self._listing, Listing(self._folder, self.asides)
        if before is not None and before.signature == self._listing.signature:
            return False
        self.version += before is not None
        self._row = None
        self._resolved.clear()
        self._summaries.clear()
        if self._state is None:
            return True
        num_records = self._state.num_records
        self._load()
        return self._state.num_records != num_records

    def recall(self, signature: str, row: Row) -> None:
        """Take a row that the index kept, if the files are still as they were then."""
        if self._listing is None:
            self._listing = Listing(self._folder, self.asides)
        if self._row is None and self._listing.signature == signature:
            self._row = row

    @property
    def signature(self) -> str:
        """What the row of this run is valid for."""
        return self._known_listing().signature

    @property
    def is_settled(self) -> bool:
        """Whether nothing was written to the run for a minute."""
        return time.time() - self._known_listing().newest_s > _SETTLED_S

    @property
    def held_bytes(self) -> int:
        """How much of the journal is in memory."""
        return self._parts.held_bytes

    def release(self) -> bool:
        """Let go of what was read of the journal; it is read again when asked for."""
        if self._state is None or not self.is_settled:
            return False
        self._row = self.row
        self._state = None
        self._parts.close()
        return True

    def close(self) -> None:
        """Let go of everything; the run is gone, or nobody will ask again."""
        self._state = None
        self._parts.close()
        self._held.series.drop(id(self))
        self._held.loaded.forget(self)

    def _known_listing(self) -> Listing:
        if self._listing is None:
            self.refresh()
            assert self._listing is not None
        return self._listing

    @property
    def _identity(self) -> Identity:
        """What the small files say, as of the last look."""
        self._files.refresh(self._known_listing())
        return self._files

    def _known(self) -> RunState:
        if self._state is None:
            self._load()
            assert self._state is not None
        return self._state

    def _load(self) -> None:
        changed = False
        if self._identity.newer_format is None:
            try:
                changed = self._parts.poll(self._known_listing())
                if self._parts.has_moved:  # sealed since the listing
                    self._listing = Listing(self._folder, self.asides)
                    changed |= self._parts.poll(self._listing)
            except NewerFormatError as error:
                self._parts.close()
                self._identity.newer_format = str(error)
                changed = True
        if changed or self._state is None:
            self._state = RunState(self._parts.all)
            self._held.series.drop(id(self))
            self._held.loaded.grown(self)

    # -- the run as a whole -----------------------------------------------------------------------

    @property
    def path(self) -> Path:
        """The run's folder."""
        return self._folder.path

    @property
    def own_id(self) -> str:
        """The id that the run itself says; the folder's name where it says none."""
        if self._row is not None:
            return self._row.id
        said = str(self._said("id") or "")
        return said if 0 < len(said) <= _MAX_ID else self.path.name

    @property
    def id(self) -> str:
        """The id that stands for this run and no other of its store."""
        return self.own_id if self.copy == 1 else f"{self.own_id}~{self.copy}"

    @property
    def created(self) -> float:
        """When the run was made, in Unix seconds; the folder's own time where nothing says it."""
        if self._row is not None:
            return self._row.created
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
        if self._row is not None:
            return self._row.info(self.id, folder=str(self.path), status=_UNREADABLE)
        labels, own_tags = self.labels, self._said("tags")
        return RunInfo(
            id=self.id,
            name=labels.name or str(self._said("name") or self.path.name),
            project=str(self._said("project") or self.path.parent.name),
            folder=str(self.path),
            status=_UNREADABLE,
            tags=_texts(own_tags) if labels.tags is None else labels.tags,
            notes=self._said("notes") if labels.notes is None else labels.notes,
            hidden=labels.hidden,
        )

    @property
    def row(self) -> Row:
        """All that lists and filters ask of the run."""
        if self._row is None:
            self._row = self._make_row()
            self.has_news = True
        return self._row

    def _make_row(self) -> Row:
        state, said = self._known(), self._identity.said
        return make_row(
            self.brief(),
            state,
            own_id=self.own_id,
            said=said,
            created=self.created,
            labels=self.labels,
            problems=[*self._identity.problems, *self._parts.problems],
            is_newer=self._identity.newer_format is not None,
            end=end_of(state),
        )

    @property
    def info(self) -> RunInfo:
        """The run in one row; its status as of now."""
        return self.row.info(self.id, folder=str(self.path), status=self.status)

    @property
    def status(self) -> Status:
        """How the run stands, as of now."""
        row = self.row
        if self._ended is not None and self._ended[0] is row:
            return self._ended[1]
        if row.is_unreadable:
            return _UNREADABLE
        status = derive_status(
            finish=row.finish, process=row.process, updated=row.updated, now=time.time()
        )
        if status.state not in ("running", "waiting", "silent"):
            # What has ended stays so, and a process that is gone does not come back.
            self._ended = (row, status)
        return status

    @property
    def config(self) -> Mapping[str, Any]:
        """What the run was configured with, options set later included."""
        return self.row.config

    @property
    def facts(self) -> Mapping[str, Any]:
        """What run.json says; the first record of the journal where it is missing."""
        return dict(self._identity.said or self._known().header or {})

    @property
    def labels(self) -> Labels:
        """What people changed later."""
        if self._row is not None:
            return self._row.labels
        return self._identity.labels

    def relabel(self, labels: Labels) -> None:
        """Replace the labels, atomically."""
        write_labels(self._folder, labels)
        self.refresh()

    def _said(self, field: str) -> Any:
        said = self._identity.said
        if said:
            return said.get(field)
        return (self._known().header or {}).get(field)

    # -- numbers ----------------------------------------------------------------------------------

    def metrics(self) -> list[Metric]:
        """Every series there is, in order of first appearance."""
        return list(self.row.metrics)

    def role(self, role: str) -> Metric | None:
        """The metric that plays a role, defined or guessed."""
        return next((metric for metric in self.row.metrics if metric.role == role), None)

    def series(self, name: str, *, rank: int = 0, axis: Axis | None = None) -> Series:
        """Every point of a series; raises ``MetricNotFoundError``, ``FormatError``."""
        ranks = self._known().ranks
        axes = _AXES if axis is None else (axis,)
        key = next((k for a in axes if (k := SeriesKey(name, a)) in ranks), None)
        if key is None or rank not in ranks[key]:
            raise self._no_metric(name, rank, axis)
        self._held.loaded.used(self)
        series = self._held.series.get(id(self), key, rank)
        if series is None:
            try:
                series = self._known().series(key, rank)
            except OSError as error:
                raise FormatError(f"a part of the journal cannot be read: {error}") from error
            self._held.series.put(series, id(self), key, rank)
        return series

    def metric(self, name: str) -> Metric | None:
        """The metric that a name, a role or the end of a name means; None for none."""
        if name not in self._resolved:
            self._resolved[name] = resolve(name, self.row.metrics)
        return self._resolved[name]

    def summary(self, name: str, *, rank: int = 0, axis: Axis | None = None) -> Summary:
        """First, last, extremes and mean of a series, kept; raises ``MetricNotFoundError``."""
        summary = self._summaries.get((name, axis, rank))
        if summary is None:
            summary = self._summaries[name, axis, rank] = self._summary(name, axis, rank)
        return summary

    def _summary(self, name: str, axis: Axis | None, rank: int) -> Summary:
        row = self.row
        axes = _AXES if axis is None else (axis,)
        on = {metric.axis for metric in row.metrics if metric.name == name and rank in metric.ranks}
        found = next((a for a in axes if a in on), None)
        if found is None:
            raise self._no_metric(name, rank, axis)
        summary = row.summary(name, found, rank)
        if summary is None:
            summary = self.series(name, rank=rank, axis=found).summary
            row.keep(name, found, rank, summary)
            self.has_news = True
        return summary

    def _no_metric(self, name: str, rank: int, axis: Axis | None) -> MetricNotFoundError:
        run, metrics = self.brief().name, self.row.metrics
        return MetricNotFoundError(no_metric(name, metrics, run=run, rank=rank, axis=axis))

    # -- records ----------------------------------------------------------------------------------

    def entries(self, *kinds: str, name: str | None = None, rank: int | None = 0) -> list[Entry]:
        """Records of these kinds in the order of steps, then of time."""
        return entries_of(self._known(), kinds, name=name, rank=rank)

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
        path = self._folder.blobs / file
        # A link could lead out of the folder, and a pipe would wait for somebody to write to it.
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise UsageError(f"blob {file!r} is not a file.")
        return path.read_bytes()

    def messages(self) -> list[Entry]:
        """Messages of all ranks, by time."""
        return by_time(self.entries("message", rank=None))

    def events(self) -> list[Entry]:
        """What happened, of all ranks, by time."""
        return by_time(self.entries("event", rank=None))

    def findings(self) -> list[Entry]:
        """What the health rules found, by time."""
        return by_time(self.entries("finding", rank=None))

    def records(self, since: Cursor | None = None) -> Iterator[tuple[Position, Record]]:
        """Every record as written, writer by writer in file order; after ``since`` if given."""
        return records_of(self._known(), since)

    def end(self) -> Cursor:
        """Where the records read so far end."""
        return self.row.end if self._state is None else end_of(self._state)


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, (list, tuple)) else ()
