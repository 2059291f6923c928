"""``/api/why``: what explains that one run is worse than another, or than a group of runs.

The answer is that of ``epochal.store.explain``. Runs are read one by one, so that a slow one delays
no other request, and compared afterwards.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from epochal.errors import MetricNotFoundError, UsageError
from epochal.server.groups import UNFINISHED, read_runs
from epochal.server.params import required_param, str_param
from epochal.server.responses import json_response
from epochal.server.rows import finite
from epochal.server.state import server_state
from epochal.store.answers import Metric
from epochal.store.groups import Group, read_value, values_of_groups
from epochal.store.store import RunView
from epochal.store.unfinished import ALL_FINISHED, Unfinished, peers_of

# What explains a difference is loaded when it is asked for: a server starts sooner without it.
if TYPE_CHECKING:
    from epochal.store.explain import Project
    from epochal.store.run_facts import RunFacts
    from epochal.store.why import Side, Why

RUNS = required_param("run", most=2)
METRIC = str_param("metric", note="default: the evaluation loss, else the loss")
AGAINST = str_param("against", note="a query; with one run. Default: its group or project")


class WhyDifference(msgspec.Struct, frozen=True):
    """Something that the first run has otherwise; ``others`` counts members of a group.

    ``left`` and ``right`` are texts for people. ``score`` is from 0 to 1.
    """

    area: str
    key: str
    left: str
    right: str
    score: float
    reason: str
    kind: Literal["cause", "symptom"]
    others: str


class WhySide(msgspec.Struct, frozen=True):
    """A run, or a group by its median; ``value`` is null for nan and infinities.

    It is the mean of the last ``points`` points up to ``at``.
    """

    name: str
    runs: list[str]
    value: float | None
    at: float
    points: int


class WhyTable(msgspec.Struct, frozen=True):
    """The differences between a run and another one, causes before symptoms, best first.

    ``gap`` is the left value minus the right one, ``noise`` the least gap that counts. ``equal``
    areas do not differ, ``unknown`` ones are not recorded on both sides. ``unfinished`` are the
    unfinished runs of the group.
    """

    metric: str
    goal: Literal["min", "max"] | None
    x: str
    left: WhySide
    right: WhySide
    gap: float | None
    noise: float
    worse: Literal["left", "right"] | None
    parted_at: float | None
    verdict: Literal["same", "noise", "explained", "several", "weak", "unexplained"]
    sentence: str
    differences: list[WhyDifference]
    equal: list[str]
    unknown: list[str]
    unfinished: Unfinished


async def why(request: Request) -> Response:
    """``/api/why``: two runs, or one against a query or its group."""
    from epochal.store.explain import MOST_MEMBERS, MOST_TO_LEARN_FROM, MOST_WITH_FINDINGS, explain
    from epochal.store.run_facts import common_metric, read_facts

    ids, metric, against = RUNS(request), METRIC(request), AGAINST(request)
    if len(ids) == 2 and against is not None:
        raise UsageError("against= takes one run=.")
    reader = server_state(request).reader

    def around() -> tuple[list[str], Unfinished, list[str]]:
        """The ids of the other runs, the unfinished ones, and the ids of runs to learn from."""
        reader.catalog.refresh()
        rows = [one.outline() for one in reader.catalog.runs()]
        own = next((one for one in rows if one.id == ids[0]), None)
        project = [one.id for one in rows if own is not None and one.project == own.project]
        others, left = [one for one in ids[1:] if one != ids[0]], ALL_FINISHED
        if len(ids) == 1 and own is not None:
            if against is not None:
                rows = [one.outline() for one in reader.catalog.runs(against)]
            is_query, include = against is not None, UNFINISHED(request)
            others, left = peers_of(own, rows, is_query=is_query, unfinished=include)
        return others, left, project[:MOST_TO_LEARN_FROM]

    others, unfinished, project = await reader.query(around)
    compared = [ids[0], *others[:MOST_MEMBERS]]
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
    return await json_response(request, why_row(found))


def why_row(found: Why) -> WhyTable:
    """The answer as it is sent."""
    from epochal.store.why import value_text

    return WhyTable(
        metric=found.metric,
        goal=found.goal,
        x=found.x,
        left=_side(found.left),
        right=_side(found.right),
        gap=finite(found.gap),
        noise=found.noise,
        worse=found.worse,
        parted_at=found.parted_at,
        verdict=found.verdict,
        sentence=found.sentence,
        differences=[
            WhyDifference(
                one.area,
                one.key,
                value_text(one.left),
                value_text(one.right),
                one.score,
                one.reason,
                one.kind,
                one.others,
            )
            for one in found.differences
        ],
        equal=list(found.equal),
        unknown=list(found.unknown),
        unfinished=found.unfinished,
    )


def _side(side: Side) -> WhySide:
    return WhySide(side.name, list(side.runs), finite(side.value), side.at, side.points)


def _metrics(run: RunView) -> list[Metric]:
    return list(run.metrics())


async def _learn(request: Request, project: Sequence[str], metric: str) -> Project:
    from epochal.store.explain import Project, learn

    read = await read_runs(request, project, lambda run: read_value(run, metric, "last", None))

    def put_together() -> Project:
        everything = Group((), (), tuple(member for member, _ in read))
        try:
            (values,) = values_of_groups([everything], [[one for _, one in read]], metric)
        except MetricNotFoundError:
            return Project()
        return learn(values)

    return await server_state(request).reader.call(put_together)
