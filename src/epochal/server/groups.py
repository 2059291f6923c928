"""Endpoints that compare many runs: groups, their curves, important keys, and why a run is worse.

The answers are those of the store: ``groups``, ``importance`` and ``why``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from epochal.compare.groups import (
    CHOICES,
    DropOut,
    Group,
    GroupSeries,
    GroupTables,
    RunGroups,
    common_axis,
    group_members,
    members_of,
    series_of_groups,
    series_or_none,
)
from epochal.compare.importance import importance as ranked
from epochal.compare.why import Why, why_in
from epochal.errors import EpochalError, RunNotFoundError, UsageError
from epochal.query.formula import parse_formula
from epochal.series.aggregate import STATISTICS, Number
from epochal.series.goals import possible_range
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
from epochal.server.reader import Reader
from epochal.server.responses import json_response
from epochal.server.state import server_state
from epochal.store.comparison import ALL_FINISHED, Unfinished
from epochal.store.metrics import no_metric
from epochal.store.run import RunView

MAX_RUNS = 5000
# More lines than this say nothing in a chart.
MAX_CURVES = 100

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
GROUPS_PARAMS = (METRICS, BY, ALL_BUT, RUNS, QUERY, VALUE, AT, UNFINISHED)
_ALONG = (X, LO, HI, POINTS, IS_LOG, SMOOTH)
CURVES_PARAMS = (METRIC, BY, ALL_BUT, RUNS, QUERY, *_ALONG, COLUMNS, UNFINISHED)
IMPORTANCE_PARAMS = (METRIC, RUNS, QUERY, VALUE, AT, PAIR, UNFINISHED)
WHY_PARAMS = (WHY_RUNS, WHY_METRIC, AGAINST, UNFINISHED)


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
    """A metric of groups of runs along an axis."""
    (metric,) = METRIC(request)
    asked_x, smooth, is_log = X(request), SMOOTH(request), IS_LOG(request)
    lo, hi, points = _range(request)
    smoothing = None if smooth is None else parse_smoothing(smooth)
    columns = COLUMNS(request) or STATISTICS
    if unknown := [one for one in columns if one not in STATISTICS]:
        raise UsageError(f"column={unknown[0]!r} is not known: use {', '.join(STATISTICS)}.")
    keys, unfinished = _keys(request), UNFINISHED(request)

    def curves(runs: Sequence[RunView]) -> GroupCurves:
        members = members_of(runs)
        series = {
            one.run.id: series_or_none(one.run, metric, asked_x, smoothing) for one in members
        }
        if parse_formula(metric) is not None and all(one is None for one in series.values()):
            raise no_metric(metric, *((one.info.name, one.run.metrics()) for one in members))
        grouping = group_members(members, **keys)
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

    return await _compared(request, curves)


async def groups(request: Request) -> Response:
    """What groups of runs came to, and whether the best is shown to be better."""
    metrics, value, at = METRICS(request), VALUE(request) or "last", AT(request)
    keys, unfinished = _keys(request), UNFINISHED(request)

    def tables(runs: Sequence[RunView]) -> GroupTables:
        grouping = group_members(members_of(runs), **keys, unfinished=unfinished)
        return grouping.tables(metrics, value=value, at=at)

    return await _compared(request, tables)


async def importance(request: Request) -> Response:
    """Which keys of the config a metric depends on."""
    (metric,) = METRIC(request)
    value, at, pair = VALUE(request) or "last", AT(request), PAIR(request)
    unfinished = UNFINISHED(request) or at is not None
    return await _compared(
        request,
        lambda runs: ranked(runs, metric, value=value, at=at, pair=pair, unfinished=unfinished),
    )


async def why(request: Request) -> Response:
    """What explains that a run is worse than another one, or than a group."""
    ids, metric, against = WHY_RUNS(request), WHY_METRIC(request), AGAINST(request)
    unfinished, reader = UNFINISHED(request), server_state(request).reader

    def explained() -> Why:
        reader.catalog.refresh()
        run, *others = map(reader.store.run, ids)
        other = others[0] if others else None
        return why_in(
            reader.store, run, other, against=against, metric=metric, unfinished=unfinished
        )

    return await json_response(request, await reader.call(explained))


async def _compared(request: Request, compare: Callable[[Sequence[RunView]], Any]) -> Response:
    """What a function makes of the chosen runs that can be read."""
    run_ids, text = RUNS(request), QUERY(request)
    reader = server_state(request).reader

    def call() -> Any:
        runs = [run for run in chosen_runs(reader, run_ids, text) if _is_read(run)]
        if not runs:
            raise RunNotFoundError("there is no run to group.")
        return compare(runs)

    return await json_response(request, await reader.call(call))


def chosen_runs(reader: Reader, run_ids: Sequence[str], text: str | None) -> Sequence[RunView]:
    """The runs that ids and a query choose, read as far as the query needs."""
    reader.catalog.refresh()
    if run_ids and not text:
        found = [run for one in run_ids if (run := reader.store.find(one)) is not None]
    else:
        among = set(run_ids)
        found = [one for one in reader.store.runs(text or None) if not among or one.id in among]
    if len(found) > MAX_RUNS:
        raise UsageError(
            f"{len(found):,} runs are too many to put together at once: filter the list to"
            f" {MAX_RUNS:,}, or use 'epochal compare' with --group-by or --importance."
        )
    return found


def _is_read(run: RunView) -> bool:
    """Read a run up to its end; False where its files cannot be read."""
    try:
        with run.lock:
            run.refresh()
    except (EpochalError, OSError):
        return False
    return True


def _curves(
    metric: str, x: str, grouping: RunGroups, found: Sequence[GroupSeries], columns: Sequence[str]
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


def _keys(request: Request) -> dict[str, Any]:
    by, all_but = BY(request), ALL_BUT(request)
    return {"by": by or None, "all_but": all_but or None} if by or all_but else {"by": ()}


def _range(request: Request) -> tuple[float | None, float | None, int]:
    lo, hi = LO(request), HI(request)
    if lo is not None and hi is not None and lo > hi:
        raise UsageError(f"lo={lo} must not be above hi={hi}.")
    return lo, hi, POINTS(request)
