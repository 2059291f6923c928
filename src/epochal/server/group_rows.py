"""Wire types of groups of runs and of important keys, and the store's results as these types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from epochal.errors import MetricNotFoundError
from epochal.series.aggregate import STATISTICS
from epochal.series.goals import possible_range
from epochal.server.rows import finite
from epochal.store.answers import State
from epochal.store.groups import (
    Grouping,
    GroupSeries,
    GroupValue,
    Member,
    MemberRead,
    best_index,
    values_of_groups,
)
from epochal.store.unfinished import ALL_FINISHED, Unfinished

# Tests of differences and importances are loaded when they are asked for: a server starts sooner.
if TYPE_CHECKING:
    from epochal.store.importance import Importance, Level, Parameter


class GroupDropOut(msgspec.Struct, frozen=True):
    """Where a member leaves the numbers of its group: its end, or where it turned nan."""

    run: str
    name: str
    at: float
    why: Literal["ended", "nonfinite"]
    state: State


class GroupCurve(msgspec.Struct, frozen=True):
    """One group along an axis, as long as half of its members remain: columns of equal length.

    ``n`` of ``members`` have a finite value at each position, ``nonfinite`` have nan or infinity,
    ``ended`` ended before; ``missing`` never logged the metric. ``columns`` has the requested
    numbers by name, null where too few members have a value. Unfinished runs that are left out are
    no members.
    """

    label: str
    values: list[Any]
    members: int
    missing: int
    at: list[float]
    n: list[int]
    nonfinite: list[int]
    ended: list[int]
    columns: dict[str, list[float | None]]
    dropouts: list[GroupDropOut]
    runs: list[str]


class GroupCurves(msgspec.Struct, frozen=True):
    """One metric of groups of runs; ``lowest`` and ``highest`` bound what the metric can be.

    ``groups`` counts all groups; beyond 100 only the largest have curves.
    """

    metric: str
    x: str
    keys: list[str]
    groups: int
    lowest: float | None
    highest: float | None
    curves: list[GroupCurve]
    unfinished: Unfinished


class GroupMember(msgspec.Struct, frozen=True):
    """The value of one run; only values of counted runs are in the numbers of its group."""

    run: str
    name: str
    value: float | None
    standing: Literal["counted", "nonfinite", "unfinished", "missing"]


class GroupRow(msgspec.Struct, frozen=True):
    """What one group came to; numbers are null where too few members count."""

    label: str
    values: list[Any]
    n: int
    nonfinite: int
    unfinished: int
    missing: int
    mean: float | None
    median: float | None
    std: float | None
    se: float | None
    low: float | None
    high: float | None
    min: float | None
    max: float | None
    q25: float | None
    q75: float | None
    members: list[GroupMember]


class GroupDifference(msgspec.Struct, frozen=True):
    """The best group (``left``) minus another, as places in ``rows``, with a 95 % interval.

    Interval and ``p`` are corrected for the groups between the two. ``winner`` is null where the
    other group is not shown to be worse.
    """

    left: int
    right: int
    difference: float
    low: float | None
    high: float | None
    p: float | None
    units: int
    paired: bool
    winner: int | None


class GroupTable(msgspec.Struct, frozen=True):
    """One metric of groups of runs; ``best`` is the place of the group with the best mean.

    ``differences`` are those of the best group, the nearest first.
    """

    metric: str
    goal: Literal["min", "max"] | None
    rows: list[GroupRow]
    best: int | None
    verdict: str
    differences: list[GroupDifference]
    unfinished: Unfinished


class GroupTables(msgspec.Struct, frozen=True):
    """Groups of runs by ``keys``; ``repeats`` are the keys that repeat an experiment (seeds).

    ``varying`` are the keys that differ between the runs. ``absent`` are metrics that no run has.
    """

    keys: list[str]
    varying: list[str]
    repeats: list[str]
    runs: int
    tables: list[GroupTable]
    absent: list[str]


class ImportanceLevel(msgspec.Struct, frozen=True):
    """Runs with one value of a key, or in a range of values."""

    label: str
    value: Any
    runs: int
    n: int
    nonfinite: int
    mean: float | None
    median: float | None
    std: float | None
    low: float | None
    high: float | None
    min: float | None
    max: float | None


class ImportanceRow(msgspec.Struct, frozen=True):
    """One key of the config: ``score`` is the share of the order of the runs that it explains."""

    key: str
    same_as: list[str]
    numeric: bool
    score: float | None
    share: float | None
    spearman: float | None
    p: float | None
    forest: float | None
    verdict: Literal["matters", "little effect", "no effect seen", "too few runs"]
    best: str | None
    levels: list[ImportanceLevel]


class ImportancePair(msgspec.Struct, frozen=True):
    """The mean of the metric for each pair of levels, row by row; null where there is no run."""

    keys: list[str]
    rows: list[str]
    columns: list[str]
    mean: list[list[float | None]]
    n: list[list[int]]
    nonfinite: list[list[int]]


class ImportanceTable(msgspec.Struct, frozen=True):
    """Which keys matter for a metric, the most important first.

    ``forest_score`` is the out-of-bag R² of the forest; ``has_forest``: one can be requested.
    """

    metric: str
    goal: Literal["min", "max"] | None
    runs: int
    nonfinite: int
    missing: int
    unfinished: Unfinished
    sentence: str
    rows: list[ImportanceRow]
    pair: ImportancePair | None
    forest_score: float | None
    has_forest: bool


def curves_row(
    metric: str,
    x: str,
    grouping: Grouping,
    found: Sequence[GroupSeries],
    columns: Sequence[str] = STATISTICS,
) -> GroupCurves:
    """Curves as a wire type."""
    least = [one.numbers.min[one.numbers.n > 0] for one in found]
    most = [one.numbers.max[one.numbers.n > 0] for one in found]
    lowest, highest = possible_range(
        metric,
        min((float(values.min()) for values in least if values.size), default=None),
        max((float(values.max()) for values in most if values.size), default=None),
    )
    return GroupCurves(
        metric,
        x,
        list(grouping.keys),
        len(grouping.groups),
        lowest,
        highest,
        [_curve(one, columns) for one in found if len(one.numbers)],
        found[0].unfinished if found else ALL_FINISHED,
    )


def _curve(one: GroupSeries, columns: Sequence[str]) -> GroupCurve:
    numbers = one.numbers
    return GroupCurve(
        label=one.group.label,
        values=list(one.group.values),
        members=len(one.group.members),
        missing=one.missing,
        at=numbers.at.tolist(),
        n=numbers.n.tolist(),
        nonfinite=numbers.nonfinite.tolist(),
        ended=numbers.ended.tolist(),
        columns={name: _finite_list(getattr(numbers, name)) for name in columns},
        dropouts=[GroupDropOut(o.run, o.name, o.at, o.why, o.state) for o in one.dropouts],
        runs=[member.run.id for member in one.group.members],
    )


def tables_row(
    grouping: Grouping,
    read: Sequence[tuple[Member, Mapping[str, MemberRead]]],
    metrics: Sequence[str],
    *,
    unfinished: bool = False,
) -> GroupTables:
    """The tables of some metrics; those that no run has are listed as absent."""
    by_run = {member.run.id: one for member, one in read}
    tables, absent = [], []
    for metric in metrics:
        inside = [
            [by_run[member.run.id][metric] for member in group.members] for group in grouping.groups
        ]
        try:
            values = values_of_groups(grouping.groups, inside, metric, unfinished=unfinished)
        except MetricNotFoundError:
            absent.append(metric)
        else:
            tables.append(_table(grouping, values))
    return GroupTables(
        list(grouping.keys),
        list(grouping.varying),
        list(grouping.repeats),
        len(read),
        tables,
        absent,
    )


def _table(grouping: Grouping, values: Sequence[GroupValue]) -> GroupTable:
    from epochal.store.difference import differences, verdict

    best, found = best_index(values), differences(grouping, values)
    return GroupTable(
        metric=values[0].metric,
        goal=values[0].goal,
        rows=[_row(one) for one in values],
        best=best,
        verdict=verdict(grouping, values, found),
        unfinished=values[0].unfinished,
        differences=[
            GroupDifference(
                left=one.left,
                right=one.right,
                difference=one.difference,
                low=finite(one.low),
                high=finite(one.high),
                p=finite(one.p),
                units=one.units,
                paired=one.is_paired,
                winner=one.winner,
            )
            for one in found
        ],
    )


def _row(one: GroupValue) -> GroupRow:
    row = one.numbers.row(0)
    names = ("mean", "median", "std", "se", "low", "high", "min", "max", "q25", "q75")
    return GroupRow(
        label=one.group.label,
        values=list(one.group.values),
        n=int(row["n"]),
        nonfinite=one.count("nonfinite"),
        unfinished=one.count("unfinished"),
        missing=one.count("missing"),
        **{name: finite(row[name]) for name in names},
        members=[GroupMember(m.run, m.name, finite(m.value), m.standing) for m in one.members],
    )


def importance_row(found: Importance) -> ImportanceTable:
    """A ranking as a wire type."""
    from epochal.store.importance import has_forest

    pair = found.interaction
    return ImportanceTable(
        metric=found.metric,
        goal=found.goal,
        runs=found.num_runs,
        nonfinite=found.nonfinite,
        missing=found.missing,
        unfinished=found.unfinished,
        sentence=found.sentence,
        rows=[_parameter(one) for one in found.parameters],
        pair=None
        if pair is None
        else ImportancePair(
            list(pair.keys),
            list(pair.rows),
            list(pair.columns),
            [_finite_list(row) for row in pair.mean],
            pair.n.tolist(),
            pair.nonfinite.tolist(),
        ),
        forest_score=found.forest_score,
        has_forest=has_forest(),
    )


def _parameter(one: Parameter) -> ImportanceRow:
    return ImportanceRow(
        key=one.key,
        same_as=list(one.same_as),
        numeric=one.is_numeric,
        score=finite(one.score),
        share=finite(one.share),
        spearman=finite(one.spearman),
        p=finite(one.p),
        forest=one.forest,
        verdict=one.verdict,
        best=one.best,
        levels=[_level(each) for each in one.levels],
    )


def _level(one: Level) -> ImportanceLevel:
    row = one.numbers.row(0)
    names = ("mean", "median", "std", "low", "high", "min", "max")
    return ImportanceLevel(
        label=one.label,
        value=one.value,
        runs=one.num_runs,
        n=int(row["n"]),
        nonfinite=one.nonfinite,
        **{name: finite(row[name]) for name in names},
    )


def _finite_list(values: NDArray[Any]) -> list[float | None]:
    found: list[float | None] = values.tolist()
    for place in np.flatnonzero(~np.isfinite(values)).tolist():
        found[place] = None
    return found
