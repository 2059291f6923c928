"""Runs in groups by their configs, and one metric of each group: at each step, and in the end.

Everything is computed from rows, series and summaries. So Python, the command line and the server
have the same numbers for every store.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec
import numpy as np

from epochal.errors import FormatError, MetricNotFoundError, UsageError
from epochal.series.aggregate import (
    Aggregate,
    Number,
    Points,
    aggregate,
    aggregate_values,
    positions,
    values_at,
)
from epochal.series.series import Series, X
from epochal.series.smooth import Smoothing
from epochal.series.trend import Goal
from epochal.store.answers import Metric, RunInfo, State
from epochal.store.metrics import in_order, near_names
from epochal.store.store import RunView
from epochal.store.unfinished import Unfinished, unfinished_of
from epochal.values import flat_items

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
    info: RunInfo
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
        if not self.keys:
            return "all runs"
        pairs = zip(self.keys, self.values, strict=True)
        return ", ".join(f"{key}={level_text(value)}" for key, value in pairs)


class Grouping(msgspec.Struct, frozen=True, eq=False):
    """All groups of some runs.

    ``keys`` are what was grouped by, ``varying`` all keys of the config that differ between the
    runs, ``repeats`` those that repeat an experiment, such as the seed.
    """

    keys: tuple[str, ...]
    varying: tuple[str, ...]
    repeats: tuple[str, ...]
    groups: tuple[Group, ...]


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


class MemberValue(msgspec.Struct, frozen=True):
    """What a member came to; ``at`` is the step of its last point."""

    run: str
    name: str
    value: Number | None
    at: float | None
    standing: Standing


class GroupValue(msgspec.Struct, frozen=True, eq=False):
    """What a group came to: ``numbers`` are over the members that count, at one position.

    ``unfinished`` are the unfinished runs of all groups.
    """

    group: Group
    metric: str
    goal: Goal | None
    numbers: Aggregate
    members: tuple[MemberValue, ...]
    unfinished: Unfinished

    def count(self, standing: Standing) -> int:
        """How many members stand like this."""
        return sum(one.standing == standing for one in self.members)


def members_of(runs: Iterable[RunView]) -> list[Member]:
    """Runs with their rows; hidden ones and those that cannot be read are left out."""
    return [member for run in runs if (member := member_of(run)) is not None]


def member_of(run: RunView) -> Member | None:
    """A run with its row; None for one that is hidden or cannot be read."""
    info = run.info
    if info.hidden or info.status.state == "unreadable":
        return None
    return Member(run, info, dict(flat_items(info.config)))


def group_members(
    members: Sequence[Member],
    *,
    by: Sequence[str] | None = None,
    all_but: Sequence[str] | None = None,
) -> Grouping:
    """Group runs by keys of their configs, or by every key that differs but some.

    A key may be the end of a dotted one (``lr`` for ``optim.lr``), and a field of the run such as
    ``project``. Raises ``UsageError`` for a key that no run has.
    """
    if (by is None) == (all_but is None):
        raise UsageError("groups take either keys to group by, or keys to leave out.")
    varying = varying_keys(members)
    if by is not None:
        keys = tuple(dict.fromkeys(full_key(key, members) for key in by))
    else:
        left_out = {full_key(key, members) for key in all_but or ()}
        keys = tuple(key for key in varying if key not in left_out)
    known = dict.fromkeys(key for member in members for key in member.config)
    repeats = repeat_keys([key for key in known if key not in keys], all_but)
    found: dict[tuple[Any, ...], tuple[tuple[Any, ...], list[Member]]] = {}
    for member in members:
        values = tuple(level(member.value(key)) for key in keys)
        found.setdefault(tuple(map(comparable, values)), (values, []))[1].append(member)
    groups = sorted(found.values(), key=lambda one: tuple(map(sort_key, one[0])))
    return Grouping(
        keys,
        varying,
        repeats,
        tuple(Group(keys, values, tuple(inside)) for values, inside in groups),
    )


def varying_keys(members: Sequence[Member]) -> tuple[str, ...]:
    """The keys of the configs that are not the same in all runs, in order of appearance.

    Keys that name the run itself, such as an output folder, are left out.
    """
    keys = dict.fromkeys(key for member in members for key in member.config)
    return tuple(
        key
        for key in keys
        if len({comparable(level(member.config.get(key))) for member in members}) > 1
        and not _is_identity(key, members)
    )


def repeat_keys(free: Sequence[str], all_but: Sequence[str] | None = None) -> tuple[str, ...]:
    """The keys that repeat an experiment: those left out, else those named like a seed."""
    if all_but:
        named = {name.removeprefix("config.") for name in all_but}
        return tuple(key for key in free if key in named or key.rpartition(".")[2] in named)
    return tuple(key for key in free if key.rpartition(".")[2].lower().endswith("seed"))


def full_key(name: str, members: Sequence[Member]) -> str:
    """The key that a name means: itself, or the one key that ends in it."""
    short = name.strip().removeprefix("config.")
    known = dict.fromkeys(key for member in members for key in member.config)
    if short in known or (short in _FIELDS and not name.startswith("config.")):
        return short
    ending = [key for key in known if key.endswith(f".{short}")]
    if len(ending) == 1:
        return ending[0]
    if len(ending) > 1:
        raise UsageError(f"{short!r} may be {' or '.join(ending)}: write the whole key.")
    if not members:
        return short
    hint = near_names(short, [*known, *_FIELDS])
    raise UsageError(f"none of the {len(members)} runs has {short!r} in its config.{hint}")


def level(value: Any) -> Any:
    """A value that can be compared: texts, numbers and None stay, others become text."""
    if isinstance(value, float) and math.isnan(value):
        return "nan"
    return value if value is None or isinstance(value, (str, int, float)) else str(value)


def level_text(value: Any) -> str:
    """A value in words: up to six significant digits of a number."""
    if value is None:
        return "none"
    if isinstance(value, bool) or not isinstance(value, float):
        return str(value)
    return f"{value:.6g}".replace("e-0", "e-").replace("e+0", "e+")


def comparable(value: Any) -> tuple[bool, Any]:
    """What makes two levels equal: 1 and 1.0 are, 1 and True are not."""
    return isinstance(value, bool), value


def sort_key(value: Any) -> tuple[int, Any]:
    """Numbers before texts before None."""
    if value is None:
        return 2, 0
    return (1, value) if isinstance(value, str) else (0, value)


def series_of_groups(
    groups: Sequence[Group],
    series: Mapping[str, Series | None],
    *,
    metric: str,
    x: X,
    unfinished: bool = False,
    **range_: Any,
) -> list[GroupSeries]:
    """The numbers of groups along an axis, from the series of each run, None without one.

    Unfinished runs are left out unless ``unfinished``; ``range_`` are the arguments of ``grid``.
    """
    every = [member for group in groups for member in group.members]
    having = [series[member.run.id] is not None for member in every]
    left = unfinished_of([one.info for one in every], include=unfinished, having=having)
    found = []
    for group in groups:
        members = tuple(one for one in group.members if one.run.id not in left.left_out)
        inside = [series[one.run.id] for one in members]
        at = grid(inside, x=x, **range_)
        kept = Group(group.keys, group.values, members)
        found.append(_group_series(kept, inside, at=at, metric=metric, x=x, unfinished=left))
    return found


def _group_series(
    group: Group,
    series: Sequence[Series | None],
    *,
    at: Any,
    metric: str,
    x: X,
    unfinished: Unfinished,
) -> GroupSeries:
    points = [None if one is None or one.x != x else points_of(one) for one in series]
    known = [one for one in points if one is not None and one.at.size]
    furthest = max((float(one.at[-1]) for one in known), default=0.0)
    found = [
        dropout
        for member, one in zip(group.members, points, strict=True)
        if one is not None and (dropout := _dropout(member, one, furthest)) is not None
    ]
    dropouts = tuple(sorted(found, key=lambda one: (one.at, one.name)))
    numbers = aggregate(known, _with_half(at, dropouts, len(known)), is_even=x in _EVEN)
    missing = len(points) - len(known)
    return GroupSeries(group, metric, x, numbers, dropouts, missing, unfinished)


def _with_half(at: Any, dropouts: Sequence[DropOut], num_members: int) -> Any:
    """The positions at which at least half of the members remain: a mean of few would jump."""
    if 2 * len(dropouts) <= num_members:
        return at
    # The dropout that leaves fewer than half; a member is still there at its last point.
    last = dropouts[num_members // 2]
    return at[at <= last.at] if last.why == "ended" else at[at < last.at]


def read_series(
    run: RunView, name: str, x: X | None = "step", smoothing: Smoothing | None = None
) -> Series | None:
    """The series of a run along an axis, smoothed over its points; None without the metric.

    Without an axis, along the one that the run defined for the metric. A series that cannot be
    converted keeps its own axis.
    """
    metric = run.metric(name)
    if metric is None or not metric.ranks:
        return None
    try:
        own = run.series(metric.name, rank=metric.ranks[0], axis=metric.axis)
    except (MetricNotFoundError, FormatError):  # one run without it does not spoil the others
        return None
    moved = own.reindex(x or metric.x or "step", run)
    return moved if smoothing is None else moved.smoothed(smoothing)


def common_axis(series: Iterable[Series | None], x: X | None) -> X | None:
    """The axis that series have in common: the one asked for if any has it, else the first's."""
    found = dict.fromkeys(one.x for one in series if one is not None)
    return x if x in found else next(iter(found), None)


def points_of(series: Series) -> Points:
    """A series as a member of a group."""
    return Points(series.at.astype(np.float64), series.floats)


def grid(
    series: Iterable[Series | None],
    *,
    x: X = "step",
    most: int | None = None,
    lo: float | None = None,
    hi: float | None = None,
    is_log: bool = False,
) -> Any:
    """The positions that all of these series are aggregated at; see ``aggregate.positions``."""
    points = [points_of(one) for one in series if one is not None and one.x == x]
    return positions(points, most=most, lo=lo, hi=hi, is_log=is_log, is_even=x in _EVEN)


def group_values(
    groups: Sequence[Group],
    name: str,
    *,
    value: Choice = "last",
    at: float | None = None,
    unfinished: bool = False,
) -> list[GroupValue]:
    """What each group came to: one value of each member, and the numbers over them.

    ``value`` is the last one, the best, or another of the summary; ``at`` reads each member at one
    step instead. A member does not count if its value is not finite. An unfinished one counts with
    ``unfinished``, with ``at``, and where no other run has the metric. Raises
    ``MetricNotFoundError``.
    """
    if value not in CHOICES:
        raise UsageError(f"value={value!r} is not known: use one of {', '.join(CHOICES)}.")
    read = [[read_value(one.run, name, value, at) for one in group.members] for group in groups]
    return values_of_groups(groups, read, name, unfinished=unfinished or at is not None)


def values_of_groups(
    groups: Sequence[Group],
    read: Sequence[Sequence[MemberRead]],
    name: str,
    *,
    unfinished: bool = False,
) -> list[GroupValue]:
    """Like ``group_values``, from what was read of the members."""
    every = [one for inside in read for one in inside]
    metric = next((one.metric for one in every if one.metric is not None), None)
    if metric is None:
        raise MetricNotFoundError(f"none of the {len(every)} runs has a metric {name!r}.")
    infos = [member.info for group in groups for member in group.members]
    having = [one.metric is not None for one in every]
    left = unfinished_of(infos, include=unfinished, having=having)
    found = []
    for group, inside in zip(groups, read, strict=True):
        members = tuple(
            MemberValue(
                member.run.id,
                member.info.name,
                one.value,
                one.last_step,
                "unfinished" if member.run.id in left.left_out else _standing(one),
            )
            for member, one in zip(group.members, inside, strict=True)
        )
        counted = [
            one.value for one in members if one.standing == "counted" and one.value is not None
        ]
        numbers = aggregate_values(counted)
        found.append(GroupValue(group, metric.name, metric.goal, numbers, members, left))
    return found


class MemberRead(msgspec.Struct, frozen=True):
    """The value that was read of a member, its metric, and the step of its last point."""

    metric: Metric | None = None
    value: float | None = None
    last_step: float | None = None


def read_value(run: RunView, name: str, value: Choice, at: float | None) -> MemberRead:
    """Read the value of a member."""
    metric = run.metric(name)
    if metric is None or not metric.ranks:
        return MemberRead()
    try:
        if at is not None:
            points = points_of(run.series(metric.name, rank=metric.ranks[0], axis=metric.axis))
            values, is_there = values_at(points, np.array([at]))
            return MemberRead(metric, float(values[0]) if is_there[0] else None, at)
        summary = run.summary(metric.name, rank=metric.ranks[0], axis=metric.axis)
    except (MetricNotFoundError, FormatError):
        return MemberRead()
    if value == "best":
        if metric.goal is None:
            raise UsageError(
                f"whether more or less of {metric.name!r} is better is not known: declare it with"
                " run.define(name, goal='min'), or use value='min' or 'max'."
            )
        best = summary.best(metric.goal)
        # A best value says nothing of a run that turned nan later, but its end is what counts.
        number = None if best is None else best[1]
    else:
        number = getattr(summary, value)
    return MemberRead(metric, number, summary.last_step)


def best_index(values: Sequence[GroupValue]) -> int | None:
    """The group with the best mean; None without a goal, without members that count, or alone."""
    known = [index for index, one in enumerate(values) if one.numbers.n[0]]
    goal = next((one.goal for one in values), None)
    if goal is None or not known or len(values) == 1:
        return None
    chosen = min if goal == "min" else max
    return chosen(known, key=lambda index: float(values[index].numbers.mean[0]))


def default_metrics(members: Sequence[Member]) -> list[str]:
    """The metrics that a table of groups has by itself: those whose goal is known."""
    found = in_order(m for one in members for m in one.run.metrics() if m.axis != "time")
    names = dict.fromkeys(metric.name for metric in found if metric.goal is not None)
    return list(names or dict.fromkeys(metric.name for metric in found[:1]))


def _standing(read: MemberRead) -> Standing:
    if read.metric is None or read.value is None:
        return "missing"
    return "counted" if math.isfinite(read.value) else "nonfinite"


def _dropout(member: Member, points: Points, furthest: float) -> DropOut | None:
    """Where a member leaves: from where on all values are not finite, or its early end."""
    if not points.at.size:
        return None
    state = member.info.status.state
    known = np.flatnonzero(np.isfinite(points.values))
    first_bad = 0 if not known.size else int(known[-1]) + 1
    if first_bad < points.at.size:
        at = float(points.at[first_bad])
        return DropOut(member.run.id, member.info.name, at, "nonfinite", state)
    if points.at[-1] + points.stride < furthest:
        return DropOut(member.run.id, member.info.name, float(points.at[-1]), "ended", state)
    return None


def _is_identity(key: str, members: Sequence[Member]) -> bool:
    """Whether a key names the run itself, as an output folder does."""
    values = [member.config[key] for member in members if key in member.config]
    if not all(isinstance(value, str) for value in values) or len(set(values)) < len(values):
        return False
    is_path = all("/" in value for value in values)
    return is_path or key.rpartition(".")[2].lower() in _IDENTITY
