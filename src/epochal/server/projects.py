"""The overview of projects: how many runs, how they stand, and what is the best of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from epochal.errors import FormatError, MetricNotFoundError
from epochal.server.responses import json_response
from epochal.server.rows import finite
from epochal.server.state import server_state
from epochal.store.answers import RunInfo
from epochal.store.store import RunView

_MOST_RUNNING = 10
_MOST_WORDS = 50
# The first that any run of a project has.
_ROLES = ("eval_loss", "loss")


class BestValue(msgspec.Struct, frozen=True):
    """The best value in a project, of the metric that plays a role."""

    role: str
    value: float
    run: str
    name: str


class ProjectRow(msgspec.Struct, frozen=True):
    """A project: its runs by state, its owners, its best value and when a run last wrote.

    Hidden runs count as well. ``best`` is null while no run that was read has an evaluation loss
    or a loss. ``running`` has the ids of live runs, the newest first, at most ten.
    """

    name: str
    runs: int
    states: dict[str, int]
    running: list[str]
    errors: int
    warnings: int
    owners: list[str]
    tags: list[str]
    created: float | None
    updated: float | None
    best: BestValue | None


class ProjectList(msgspec.Struct, frozen=True):
    """Every project, the one that was written last first; ``pending`` as in ``RunList``."""

    projects: list[ProjectRow]
    pending: int


async def projects(request: Request) -> Response:
    """``/api/projects``: every project in one row."""
    state = server_state(request)
    reader = state.reader

    def query() -> ProjectList:
        reader.catalog.refresh_list(is_followed=state.broadcaster.num_streams > 0)
        known = reader.catalog.known_runs()
        by_project: dict[str, list[tuple[RunView, RunInfo]]] = {}
        for run in known.runs:
            info = run.outline()
            by_project.setdefault(info.project, []).append((run, info))
        rows = [_project_row(name, runs) for name, runs in by_project.items()]
        rows.sort(key=lambda row: row.updated or 0.0, reverse=True)
        return ProjectList(rows, known.pending)

    return await json_response(request, await reader.query(query))


def _project_row(name: str, runs: Sequence[tuple[RunView, RunInfo]]) -> ProjectRow:
    infos = [info for _, info in runs]
    live = [info.id for info in infos if info.status.state == "running"]
    return ProjectRow(
        name=name,
        runs=len(runs),
        states=dict(Counter(info.status.state for info in infos)),
        running=live[:_MOST_RUNNING],
        errors=sum(bool(info.open_errors) for info in infos),
        warnings=sum(bool(info.open_warnings) and not info.open_errors for info in infos),
        owners=sorted({info.owner for info in infos if info.owner})[:_MOST_WORDS],
        tags=[tag for tag, _ in Counter(t for i in infos for t in i.tags).most_common(_MOST_WORDS)],
        created=finite(max((info.created for info in infos if info.created), default=None)),
        updated=finite(max((info.updated for info in infos if info.updated), default=None)),
        best=next((best for role in _ROLES if (best := _best(runs, role)) is not None), None),
    )


def _best(runs: Sequence[tuple[RunView, RunInfo]], role: str) -> BestValue | None:
    found: tuple[float, RunInfo] | None = None
    for run, info in runs:
        if not info.is_partial and (value := _lowest(run, role)) is not None:
            found = min(found or (value, info), (value, info), key=lambda one: one[0])
    if found is None:
        return None
    value, info = found
    return BestValue(role=role, value=value, run=info.id, name=info.name)


def _lowest(run: RunView, role: str) -> float | None:
    """The lowest value of a loss; one that is no number has none."""
    if run.latest(role) is None:
        return None
    metric = run.role(role)
    if metric is None or not metric.ranks:
        return None
    try:
        return run.summary(metric.name, rank=metric.ranks[0], axis=metric.axis).min
    except (MetricNotFoundError, FormatError):  # reported in the run's own row
        return None
