"""What a store returns: plain frozen data, the same for every engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from epochal.records import Axis, Position, Record, finite, whole_number
from epochal.series.trend import Goal

State = Literal[
    "waiting",
    "running",
    "finished",
    "failed",
    "interrupted",
    "terminated",
    "crashed",
    "silent",
    "unreadable",
]

# A run that has not ended, as far as can be told: its state may change without a new record.
LIVE_STATES: tuple[State, ...] = ("waiting", "running", "silent")

# One position per writer: its last record that was read.
Cursor = Mapping[str, Position]


# Lists make one of each for every run; ``gc=False``: they hold no cycles.
class Status(msgspec.Struct, frozen=True, gc=False):
    """The status of a run at the moment of the query.

    ``text`` is what people read ("silent 12 min"). ``reason`` is what the run recorded about its
    end. ``since`` is the time of its newest record, in Unix seconds.
    """

    state: State
    text: str
    reason: str | None = None
    since: float | None = None

    @property
    def is_live(self) -> bool:
        """Whether the run has not ended, as far as can be told."""
        return self.state in LIVE_STATES


@dataclass(frozen=True, slots=True)
class Labels:
    """What people change later; None keeps what the run recorded."""

    name: str | None = None
    tags: tuple[str, ...] | None = None
    notes: str | None = None
    hidden: bool = False


# Makes new labels of those that are stored, for example with ``dataclasses.replace``.
NO_LABELS = Labels()
LabelsEdit = Callable[[Labels], Labels]


class TrashedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that was deleted and can be restored; times in Unix seconds.

    ``folder`` is where it lies, ``origin`` where it was. ``id`` is the one that it recorded.
    """

    id: str
    name: str
    project: str
    folder: str
    origin: str
    deleted: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """The run that a fork continues, and after which step."""

    id: str
    name: str
    project: str
    step: int

    def __str__(self) -> str:
        where = f"{self.project}/{self.name}" if self.project else self.name
        return f"{where} after step {self.step:,}"


class RunInfo(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One run in one row; times in Unix seconds.

    ``name``, ``tags`` and ``notes`` come from the labels where people set them. ``step`` and
    ``epoch`` are the highest of rank 0 in the newest attempt. ``damaged`` counts lines that cannot
    be read. ``problem`` is a sentence about a run that cannot be read, or not completely.
    ``tracker`` names the tool whose files the run is read from; None for our own.
    ``errors`` and ``warnings`` count all findings and a bad ending, ``open_errors`` and
    ``open_warnings`` those that are still active; all are None where no rule has run.
    ``is_partly_watched``: a companion did not see the end of an attempt, and no rule has read the
    rest yet. ``nonfinite``: the last loss is nan or infinite. ``is_partial``: only identity and the
    newest records were read so far; counts of records and findings are not known.
    ``summary`` is what the program set with ``run.summary``; ``group``, ``job_type`` and ``owner``
    are as ``init`` was given them. ``fork`` says which run it was forked from; None of most runs.
    """

    id: str
    name: str
    project: str
    folder: str
    status: Status
    created: float | None = None
    updated: float | None = None
    attempts: int = 0
    step: int | None = None
    epoch: int | None = None
    total_steps: int | None = None
    num_epochs: int | None = None
    records: int = 0
    damaged: int = 0
    tags: tuple[str, ...] = ()
    notes: str | None = None
    hidden: bool = False
    config: Mapping[str, Any] = {}
    problem: str | None = None
    tracker: str | None = None
    errors: int | None = None
    warnings: int | None = None
    open_errors: int | None = None
    open_warnings: int | None = None
    nonfinite: bool = False
    is_partly_watched: bool = False
    is_partial: bool = False
    summary: Mapping[str, Any] = {}
    group: str | None = None
    job_type: str | None = None
    owner: str | None = None
    fork: Fork | None = None

    @property
    def steps_done(self) -> int | None:
        """How many steps are done, counted from step 0; at most ``total_steps``."""
        if self.step is None:
            return None
        done = self.step + 1
        return done if self.total_steps is None else min(done, self.total_steps)


class Metric(msgspec.Struct, frozen=True):
    """A series that exists: its name and axis, the ranks that have it, its unit, goal and role."""

    name: str
    axis: Axis
    ranks: tuple[int, ...]
    unit: str | None = None
    goal: Goal | None = None
    role: str | None = None
    x: str | None = None


class Machine(msgspec.Struct, frozen=True):
    """The newest readings of one machine; ``t`` is when they were written, in Unix seconds.

    ``gpus`` and ``system`` have the fields of ``gpu`` and ``system`` records, and a ``t`` of their
    own: when they were measured. Readings that are too old are left out.
    """

    node: str
    rank: int
    t: float
    gpus: tuple[Mapping[str, float | str], ...]
    system: Mapping[str, float | str]


class Entry(msgspec.Struct, frozen=True):
    """One record that is not part of a series: a text, a histogram, a message, a finding, …

    ``record`` has the fields that ``spec/journal.md`` gives its kind.
    """

    position: Position
    rank: int
    record: Record

    @property
    def kind(self) -> str:
        """The record's kind."""
        return str(self.record["log"])

    @property
    def t(self) -> float | None:
        """When it was written, in Unix seconds."""
        return finite(self.record.get("t"))

    @property
    def step(self) -> int | None:
        """Its step; None where it has none."""
        return whole_number(self.record.get("step"))

    @property
    def name(self) -> str | None:
        """Its name; None where its kind has no names."""
        name = self.record.get("name")
        return name if isinstance(name, str) else None


def by_time(entries: Iterable[Entry]) -> list[Entry]:
    """The same entries, the oldest first."""
    return sorted(entries, key=lambda entry: entry.t or 0.0)


class ListedInfo(msgspec.Struct, frozen=True):
    """A run of a list for a reader on another machine; ``latest`` has last values by role."""

    info: RunInfo
    labels: Labels
    latest: Mapping[str, float] = {}


class InfoPage(msgspec.Struct, frozen=True):
    """One window of a list of runs; ``total`` counts all that the query selects.

    ``pending`` counts runs of the store that were not read whole yet: what is said of them, and
    whether a query selects them, may change.
    """

    runs: list[ListedInfo]
    total: int
    offset: int = 0
    pending: int = 0
