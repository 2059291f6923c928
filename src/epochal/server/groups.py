"""Endpoints that compare many runs: groups, their curves, important keys, and why a run is worse.

The answers are those of the store: ``groups``, ``importance`` and ``why``. Runs are read
some at a time, so that a slow one delays no other request, and compared afterwards.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec
import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from epochal.errors import EpochalError, MetricNotFoundError, RunNotFoundError, UsageError
from epochal.series.aggregate import STATISTICS, Number
from epochal.series.formula import parse_formula
from epochal.series.goals import possible_range
from epochal.series.series import Series
from epochal.series.smooth import parse_smoothing
from epochal.server.params import (
    bool_param,
    choice_param,
    float_param,
    int_param,
    required_param,
    str_param,
    str_params,
)
from epochal.server.responses import json_response
from epochal.server.state import ServerState, server_state
from epochal.store.answers import Metric
from epochal.store.facts import RunFacts, common_metric, read_facts
from epochal.store.groups import (
    CHOICES,
    Choice,
    DropOut,
    Group,
    Grouping,
    GroupSeries,
    GroupTables,
    Member,
    MemberRead,
    common_axis,
    group_members,
    group_tables,
    member_of,
    read_value,
    run_values,
    series_of_groups,
    series_or_none,
)
from epochal.store.importance import Importance, importance_of
from epochal.store.metrics import no_metric
from epochal.store.store import RunView
from epochal.store.unfinished import ALL_FINISHED, Unfinished
from epochal.store.why import MOST_WITH_FINDINGS, Project, explain, find_others, learn

T = TypeVar("T")

MAX_RUNS = 5000
# More lines than this say nothing in a chart.
MAX_CURVES = 100
_AGAIN_S = 0.2
_LONGEST_WAIT_S = 60.0

METRIC = required_param("metric", most=1)
METRICS = required_param("metric", most=16)
RUNS = str_params("run", most=MAX_RUNS, note="default: all")
QUERY = str_param("query")
BY = str_params("by", most=16, note="keys")
ALL_BUT = str_params("all_but", most=16, note="keys")
X = str_param("x", note="as for series")
LO = float_param("lo")
HI = float_param("hi")
POINTS = int_param("points", default=300, most=20_000, note="300; 0: every step")
SMOOTH = str_param("smooth", note="of each member, as for series")
IS_LOG = bool_param("log", note="1: spread over a log axis")
COLUMNS = str_params("column", most=16, note="default: all")
VALUE = choice_param("value", CHOICES, typescript='"last" | "best" | "min" | "max" | "mean"')
AT = float_param("at")
PAIR = str_params("pair", most=2, note="two keys")
UNFINISHED = bool_param("unfinished", note="1: include unfinished runs")
WHY_RUNS = required_param("run", most=2)
WHY_METRIC = str_param("metric", note="default: the evaluation loss, else the loss")
AGAINST = str_param("against", note="a query; with one run. Default: its group or project")


class GroupCurve(msgspec.Struct, frozen=True):
    """One group along an axis, as long as half of its members remain: columns of equal length.

    ``n`` of ``members`` have a finite value at each position, ``nonfinite`` have nan or infinity,
    ``ended`` ended before; ``missing`` never logged the metric. ``columns`` has the requested
    numbers by name, null where too few members have a value. Unfinished runs that are left out are
    no members.
    """

    label: str
    values: tuple[Any, ...]
    members: int
    missing: int
    at: list[float]
    n: list[int]
    nonfinite: list[int]
    ended: list[int]
    columns: dict[str, list[Number]]
    dropouts: tuple[DropOut, ...]
    runs: list[str]


class GroupCurves(msgspec.Struct, frozen=True):
    """One metric of groups of runs; ``lowest`` and ``highest`` bound what the metric can be.

    ``groups`` counts all groups; beyond 100 only the largest have curves.
    """

    metric: str
    x: str
    keys: tuple[str, ...]
    groups: int
    lowest: float | None
    highest: float | None
    curves: list[GroupCurve]
    unfinished: Unfinished


async def group_curves(request: Request) -> Response:
    """``/api/group_curves``: one metric of groups of runs at positions along an axis."""
    (metric,) = METRIC(request)
    asked_x, smooth, is_log = X(request), SMOOTH(request), IS_LOG(request)
    lo, hi, points = _range(request)
    smoothing = None if smooth is None else parse_smoothing(smooth)
    columns = COLUMNS(request) or STATISTICS
    if unknown := [one for one in columns if one not in STATISTICS]:
        raise UsageError(f"column={unknown[0]!r} is not known: use {', '.join(STATISTICS)}.")
    keys, unfinished = _keys(request), UNFINISHED(request)
    reader = server_state(request).reader

    def put_together(read: list[tuple[Member, Series | None]]) -> GroupCurves:
        grouping = group_members([member for member, _ in read], **keys)
        series = {member.run.id: one for member, one in read}
        if parse_formula(metric) is not None and all(one is None for one in series.values()):
            raise no_metric(metric, *((one.info.name, one.run.metrics()) for one, _ in read))
        x = common_axis(series.values(), asked_x)
        found = series_of_groups(
            _largest(grouping.groups),
            series,
            metric=metric,
            x=x,
            unfinished=unfinished,
            most=points or None,
            lo=lo,
            hi=hi,
            is_log=is_log,
        )
        return _curves(metric, x, grouping, found, columns)

    read = await _read(request, lambda run: series_or_none(run, metric, asked_x, smoothing))
    return await json_response(request, await reader.call(lambda: put_together(read)))


async def groups(request: Request) -> Response:
    """``/api/groups``: what groups of runs came to, and whether the best is shown to be better."""
    metrics, value, at = METRICS(request), VALUE(request) or "last", AT(request)
    keys, unfinished = _keys(request), UNFINISHED(request) or at is not None
    read = await _read_values(request, metrics, value, at)

    def put_together() -> GroupTables:
        grouping = group_members([member for member, _ in read], **keys)
        return group_tables(grouping, read, metrics, unfinished=unfinished)

    reader = server_state(request).reader
    return await json_response(request, await reader.call(put_together))


async def importance(request: Request) -> Response:
    """``/api/importance``: which keys of the config a metric depends on."""
    (metric,) = METRIC(request)
    value, at, pair = VALUE(request) or "last", AT(request), PAIR(request)
    unfinished = UNFINISHED(request) or at is not None
    read = await _read_values(request, [metric], value, at)

    def put_together() -> Importance:
        inside = [(member, one[metric]) for member, one in read]
        return importance_of(run_values(inside, metric, unfinished=unfinished), pair=pair)

    reader = server_state(request).reader
    return await json_response(request, await reader.call(put_together))


async def why(request: Request) -> Response:
    """``/api/why``: two runs, or one against a query or its group."""
    ids, metric, against = WHY_RUNS(request), WHY_METRIC(request), AGAINST(request)
    if len(ids) == 2 and against is not None:
        raise UsageError("against= takes one run=.")
    reader = server_state(request).reader

    def around() -> tuple[list[str], Unfinished, list[str]]:
        """The ids of the other runs, the unfinished ones, and the ids of runs to learn from."""
        reader.catalog.refresh()
        own = reader.catalog.find(ids[0])
        if own is None:
            raise RunNotFoundError(f"there is no run with the id {ids[0]!r}.")
        include = UNFINISHED(request)
        others, left, project = find_others(
            reader.catalog, own.outline(), against, unfinished=include
        )
        if len(ids) == 2:
            others, left = [one for one in ids[1:] if one != ids[0]], ALL_FINISHED
        return others, left, project

    others, unfinished, project = await reader.query(around)
    compared = [ids[0], *others]
    if len(compared) < 2:
        raise UsageError("there is no other run to compare with.")
    metrics = [await reader.query_run(one, _metrics) for one in compared]
    name = common_metric(metrics, metric)

    async def read(place: int, run_id: str) -> RunFacts:
        few = place <= MOST_WITH_FINDINGS
        return await reader.query_run(run_id, lambda run: read_facts(run, name, with_findings=few))

    facts = await asyncio.gather(*(read(*one) for one in enumerate(compared)))
    learnt = await _learn(request, project, name)
    found = await reader.call(lambda: explain(facts[0], facts[1:], learnt, unfinished))
    return await json_response(request, found)


def _metrics(run: RunView) -> list[Metric]:
    return list(run.metrics())


async def _learn(request: Request, project: Sequence[str], metric: str) -> Project:
    read = await read_runs(request, project, lambda run: read_value(run, metric, "last", None))

    def put_together() -> Project:
        try:
            return learn(run_values(read, metric))
        except MetricNotFoundError:
            return Project()

    return await server_state(request).reader.call(put_together)


async def _read_values(
    request: Request, metrics: Sequence[str], value: Choice, at: float | None
) -> list[tuple[Member, dict[str, MemberRead]]]:
    return await _read(
        request, lambda run: {name: read_value(run, name, value, at) for name in metrics}
    )


async def _read(request: Request, query: Callable[[RunView], T]) -> list[tuple[Member, T]]:
    """Each requested run with its row and the result of a query; without those that are hidden."""
    run_ids, text = RUNS(request), QUERY(request)
    ids = list(run_ids) if run_ids and not text else await chosen_runs(request, text)
    if run_ids and text:
        among = set(run_ids)
        ids = [one for one in ids if one in among]
    if len(ids) > MAX_RUNS:
        raise UsageError(
            f"{len(ids):,} runs are too many to put together at once: filter the list to"
            f" {MAX_RUNS:,}, or use 'epochal compare' with --group-by or --importance."
        )
    found = await read_runs(request, ids, query)
    if not found:
        raise RunNotFoundError("there is no run to group.")
    return found


async def chosen_runs(request: Request, text: str | None) -> list[str]:
    """The ids of the runs that a query chooses, as soon as all of them can be judged."""
    state = server_state(request)
    until = time.monotonic() + _LONGEST_WAIT_S
    async with state.reader.choosing:  # one at a time looks how far the background has read
        while True:
            call = partial(_chosen, state, text, time.monotonic() > until)
            found = await state.reader.query(call)
            if found is not None:
                return found
            await asyncio.sleep(_AGAIN_S)


def _chosen(state: ServerState, text: str | None, is_late: bool) -> list[str] | None:
    """The ids of the runs that a query chooses.

    None while some of them cannot be judged, because they are still read in the background.
    """
    catalog = state.reader.catalog
    catalog.refresh_list(is_followed=state.streams.num_streams > 0)
    known = catalog.known_runs(text or None)
    if known.unread and not is_late:
        return None
    return [run.id for run in (catalog.runs(text or None) if known.pending else known.runs)]


async def read_runs(
    request: Request, ids: Sequence[str], query: Callable[[RunView], T]
) -> list[tuple[Member, T]]:
    """Runs with their rows and the result of a query; without those that are hidden or gone."""
    reader = server_state(request).reader

    def read_one(run: RunView) -> tuple[Member, T] | None:
        member = member_of(run)
        return None if member is None else (member, query(run))

    found = await reader.query_runs(ids, read_one)
    return [one for one in found if one is not None and not isinstance(one, EpochalError)]


def _curves(
    metric: str, x: str, grouping: Grouping, found: Sequence[GroupSeries], columns: Sequence[str]
) -> GroupCurves:
    known = [one.numbers for one in found if one.numbers.n.any()]
    lowest, highest = possible_range(
        metric,
        min((float(np.nanmin(one.min)) for one in known), default=None),
        max((float(np.nanmax(one.max)) for one in known), default=None),
    )
    curves = [_curve(one, columns) for one in found if len(one.numbers)]
    unfinished = found[0].unfinished if found else ALL_FINISHED
    return GroupCurves(
        metric, x, grouping.keys, len(grouping.groups), lowest, highest, curves, unfinished
    )


def _curve(one: GroupSeries, columns: Sequence[str]) -> GroupCurve:
    numbers = one.numbers
    return GroupCurve(
        label=one.group.label,
        values=one.group.values,
        members=len(one.group.members),
        missing=one.missing,
        at=numbers.at.tolist(),
        n=numbers.n.tolist(),
        nonfinite=numbers.nonfinite.tolist(),
        ended=numbers.ended.tolist(),
        columns={name: getattr(numbers, name).tolist() for name in columns},
        dropouts=one.dropouts,
        runs=[member.run.id for member in one.group.members],
    )


def _largest(groups: Sequence[Group]) -> list[Group]:
    """The groups with most members if there are too many, in their order."""
    if len(groups) <= MAX_CURVES:
        return list(groups)
    kept = sorted(groups, key=lambda one: -len(one.members))[:MAX_CURVES]
    return [group for group in groups if group in kept]


def _keys(request: Request) -> dict[str, Sequence[str] | None]:
    by, all_but = BY(request), ALL_BUT(request)
    return {"by": by or None, "all_but": all_but or None} if by or all_but else {"by": ()}


def _range(request: Request) -> tuple[float | None, float | None, int]:
    lo, hi = LO(request), HI(request)
    if lo is not None and hi is not None and lo > hi:
        raise UsageError(f"lo={lo} must not be above hi={hi}.")
    return lo, hi, POINTS(request)
