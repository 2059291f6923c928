"""Runs in groups by their configs, and one metric of each group: at each step, and in the end.

Everything is computed from rows, series and summaries. So Python, the command line and the server
have the same numbers for every store.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec
import numpy as np

from epochal.compare.difference import FEWEST, Difference, Units, differences
from epochal.errors import FormatError, MetricNotFoundError, UsageError
from epochal.journal.metrics import Metric
from epochal.journal.row import RunRow, State
from epochal.records.format import format_number
from epochal.records.values import flat_items
from epochal.series.aggregate import (
    STATISTICS,
    Aggregate,
    Number,
    Numbers,
    aggregate,
    numbers_of,
    positions,
    stride,
    values_at,
)
from epochal.series.series import Series, X, data_frame
from epochal.series.smooth import Smoothing, parse_smoothing
from epochal.series.trend import Goal
from epochal.store.brief import read_series
from epochal.store.comparison import Unfinished, unfinished_of
from epochal.store.lookup import near_names
from epochal.store.metrics import by_importance, level, no_metric
from epochal.store.run import RunView

Choice = Literal["last", "best", "min", "max", "mean"]
CHOICES: tuple[Choice, ...] = ("last", "best", "min", "max", "mean")
# How a member stands for the value of its group; only those that count are in the numbers.
Standing = Literal["counted", "nonfinite", "unfinished", "missing"]
UNCOUNTED: tuple[Standing, ...] = ("nonfinite", "unfinished", "missing")

_FIELDS = ("project", "group", "job_type", "owner", "status", "name")
# Keys of these names differ in every run and are no hyperparameters.
_IDENTITY = frozenset("name run_name dir output_dir out_dir log_dir path id run_id".split())
_EVEN = ("step", "epoch")


class Member(msgspec.Struct, frozen=True, eq=False):
    """A run in a group: its row, and its config with dotted keys."""

    run: RunView
    info: RunRow
    config: Mapping[str, Any]

    def value(self, key: str) -> Any:
        """The value of a key: of the config, else a field of the row; None without one."""
        if key in self.config:
            return self.config[key]
        if key in _FIELDS:
            return self.info.status.state if key == "status" else getattr(self.info, key)
        return None


class Group(msgspec.Struct, frozen=True, eq=False):
    """Runs with equal values of some keys."""

    keys: tuple[str, ...]
    values: tuple[Any, ...]
    members: tuple[Member, ...]

    @property
    def label(self) -> str:
        """The group in words: ``lr=0.001, model=b``."""
        pairs = zip(self.keys, self.values, strict=True)
        return ", ".join(f"{key}={level_text(value)}" for key, value in pairs) or "all runs"


class RunGroups(msgspec.Struct, frozen=True, eq=False):
    """Runs in groups: iterate over the groups, or ask for one metric of all of them.

    ``keys`` are what was grouped by, ``varying`` all keys of the config that differ between the
    runs, ``repeats`` those that repeat an experiment, such as the seed. Unfinished runs count with
    ``unfinished``.
    """

    keys: tuple[str, ...]
    varying: tuple[str, ...]
    repeats: tuple[str, ...]
    groups: tuple[Group, ...]
    unfinished: bool = False

    @property
    def members(self) -> list[Member]:
        """The runs of all groups."""
        return [member for group in self.groups for member in group.members]

    def __iter__(self) -> Iterator[Group]:
        return iter(self.groups)

    def __len__(self) -> int:
        return len(self.groups)

    def __repr__(self) -> str:
        return f"<{len(self)} groups by {', '.join(self.keys) or 'nothing'}>"

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
        members = self.members
        series = {one.info.id: series_or_none(one.run, metric, x, smoothing) for one in members}
        name = next((one.name for one in series.values() if one is not None), None)
        if name is None:
            raise no_metric(metric, *((one.info.name, one.run.metrics()) for one in members))
        keep, range_ = self.unfinished, {"most": points, "lo": lo, "hi": hi}
        return series_of_groups(self.groups, series, metric=name, x=x, unfinished=keep, **range_)

    def table(self, metric: str, *, value: Choice = "last", at: float | None = None) -> GroupTable:
        """The last value of each run, the best, or that at a step; and which group is best.

        ``verdict`` of the result says in a sentence whether the runs show that. Raises
        ``MetricNotFoundError`` where no run has the metric.
        """
        members = self.members
        values = read_values(members, metric, value=value, at=at, unfinished=self.unfinished)
        return group_table(self, values)

    def tables(
        self, metrics: Sequence[str], *, value: Choice = "last", at: float | None = None
    ) -> GroupTables:
        """The tables of some metrics; those that no run has are ``absent``."""
        tables, absent = list[GroupTable](), list[str]()
        for metric in metrics:
            try:
                tables.append(self.table(metric, value=value, at=at))
            except MetricNotFoundError:
                absent.append(metric)
        named = (self.keys, self.varying, self.repeats)
        return GroupTables(*named, len(self.members), tables, absent)

    def frame(self, metric: str, *, x: X = "step", points: int | None = None) -> Any:
        """A data frame with one row for each group and step."""
        rows = [row for one in self.series(metric, x=x, points=points) for row in series_rows(one)]
        columns = rows[0] if rows else {}
        return data_frame({name: np.array([row[name] for row in rows]) for name in columns})


class DropOut(msgspec.Struct, frozen=True):
    """Where a member leaves the numbers of its group: its last point, or where it turned nan."""

    run: str
    name: str
    at: float
    why: Literal["ended", "nonfinite"]
    state: State


class GroupSeries(msgspec.Struct, frozen=True, eq=False):
    """One metric of a group at each step, as long as half of the members remain.

    ``group`` has only the members that count, ``missing`` of them have no such metric.
    ``unfinished`` are those of all groups.
    """

    group: Group
    metric: str
    x: X
    numbers: Aggregate
    dropouts: tuple[DropOut, ...]
    missing: int
    unfinished: Unfinished


class MemberRead(msgspec.Struct, frozen=True):
    """The value that was read of a run, its metric, and the step of its last point."""

    metric: Metric | None = None
    value: float | None = None
    last_step: float | None = None


class MemberValue(msgspec.Struct, frozen=True):
    """The value of a run; ``at`` is the step of its last point."""

    run: str
    name: str
    value: Number | None
    at: float | None
    standing: Standing


class RunValues(msgspec.Struct, frozen=True, eq=False):
    """One metric of several runs: a value of each, and which runs have not finished."""

    metric: str
    goal: Goal | None
    members: Sequence[Member]
    values: Sequence[MemberValue]
    unfinished: Unfinished

    def counted(self) -> dict[str, float]:
        """The values that count, by the ids of their runs."""
        return {
            one.run: one.value
            for one in self.values
            if one.standing == "counted" and one.value is not None
        }


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

    def records(self, keys: Sequence[str]) -> list[dict[str, Any]]:
        """One mapping per group: the values of its keys, then its numbers."""
        names = ("n", *UNCOUNTED, *Numbers.__struct_fields__[1:])
        return [
            {
                "metric": self.metric,
                **dict(zip(keys, row.values, strict=True)),
                "members": len(row.members),
                **{name: getattr(row, name) for name in names},
            }
            for row in self.rows
        ]


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


# -- groups ---------------------------------------------------------------------------------------


def members_of(runs: Iterable[RunView]) -> list[Member]:
    """Runs with their rows; hidden ones and those that cannot be read are left out."""
    return [
        Member(run, info, dict(flat_items(info.config)))
        for run, info in ((run, run.info) for run in runs)
        if not info.hidden and info.status.state != "unreadable"
    ]


def group_members(
    members: Sequence[Member],
    *,
    by: Sequence[str] | None = None,
    all_but: Sequence[str] | None = None,
    unfinished: bool = False,
) -> RunGroups:
    """Group runs by keys of their configs, or by every key that differs but some.

    A key may be the end of a dotted one (``lr`` for ``optim.lr``), and a field of the run such as
    ``project``. Raises ``UsageError`` for a key that no run has.
    """
    if (by is None) == (all_but is None):
        raise UsageError("groups take either keys to group by, or keys to leave out.")
    varying = varying_keys(members)
    named = {_full_key(key, members): None for key in by or all_but or ()}
    keys = tuple(named) if by is not None else tuple(key for key in varying if key not in named)
    known = dict.fromkeys(key for member in members for key in member.config)
    repeats = repeat_keys([key for key in known if key not in keys], all_but)
    found: dict[Hashable, list[Member]] = {}
    for member in members:
        found.setdefault(tuple(comparable(member.value(key)) for key in keys), []).append(member)
    groups = [
        Group(keys, tuple(level(inside[0].value(key)) for key in keys), tuple(inside))
        for inside in found.values()
    ]
    groups.sort(key=lambda one: tuple(map(sort_key, one.values)))
    return RunGroups(keys, varying, repeats, tuple(groups), unfinished)


def varying_keys(members: Sequence[Member]) -> tuple[str, ...]:
    """The keys of the configs that are not the same in all runs, in order of appearance.

    Keys that name the run itself, such as an output folder, are left out.
    """
    keys = dict.fromkeys(key for member in members for key in member.config)
    return tuple(
        key
        for key in keys
        if len({comparable(member.config.get(key)) for member in members}) > 1
        and not _is_identity(key, [one.config[key] for one in members if key in one.config])
    )


def _is_identity(key: str, values: Sequence[Any]) -> bool:
    """Whether a key names the run itself, as an output folder does."""
    if not all(isinstance(value, str) for value in values) or len(set(values)) < len(values):
        return False
    return all("/" in value for value in values) or key.rpartition(".")[2].lower() in _IDENTITY


def repeat_keys(free: Sequence[str], all_but: Sequence[str] | None = None) -> tuple[str, ...]:
    """The keys that repeat an experiment: those left out, else those named like a seed."""
    if all_but:
        named = {name.removeprefix("config.") for name in all_but}
        return tuple(key for key in free if key in named or key.rpartition(".")[2] in named)
    return tuple(key for key in free if key.lower().endswith("seed"))


def _full_key(name: str, members: Sequence[Member]) -> str:
    """The key that a name means: itself, or the one key that ends in it."""
    short = name.strip().removeprefix("config.")
    known = dict.fromkeys(key for member in members for key in member.config)
    if short in known or (short in _FIELDS and not name.startswith("config.")) or not members:
        return short
    ending = [key for key in known if key.endswith(f".{short}")]
    if len(ending) == 1:
        return ending[0]
    if len(ending) > 1:
        raise UsageError(f"{short!r} may be {' or '.join(ending)}: write the whole key.")
    hint = near_names(short, [*known, *_FIELDS])
    raise UsageError(f"none of the {len(members)} runs has {short!r} in its config.{hint}")


def level_text(value: Any, *, digits: int = 6) -> str:
    """A value in words, with at most so many significant digits of a number."""
    if value is None:
        return "none"
    if not isinstance(value, float):
        return str(value)
    return f"{value:.{digits}g}".replace("e-0", "e-").replace("e+0", "e+")


def comparable(value: Any) -> tuple[bool, Any]:
    """What makes two values equal: 1 and 1.0 are, 1 and True are not."""
    return isinstance(value, bool), level(value)


def sort_key(value: Any) -> tuple[int, Any]:
    """Numbers before texts before None."""
    if value is None:
        return 2, 0
    return (1, value) if isinstance(value, str) else (0, value)


# -- along an axis --------------------------------------------------------------------------------


def series_or_none(
    run: RunView, name: str, x: X | None = "step", smoothing: Smoothing | None = None
) -> Series | None:
    """The series of a run along an axis, smoothed over its points; None without the metric.

    Without an axis, along the one that the run defined for the metric. A series that cannot be
    converted keeps its own axis.
    """
    try:
        series = read_series(run, name, x=x)
    except (MetricNotFoundError, FormatError):  # one run without it does not spoil the others
        return None
    return series if smoothing is None else series.smoothed(smoothing)


def common_axis(series: Iterable[Series | None], x: X | None) -> X:
    """The axis that series have in common: the one asked for if any has it, else the first's."""
    found = dict.fromkeys(one.x for one in series if one is not None)
    return x if x in found else next(iter(found), x or "step")


def series_of_groups(
    groups: Sequence[Group],
    series: Mapping[str, Series | None],
    *,
    metric: str,
    x: X | None,
    unfinished: bool = False,
    **range_: Any,
) -> list[GroupSeries]:
    """The numbers of groups along an axis, from the series of each run, None without one.

    Unfinished runs are left out unless ``unfinished``; ``range_`` are arguments of ``positions``.
    """
    axis = common_axis(series.values(), x)
    every = [member.info for group in groups for member in group.members]
    having = [series[one.id] is not None for one in every]
    left = unfinished_of(every, include=unfinished, having=having)
    found = []
    for group in groups:
        members = tuple(one for one in group.members if one.info.id not in left.left_out)
        inside = [(one.info, series[one.info.id]) for one in members]
        known = [(i, one) for i, one in inside if one is not None and one.x == axis and len(one)]
        curves = [one for _, one in known]
        furthest = max((float(one.at[-1]) for one in curves), default=0.0)
        gone = filter(None, (_dropout(info, one, furthest) for info, one in known))
        dropouts = tuple(sorted(gone, key=lambda one: (one.at, one.name)))
        at = positions(curves, is_even=axis in _EVEN, **range_)
        if 2 * len(dropouts) > len(curves):
            # A mean of few would jump. A member is still there at its last point.
            last = dropouts[len(curves) // 2]
            at = at[at <= last.at] if last.why == "ended" else at[at < last.at]
        numbers = aggregate(curves, at, is_even=axis in _EVEN)
        kept, missing = Group(group.keys, group.values, members), len(members) - len(curves)
        found.append(GroupSeries(kept, metric, axis, numbers, dropouts, missing, left))
    return found


def _dropout(info: RunRow, series: Series, furthest: float) -> DropOut | None:
    """Where a member leaves: from where on all values are not finite, or its early end."""
    known = np.flatnonzero(np.isfinite(series.floats))
    first_bad = int(known[-1]) + 1 if known.size else 0
    if first_bad < len(series):
        at = float(series.at[first_bad])
        return DropOut(info.id, info.name, at, "nonfinite", info.status.state)
    if series.at[-1] + stride(series) < furthest:
        return DropOut(info.id, info.name, float(series.at[-1]), "ended", info.status.state)
    return None


def series_rows(one: GroupSeries) -> list[dict[str, Any]]:
    """A table of the numbers at each step."""
    fixed = {"metric": one.metric, **dict(zip(one.group.keys, one.group.values, strict=True))}
    counts = {"members": len(one.group.members), "missing": one.missing}
    columns = [getattr(one.numbers, name).tolist() for name in STATISTICS]
    return [
        {
            **fixed,
            one.x: int(at) if at.is_integer() else at,
            **counts,
            **dict(zip(STATISTICS, row, strict=True)),
        }
        for at, *row in zip(one.numbers.at.tolist(), *columns, strict=True)
    ]


# -- in the end -----------------------------------------------------------------------------------


def read_value(run: RunView, name: str, value: Choice, at: float | None) -> MemberRead:
    """Read the value of a run: of its summary, or at a step."""
    metric = run.metric(name)
    if metric is None or not metric.ranks:
        return MemberRead()
    try:
        if at is not None:
            series = run.series(metric.name, rank=metric.ranks[0], axis=metric.axis)
            values, is_there = values_at(series, np.array([at]))
            return MemberRead(metric, float(values[0]) if is_there[0] else None, at)
        summary = run.summary(metric.name, rank=metric.ranks[0], axis=metric.axis)
    except (MetricNotFoundError, FormatError):
        return MemberRead()
    if value != "best":
        return MemberRead(metric, getattr(summary, value), summary.last_step)
    if metric.goal is None:
        raise UsageError(
            f"whether more or less of {metric.name!r} is better is not known: declare it with"
            " run.define(name, goal='min'), or use value='min' or 'max'."
        )
    best = summary.best(metric.goal)
    return MemberRead(metric, None if best is None else best[1], summary.last_step)


def read_values(
    members: Sequence[Member],
    name: str,
    *,
    value: Choice = "last",
    at: float | None = None,
    unfinished: bool = False,
) -> RunValues:
    """One value of each run: the last one, the best, or another of the summary; or at one step.

    A run does not count if its value is not finite. An unfinished one counts with ``unfinished``,
    with ``at``, and where no other run has the metric. Raises ``MetricNotFoundError``.
    """
    if value not in CHOICES:
        raise UsageError(f"value={value!r} is not known: use one of {', '.join(CHOICES)}.")
    unfinished = unfinished or at is not None
    read = [read_value(one.run, name, value, at) for one in members]
    metric = next((one.metric for one in read if one.metric is not None), None)
    if metric is None:
        raise no_metric(name, *((one.info.name, one.run.metrics()) for one in members))
    having = [one.metric is not None for one in read]
    left = unfinished_of([one.info for one in members], include=unfinished, having=having)

    def standing(info: RunRow, value: float | None) -> Standing:
        if info.id in left.left_out:
            return "unfinished"
        if value is None:
            return "missing"
        return "counted" if math.isfinite(value) else "nonfinite"

    values = [
        MemberValue(i.id, i.name, one.value, one.last_step, standing(i, one.value))
        for i, one in zip((member.info for member in members), read, strict=True)
    ]
    return RunValues(metric.name, metric.goal, members, values, left)


def group_table(grouping: RunGroups, values: RunValues) -> GroupTable:
    """The numbers of each group, and whether the best one is shown to be better."""
    by_run = {one.run: one for one in values.values}
    counted = values.counted()
    rows = []
    for group in grouping.groups:
        members = tuple(by_run[one.info.id] for one in group.members)
        counts = {name: sum(one.standing == name for one in members) for name in UNCOUNTED}
        numbers = numbers_of([counted[one.run] for one in members if one.run in counted])
        rows.append(
            GroupRow(label=group.label, values=group.values, members=members, **counts, **numbers)
        )
    having = [index for index, row in enumerate(rows) if row.n]
    best, found = None, []
    units = [_units_of(grouping, group, counted) for group in grouping.groups]
    if values.goal is not None and having and len(rows) > 1:
        choose = min if values.goal == "min" else max
        best = choose(having, key=lambda index: rows[index].mean)
        found = differences(units, best, values.goal)
    table = GroupTable(values.metric, values.goal, rows, best, "", found, values.unfinished)
    if grouping.keys:
        verdict = _verdict(table, len(units[best or 0]), _unit_word(grouping))
    else:
        verdict = _best_run(values, grouping.repeats)
    return msgspec.structs.replace(table, verdict=verdict)


def default_metrics(members: Sequence[Member]) -> list[str]:
    """The metrics that a table of groups has by itself: those whose goal is known."""
    found = by_importance(m for one in members for m in one.run.metrics() if m.axis != "time")
    names = dict.fromkeys(metric.name for metric in found if metric.goal is not None)
    return list(names or dict.fromkeys(metric.name for metric in found[:1]))


def _units_of(grouping: RunGroups, group: Group, counted: Mapping[str, float]) -> Units:
    """The counted values of a group by unit and rest; repetitions of both are averaged."""
    used = (*grouping.keys, *grouping.repeats)
    rest = [key for key in grouping.varying if key not in used]
    cells: dict[Hashable, dict[Hashable, list[float]]] = {}
    for member in group.members:
        if member.info.id not in counted:
            continue
        repeat = tuple(comparable(member.value(key)) for key in grouping.repeats)
        other = tuple(comparable(member.value(key)) for key in rest)
        # Without a seed each run is a unit; other keys tell which runs belong together.
        unit: Hashable = repeat or other or member.info.id
        cells.setdefault(unit, {}).setdefault(other, []).append(counted[member.info.id])
    return {
        unit: {other: math.fsum(found) / len(found) for other, found in inside.items()}
        for unit, inside in cells.items()
    }


def _unit_word(grouping: RunGroups) -> str:
    if len(grouping.repeats) != 1:
        return "repeats" if grouping.repeats else "runs"
    return grouping.repeats[0].rpartition(".")[2].removesuffix("s") + "s"


def _verdict(table: GroupTable, num_units: int, word: str) -> str:
    """One sentence about the best group: whether it is best, and how far the next one is."""
    metric, rows, found = table.metric, table.rows, table.differences
    row = rows[table.best or 0]
    if not any(each.n for each in rows):
        return f"No run that counts has a finite {metric}."
    if len(rows) == 1:
        return f"{row.label} is the only group: its mean {metric} is {format_number(row.mean)}."
    if table.best is None:
        return f"No group is best, because the goal of {metric} is not known."
    # The mean as the table has it: ``2.0900 ± 0.0100 (95 %) over 3 seeds``.
    half = (row.high - row.low) / 2
    spread = "" if math.isnan(half) else f" ± {format_number(half)} (95 %)"
    over = f"{num_units} {word if num_units != 1 else word.removesuffix('s')}"
    over = over if row.n == num_units else f"{row.n} runs ({over})"
    what = f"{metric} {format_number(row.mean)}{spread} over {over}"
    start = f"{row.label} has the best mean, {what}"
    if num_units < FEWEST:
        return (
            f"{start}, but it takes at least {FEWEST} {word} to tell whether it is the best group."
        )
    if not found:
        return f"{start}; no other group is compared with it."
    unclear = [each for each in found if each.winner is None]
    nearest = (unclear or found)[0]
    label, gap = rows[nearest.right].label, _gap_text(nearest, table.goal, word)
    if not unclear:
        who = label if len(found) == 1 else f"the next, {label},"
        return f"{row.label} is best: {what}; {who} {gap}."
    if len(unclear) == 1:
        return f"{start}, but {label} may be as good: it {gap}."
    share = f"all {len(found)}" if len(unclear) == len(found) else f"{len(unclear)} of {len(found)}"
    return f"{start}, but {share} other groups may be as good; the nearest, {label}, {gap}."


def _best_run(values: RunValues, repeats: Sequence[str]) -> str:
    """The best of runs that are not grouped, how far the next one is, and that it may be chance."""
    metric, goal = values.metric, values.goal
    names = {one.run: one.name for one in values.values}
    runs = [(value, names[run]) for run, value in values.counted().items()]
    if not runs:
        return f"No run that counts has a finite {metric}."
    if goal is not None:
        runs.sort(key=lambda one: one[0], reverse=goal == "max")
    first, best = runs[0]
    if len(runs) == 1:
        what = "finished run" if values.unfinished.left_out else "run to compare"
        return f"{best} is the only {what}: its {metric} is {format_number(first)}."
    if goal is None:
        return f"No run is best, because the goal of {metric} is not known."
    second, following = runs[1]
    gap = abs(second - first)
    how_far = f"is {format_number(gap)} worse" if gap else "has the same value"
    found = f"{best} is best: {metric} {format_number(first)}; the next, {following}, {how_far}."
    if not repeats:
        return found
    chance = "These runs are not grouped, so chance is not ruled out"
    return f"{found} {chance}: group them by everything but {' and '.join(repeats)}."


def _gap_text(one: Difference, goal: Goal | None, word: str) -> str:
    """How far the other group is: ``is 0.1300 worse on the same seeds (p = 0.004)``."""
    on = f" on the same {word}" if one.is_paired else ""
    if one.difference == 0:
        return f"has the same mean{on}"
    if math.isnan(one.low) and one.winner is None:
        return "varies too much between its runs to tell"
    by = format_number(abs(one.difference))
    if (one.difference < 0) != (goal == "min"):
        return f"is {by} better{on}"
    return f"is {by} worse{on} ({'p < 0.001' if one.p < 0.001 else f'p = {one.p:.2g}'})"
