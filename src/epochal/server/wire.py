"""The wire types that several modules share: JSON bodies, and the head of a series body.

``docs/explanation/http.md`` is the specification, and ``tools/wire.py`` generates
``web/src/wire.ts`` from this file. A field that may be absent is ``T | None`` and
sent as null. Times are Unix seconds. A number that JSON cannot hold (nan, infinities) is
null, and a field beside it says which it was.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from epochal.journal.boards import StoredBoard
from epochal.journal.row import Labels, MetricSummary, RunRow
from epochal.store.goodput import Goodput
from epochal.store.run_files import Machine

WIRE_VERSION = 3
SERIES_MEDIA_TYPE = "application/vnd.epochal.series"

XKind = Literal["step", "epoch", "tokens", "wall", "relative", "progress"]
AxisName = Literal["step", "epoch", "time"]
Nonfinite = Literal["nan", "inf", "-inf"]
MarkKind = Literal["restart", "epoch", "checkpoint", "phase", "throttle"]
ResetReason = Literal["behind", "unknown", "resumed", "gone"]


class RunGroup(msgspec.Struct, frozen=True):
    """Runs with equal values in the fields that were grouped by; null where a run has none.

    ``states`` counts the runs by state. ``last`` has the last values of the requested summaries.
    """

    values: list[Any]
    count: int
    states: dict[str, int]
    last: dict[str, Spread]


class Spread(msgspec.Struct, frozen=True):
    """Finite last values of a group: how many, and their mean and extremes."""

    count: int
    mean: float
    min: float
    max: float


class RunList(msgspec.Struct, frozen=True):
    """One window of the list of runs; ``total`` counts all runs that match the query.

    ``unsummarised`` counts the runs of which only identity and status are known. ``groups``,
    ``stored`` and ``projects`` are null unless they were requested. ``stored`` counts all runs,
    whatever the query. ``projects`` names their projects.
    """

    rows: list[RunRow]
    total: int
    offset: int
    unsummarised: int = 0
    groups: list[RunGroup] | None = None
    stored: int | None = None
    projects: list[str] | None = None


class MetricRow(msgspec.Struct, frozen=True):
    """A series that exists; ``summary`` is of its lowest rank, null unless requested."""

    name: str
    axis: AxisName
    ranks: list[int]
    unit: str | None
    goal: Literal["min", "max"] | None
    role: str | None
    x: str | None
    summary: MetricSummary | None


class RunDetail(msgspec.Struct, frozen=True):
    """One run without its points and entries.

    ``facts`` is the content of run.json, ``hardware`` the fields of each ``gpu-model`` record,
    ``sol`` those of the last ``sol`` record, ``roles`` the metric name of each role, ``summary``
    what the program set itself. ``goodput`` is null before the first step. ``recorded`` are the
    kinds of records that the run has, without those that are nothing but numbers.
    ``metrics`` are at most 2,000 of ``num_metrics``: where some are left out, ``sections`` counts
    all by the first part of their names, and ``/api/runs/{id}/metrics`` finds the others.
    ``position`` is the end of the run's records at this response.
    """

    row: RunRow
    folder: str
    config: dict[str, Any]
    summary: dict[str, Any]
    facts: dict[str, Any]
    labels: Labels
    metrics: list[MetricRow]
    num_metrics: int
    sections: dict[str, int]
    roles: dict[str, str]
    hardware: list[dict[str, Any]]
    sol: dict[str, Any] | None
    goodput: Goodput | None
    recorded: list[str]
    position: str


class EntryRow(msgspec.Struct, frozen=True):
    """One record that is not a number; its fields are those of ``docs/explanation/journal.md``.

    ``record`` is null in a stream when it is too large: request it from its endpoint.
    """

    position: str
    kind: str
    rank: int
    t: float | None
    step: int | None
    name: str | None
    record: dict[str, Any] | None


class EntryList(msgspec.Struct, frozen=True):
    """Entries by step, then time; ``names`` counts all there are, ``total`` those of the name."""

    entries: list[EntryRow]
    names: dict[str, int]
    total: int
    offset: int


class Mark(msgspec.Struct, frozen=True):
    """An event in a chart; ``at`` has its x on every axis where it has one.

    A ``phase`` lasts until the next one begins. ``gpu`` is the number of the GPU it is about.
    """

    kind: MarkKind
    label: str
    at: dict[XKind, float]
    gpu: int | None


class MarkList(msgspec.Struct, frozen=True):
    """The marks of a run, grouped by kind, each kind in the order of time."""

    marks: list[Mark]


class PositionedRecord(msgspec.Struct, frozen=True):
    """A record as it was written."""

    position: str
    record: dict[str, Any]


class RecordPage(msgspec.Struct, frozen=True):
    """Records in file order; continue with ``since`` = ``position`` while there is ``more``."""

    records: list[PositionedRecord]
    position: str
    more: bool


class SeriesHead(msgspec.Struct, frozen=True, omit_defaults=True):
    """One series of a series body.

    ``x`` is its axis: a series that has no x on the requested axis keeps its own. ``count`` is
    the number of rows that follow (points when ``raw``, else slices), ``points`` how many
    points lie in the range and ``nonfinite_points`` how many of them are not finite. ``lo`` and
    ``hi`` are the ends of the whole series. Slices have ``nonfinite`` marks, ``last`` is the last
    finite value in the range as it was logged, and ``whole`` says that every x is a whole number.
    ``columns`` names further columns, each with a value for every row. ``smooth_state`` continues
    a moving average after the last point: sum, weight, x of that point, and the distance over
    which the weight counts once (0: every point counts once).
    """

    run: str
    name: str
    rank: int
    axis: AxisName
    x: str
    raw: bool
    count: int
    points: int
    nonfinite_points: int
    duplicates: int
    hidden: int
    lo: float | None
    hi: float | None
    nonfinite: int = 0
    whole: bool = False
    last: float | None = None
    columns: list[str] = []
    smooth_state: list[float] | None = None


class Missing(msgspec.Struct, frozen=True):
    """A requested series that does not exist."""

    run: str
    name: str
    rank: int
    reason: str


class SeriesHeader(msgspec.Struct, frozen=True):
    """The head of a series body; ``positions`` has each run's, for ``since`` of the stream."""

    version: int
    series: list[SeriesHead]
    missing: list[Missing]
    positions: dict[str, str]


class Points(msgspec.Struct, frozen=True):
    """New points of one series: columns of equal length.

    ``x`` are steps, epochs or times. Where ``value`` is null, ``nonfinite`` has its name under the
    index as a decimal string.
    """

    name: str
    axis: AxisName
    rank: int
    x: list[float]
    t: list[float | None]
    value: list[float | None]
    nonfinite: dict[str, Nonfinite]


class ReadyEvent(msgspec.Struct, frozen=True):
    """``ready``: the stream has reached ``position``; clients that show the list fetch it now."""

    wire: int
    version: str
    position: str


class RecordsEvent(msgspec.Struct, frozen=True):
    """``records``: what one run recorded since the previous event.

    ``partial``: there are points of more series than a stream sends at once.
    """

    run: str
    points: list[Points]
    entries: list[EntryRow]
    partial: bool


class LiveEvent(msgspec.Struct, frozen=True):
    """``live``: a subscribed run's machines, once a second; none when readings have ended."""

    run: str
    machines: list[Machine]


class StatusEvent(msgspec.Struct, frozen=True):
    """``status``: a subscribed run's row has changed."""

    row: RunRow


class RunsEvent(msgspec.Struct, frozen=True):
    """``runs``: the list has changed; with ``all`` in too many rows: fetch it again."""

    added: list[RunRow]
    changed: list[RunRow]
    removed: list[str]
    all: bool


class ResetEvent(msgspec.Struct, frozen=True):
    """``reset``: the client fetches ``run`` (every run, when null) again."""

    run: str | None
    reason: ResetReason


class HeartbeatEvent(msgspec.Struct, frozen=True):
    """``heartbeat``: the server is running."""

    t: float


class Knots(msgspec.Struct, frozen=True):
    """The x of some steps on another axis; values between them are interpolated linearly."""

    step: list[float]
    at: list[float]


class ArchiveBody(msgspec.Struct, frozen=True):
    """The data of an archive, in its element ``epochal-archive``.

    ``made`` is when it was saved. ``runs`` has ``config`` and the summaries of the headline roles.
    ``responses`` are those of the endpoints of a run, by run id and endpoint name. ``series`` are
    series bodies along steps, in base64, plain or compressed with gzip; ``axes`` converts steps to
    other axes. ``blobs`` are ``data:`` URLs by run id and file. ``sweep`` has ``GroupTables`` by
    choice of keys under ``groups``, and an ``Importance`` by metric under ``importance``.
    ``boards`` are those of the projects of its runs; ``board`` names the one it opens with.
    ``problems`` has formulas that no run has the metrics for, and why.
    """

    wire: int
    made: float
    runs: RunList
    axes: dict[str, dict[XKind, Knots]]
    responses: dict[str, dict[str, Any]]
    blobs: dict[str, dict[str, str]]
    series: list[str]
    sweep: dict[str, Any] = {}
    boards: list[StoredBoard] = []
    board: str | None = None
    problems: dict[str, str] = {}


class Problem(msgspec.Struct, frozen=True):
    """The body of every error response."""

    error: str


class Health(msgspec.Struct, frozen=True):
    """``/healthz``: ``folders`` tells servers of different folders apart, ``faults`` were ours."""

    service: Literal["epochal"]
    version: str
    pid: int
    folders: str
    streams: int
    faults: int
