"""What a store returns: plain frozen data, the same for every engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

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

    ``record`` has the fields that ``docs/explanation/journal.md`` gives its kind.
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
