"""A run in one row: who it is and how it stands.

``RunRow`` is what a run carries as ``summary.json``, what a catalog keeps, what travels to other
machines and what the page, commands and programs read. ``SeriesSummary`` is one line of
``metrics.json``. ``journal/summaries.py`` makes both.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import msgspec

from epochal.journal.diagnosis import NOT_JUDGED, Diagnosis
from epochal.records import Axis
from epochal.records.values import nonfinite_word
from epochal.series.summary import Summary
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


NO_LABELS = Labels()


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


class FindingCounts(NamedTuple):
    """How many findings a run has, over or not, and how many of them still hold."""

    errors: int
    warnings: int
    open_errors: int
    open_warnings: int


class MetricSummary(msgspec.Struct, frozen=True):
    """The summary of a series; ``*_x`` are steps, epochs or times, depending on its axis."""

    count: int
    nonfinite: int
    last: float | None
    last_nonfinite: Literal["nan", "inf", "-inf"] | None = None
    last_x: float | None = None
    min: float | None = None
    min_x: float | None = None
    max: float | None = None
    max_x: float | None = None
    mean: float | None = None
    best: float | None = None
    best_x: float | None = None


class SeriesSummary(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A series of one rank and what it amounts to; ``*_at`` are steps, epochs or times.

    ``is_known`` is false where only its points tell what it amounts to: steps came again, or not in
    order. ``first_is`` and ``last_is`` say which value that is not finite stands there.
    """

    name: str
    axis: Axis = "step"
    rank: int = 0
    unit: str | None = None
    goal: Goal | None = None
    role: str | None = None
    x: str | None = None
    importance: int = 0
    is_known: bool = True
    count: int = 0
    nonfinite: int = 0
    first: float | None = None
    first_is: str | None = None
    last: float | None = None
    last_is: str | None = None
    last_at: int | float | None = None
    min: float | None = None
    min_at: int | float | None = None
    max: float | None = None
    max_at: int | float | None = None
    mean: float | None = None

    @property
    def summary(self) -> Summary | None:
        """The numbers alone; None where they are not known."""
        if not self.is_known:
            return None
        return Summary(
            count=self.count,
            nonfinite=self.nonfinite,
            first=self.first if self.first_is is None else float(self.first_is),
            last=self.last if self.last_is is None else float(self.last_is),
            last_step=self.last_at,
            min=self.min,
            min_step=self.min_at,
            max=self.max,
            max_step=self.max_at,
            mean=self.mean,
        )


def numbers_of_summary(summary: Summary) -> dict[str, Any]:
    """The fields of a ``SeriesSummary`` that say what a series amounts to."""
    first, last = summary.first, summary.last
    return {
        "count": summary.count,
        "nonfinite": summary.nonfinite,
        "first": first if first is not None and math.isfinite(first) else None,
        "first_is": None if first is None else nonfinite_word(first),
        "last": last if last is not None and math.isfinite(last) else None,
        "last_is": None if last is None else nonfinite_word(last),
        "last_at": summary.last_step,
        "min": summary.min,
        "min_at": summary.min_step,
        "max": summary.max,
        "max_at": summary.max_step,
        "mean": summary.mean,
    }


class Mark(NamedTuple):
    """How much of the newest part of a writer in an attempt was read: records and bytes.

    ``is_whole``: nothing will follow.
    """

    part: int
    records: int
    bytes: int
    is_whole: bool = False


UNREADABLE = Status("unreadable", "unreadable")
SUMMARY_VERSION = 2


class RunRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A run in one row of a list; times in Unix seconds.

    ``name``, ``tags`` and ``notes`` come from the labels where people set them. ``step`` and
    ``epoch`` are the highest of rank 0 in the newest attempt. ``damaged`` counts lines that cannot
    be read. ``problem`` is a sentence about a run that cannot be read, or not completely.
    ``tracker`` names the tool whose files the run was converted from; null for our own.
    ``errors`` and ``warnings`` count all findings and a bad ending, ``open_errors`` and
    ``open_warnings`` those that are still active; all are null where no rule has run.
    ``is_partly_watched``: a companion did not see the end of an attempt, and no rule has read the
    rest yet. ``nonfinite``: the last loss is nan or infinite. ``is_summarised``: false where only
    identity and status are known, because nobody has summarised the run yet. ``summary`` is what
    the program set with ``run.summary``; ``group``, ``job_type`` and ``owner`` are as ``init`` was
    given them. ``fork`` says which run it was forked from. ``recorded`` has the kinds of its
    records. ``diagnosis`` is how the training is.

    What the row is derived from at each moment: ``labels`` are as people set them; ``process``
    identifies the process that wrote the newest attempt, ``ending`` is its last record;
    ``vanished`` is what its companion said of a process that was gone; ``source`` is where another
    tracker's run was converted or copied from; ``counts`` are the findings without a bad ending;
    ``unwatched`` counts records that no companion watched; ``written`` is when the journal was
    written, by the clock of its disk. ``headline`` has the most important metrics. ``positions``
    says by part how far all this holds. ``is_cut``: the configuration or the summary has more.

    The other fields are filled for a list that asks for them. ``config`` is empty unless it
    was requested. ``summaries`` has the requested metrics that exist, by the requested name
    (``role:loss`` stays ``role:loss``). ``ends_at`` is when a running run is expected to end; null
    while that cannot be known. ``host`` and ``phase`` say where a live run runs and what its
    training is doing. ``unfinished`` says how far a run is that has not finished (``running, 5 % of
    its steps``).
    """

    v: int = SUMMARY_VERSION
    id: str
    name: str
    project: str
    folder: str = ""
    status: Status = UNREADABLE
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
    is_summarised: bool = True
    summary: Mapping[str, Any] = {}
    group: str | None = None
    job_type: str | None = None
    owner: str | None = None
    fork: Fork | None = None
    recorded: tuple[str, ...] = ()
    diagnosis: Diagnosis = NOT_JUDGED
    labels: Labels = NO_LABELS
    process: Mapping[str, Any] | None = None
    ending: Mapping[str, Any] | None = None
    vanished: str | None = None
    source: Mapping[str, Any] | None = None
    counts: FindingCounts | None = None
    unwatched: int = 0
    written: float | None = None
    has_companion: bool = False
    is_ended: bool = False
    is_unreadable: bool = False
    is_cut: bool = False
    headline: tuple[SeriesSummary, ...] = ()
    positions: Mapping[str, Mark] = {}
    summaries: Mapping[str, MetricSummary] = {}
    ends_at: float | None = None
    host: str | None = None
    phase: str | None = None
    unfinished: str | None = None

    @property
    def steps_done(self) -> int | None:
        """How many steps are done, counted from step 0; at most ``total_steps``."""
        if self.step is None:
            return None
        done = self.step + 1
        return done if self.total_steps is None else min(done, self.total_steps)

    def length(self, axis: Axis) -> int | None:
        """How many steps or epochs the run has: as planned, or as recorded if those are more."""
        step = None if self.step is None else self.step + 1
        known = {"step": (self.total_steps, step), "epoch": (self.num_epochs, self.epoch)}
        return max((one for one in known.get(axis, ()) if one), default=None)

    def of_role(self, role: str) -> SeriesSummary | None:
        """The headline metric that plays a role, on the lowest rank that has it."""
        return next((one for one in self.headline if one.role == role), None)
