"""Groups of runs as Python, the command line and the server ask about them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from epochal.errors import MetricNotFoundError
from epochal.series.aggregate import STATISTICS, Numbers, numbers_at
from epochal.series.series import X, data_frame
from epochal.series.smooth import parse_smoothing
from epochal.series.trend import Goal
from epochal.store.difference import Difference, differences, verdict
from epochal.store.groups import (
    UNCOUNTED,
    Choice,
    Group,
    Grouping,
    GroupSeries,
    GroupValue,
    Member,
    MemberRead,
    MemberValue,
    best_index,
    common_axis,
    group_members,
    group_values,
    members_of,
    read_series,
    series_of_groups,
    values_of_groups,
)
from epochal.store.store import RunView
from epochal.store.unfinished import Unfinished


class GroupRow(Numbers, frozen=True, kw_only=True):
    """One group of a table: the numbers over the members that count, and all members."""

    label: str
    values: tuple[Any, ...]
    nonfinite: int
    unfinished: int
    missing: int
    members: tuple[MemberValue, ...]


class GroupTable(msgspec.Struct, frozen=True):
    """One metric of groups of runs; ``best`` is the place of the group with the best mean.

    ``differences`` are those of the best group, the nearest first.
    """

    metric: str
    goal: Goal | None
    rows: list[GroupRow]
    best: int | None
    verdict: str
    differences: list[Difference]
    unfinished: Unfinished


class GroupTables(msgspec.Struct, frozen=True):
    """Groups of runs by ``keys``; ``repeats`` are the keys that repeat an experiment (seeds).

    ``varying`` are the keys that differ between the runs. ``absent`` are metrics that no run has.
    """

    keys: tuple[str, ...]
    varying: tuple[str, ...]
    repeats: tuple[str, ...]
    runs: int
    tables: list[GroupTable]
    absent: list[str]


class RunGroups:
    """Runs in groups: iterate over the groups, or ask for one metric of all of them."""

    def __init__(self, grouping: Grouping, *, unfinished: bool = False) -> None:
        self.grouping = grouping
        self._unfinished = unfinished

    def __iter__(self) -> Iterator[Group]:
        return iter(self.grouping.groups)

    def __len__(self) -> int:
        return len(self.grouping.groups)

    def __repr__(self) -> str:
        return f"<{len(self)} groups by {', '.join(self.keys) or 'nothing'}>"

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of the config that the runs are grouped by."""
        return self.grouping.keys

    def series(
        self,
        metric: str,
        *,
        x: X = "step",
        points: int | None = None,
        lo: float | None = None,
        hi: float | None = None,
        smooth: str | float | None = None,
    ) -> list[GroupSeries]:
        """The numbers of each group at each step of its members, or at about ``points`` of them.

        ``x`` is as for ``run.series``; ``x`` of the result says which axis the metric has. Members
        on another axis are left out. ``smooth`` (``"ema:0.9"``) smooths each member first. A series
        ends where fewer than half of the members remain. Raises ``MetricNotFoundError`` where no
        run has the metric.
        """
        smoothing = None if smooth is None else parse_smoothing(smooth)
        members = [one for group in self for one in group.members]
        read = {one.run.id: read_series(one.run, metric, x, smoothing) for one in members}
        found = [one for one in read.values() if one is not None]
        axis = common_axis(found, x)
        if axis is None:
            raise MetricNotFoundError(f"no run of these groups has a metric {metric!r}.")
        return series_of_groups(
            self.grouping.groups,
            read,
            metric=found[0].name,
            x=axis,
            unfinished=self._unfinished,
            most=points,
            lo=lo,
            hi=hi,
        )

    def values(
        self, metric: str, *, value: Choice = "last", at: float | None = None
    ) -> list[GroupValue]:
        """What each group came to: the last value of each member, the best, or that at a step.

        Raises ``MetricNotFoundError`` where no run has the metric.
        """
        groups = self.grouping.groups
        return group_values(groups, metric, value=value, at=at, unfinished=self._unfinished)

    def differences(
        self, metric: str, *, value: Choice = "last", at: float | None = None
    ) -> list[Difference]:
        """The best group compared with each other one: difference, interval and test."""
        return differences(self.grouping, self.values(metric, value=value, at=at))

    def verdict(self, metric: str, *, value: Choice = "last", at: float | None = None) -> str:
        """A sentence about the best group, and whether the runs show that it is best."""
        values = self.values(metric, value=value, at=at)
        return verdict(self.grouping, values, differences(self.grouping, values))

    def frame(self, metric: str, *, x: X = "step", points: int | None = None) -> Any:
        """A data frame with one row for each group and step."""
        rows = [row for one in self.series(metric, x=x, points=points) for row in series_rows(one)]
        columns = rows[0] if rows else {}
        return data_frame({name: np.array([row[name] for row in rows]) for name in columns})


def groups_of(
    runs: Iterable[RunView],
    *,
    by: Sequence[str] | None = None,
    by_all_but: Sequence[str] | None = None,
    unfinished: bool = False,
) -> RunGroups:
    """Group runs by keys of their configs, or by every key that differs but some."""
    grouping = group_members(members_of(runs), by=by, all_but=by_all_but)
    return RunGroups(grouping, unfinished=unfinished)


def group_tables(
    grouping: Grouping,
    read: Sequence[tuple[Member, Mapping[str, MemberRead]]],
    metrics: Sequence[str],
    *,
    unfinished: bool = False,
) -> GroupTables:
    """The tables of some metrics, from what was read of each run."""
    by_run = {member.run.id: values for member, values in read}
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
            tables.append(group_table(grouping, values))
    keys = (grouping.keys, grouping.varying, grouping.repeats)
    return GroupTables(*keys, len(read), tables, absent)


def group_table(grouping: Grouping, values: Sequence[GroupValue]) -> GroupTable:
    """What the groups came to, and whether the best one is shown to be better."""
    found = differences(grouping, values)
    rows = [
        GroupRow(
            label=one.group.label,
            values=one.group.values,
            members=one.members,
            **{name: one.count(name) for name in UNCOUNTED},
            **numbers_at(one.numbers, 0),  # type: ignore[arg-type]
        )
        for one in values
    ]
    first, said = values[0], verdict(grouping, values, found)
    return GroupTable(
        first.metric, first.goal, rows, best_index(values), said, found, first.unfinished
    )


def series_rows(one: GroupSeries) -> list[dict[str, Any]]:
    """A table of the numbers at each step."""
    fixed = {"metric": one.metric, **_named(one.group)}
    columns = {name: getattr(one.numbers, name).tolist() for name in STATISTICS}
    members, missing = len(one.group.members), one.missing
    return [
        {
            **fixed,
            one.x: at,
            "members": members,
            "missing": missing,
            **{name: column[index] for name, column in columns.items()},
        }
        for index, at in enumerate(_whole(one.numbers.at.tolist()))
    ]


def value_row(one: GroupValue) -> dict[str, Any]:
    """The numbers of one group in the end."""
    numbers = one.numbers.row(0)
    return {
        "metric": one.metric,
        **_named(one.group),
        "members": len(one.members),
        "n": numbers["n"],
        **{name: one.count(name) for name in UNCOUNTED},
        **{name: numbers[name] for name in STATISTICS if name not in ("n", "nonfinite", "ended")},
    }


def _named(group: Group) -> dict[str, Any]:
    return dict(zip(group.keys, group.values, strict=True))


def _whole(at: Sequence[float]) -> list[float | int]:
    return [int(one) if one.is_integer() else one for one in at]
