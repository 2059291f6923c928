"""What a store answers with: plain frozen data, the same whichever store was asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from epochal.records import Axis, Position, Record
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

# One position per writer: the last record of it that has been seen.
Cursor = Mapping[str, Position]


@dataclass(frozen=True, slots=True)
class Status:
    """How a run stands, as it could be told at the moment of asking.

    ``text`` is the word for people ("silent 12 min"); ``reason`` is what the run itself said of its
    end; ``since`` the time of its newest record, in Unix seconds.
    """

    state: State
    text: str
    reason: str | None = None
    since: float | None = None


@dataclass(frozen=True, slots=True)
class Labels:
    """What people change after the fact; None means that the run's own word stands."""

    name: str | None = None
    tags: tuple[str, ...] | None = None
    notes: str | None = None
    hidden: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """One run in one row; times in Unix seconds.

    ``name``, ``tags`` and ``notes`` are the labels' where people set them. ``step`` and ``epoch``
    are the highest of rank 0's newest attempt; ``damaged`` counts lines that could not be read;
    ``problem`` is a sentence about a run that cannot be read, wholly or in part; ``tracker`` is
    whose files a run that is not ours is read from. ``errors`` and ``warnings`` count what was
    found, over or not, and how the run ended; ``open_errors`` and ``open_warnings`` what of it
    still holds. All are None where nobody looked. ``is_partly_watched``: a companion did not see
    the end of an attempt, and nobody has looked at the rest yet. ``nonfinite``: the last loss is
    nan or infinite.
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
    config: Mapping[str, Any] = field(default_factory=dict)
    problem: str | None = None
    tracker: str | None = None
    errors: int | None = None
    warnings: int | None = None
    open_errors: int | None = None
    open_warnings: int | None = None
    nonfinite: bool = False
    is_partly_watched: bool = False

    @property
    def steps_done(self) -> int | None:
        """How many steps are done, counted from step 0; never more than there were to be."""
        if self.step is None:
            return None
        done = self.step + 1
        return done if self.total_steps is None else min(done, self.total_steps)


@dataclass(frozen=True, slots=True)
class Metric:
    """A series that exists: name and axis, what is known of its meaning, which ranks have it."""

    name: str
    axis: Axis
    ranks: tuple[int, ...]
    unit: str | None = None
    goal: Goal | None = None
    role: str | None = None
    x: str | None = None


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine of a run as it was a moment ago; at ``t``, in Unix seconds, that was written.

    ``gpus`` and ``system`` have the fields of ``gpu`` and ``system`` records, as last known, and
    their own ``t``: when they were read. What was not read for a while is left out.
    """

    node: str
    rank: int
    t: float
    gpus: tuple[Mapping[str, float | str], ...]
    system: Mapping[str, float | str]


@dataclass(frozen=True, slots=True)
class Entry:
    """One record that is not a number in a series: a text, a histogram, a message, a finding, …

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
        t = self.record.get("t")
        return float(t) if isinstance(t, (int, float)) else None

    @property
    def step(self) -> int | None:
        """The step it belongs to, where it has one."""
        step = self.record.get("step")
        return step if isinstance(step, int) else None

    @property
    def name(self) -> str | None:
        """What it is called, where its kind has names."""
        name = self.record.get("name")
        return name if isinstance(name, str) else None
