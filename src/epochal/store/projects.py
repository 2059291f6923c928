"""The overview of projects: how many runs, how they stand, and what is the best of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from epochal.store.answers import State

_MOST_RUNNING = 10
_MOST_WORDS = 50
# The first that any run of a project has.
BEST_ROLES = ("eval_loss", "loss")


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


class ProjectMember(msgspec.Struct, frozen=True, gc=False):
    """What the overview reads of a run; ``lowest`` has the lowest values of losses by role."""

    id: str
    name: str
    project: str
    state: State
    open_errors: int
    open_warnings: int
    owner: str | None
    tags: Sequence[str]
    created: float | None
    updated: float | None
    lowest: Mapping[str, float]


def project_list(members: Iterable[ProjectMember], *, pending: int) -> ProjectList:
    """The projects of some runs, which come the newest first."""
    by_project: dict[str, list[ProjectMember]] = {}
    for member in members:
        by_project.setdefault(member.project, []).append(member)
    rows = [_project_row(name, found) for name, found in by_project.items()]
    rows.sort(key=lambda row: row.updated or 0.0, reverse=True)
    return ProjectList(rows, pending)


def _project_row(name: str, runs: Sequence[ProjectMember]) -> ProjectRow:
    live = [run.id for run in runs if run.state == "running"]
    return ProjectRow(
        name=name,
        runs=len(runs),
        states=dict(Counter(run.state for run in runs)),
        running=live[:_MOST_RUNNING],
        errors=sum(run.open_errors > 0 for run in runs),
        warnings=sum(run.open_warnings > 0 and not run.open_errors for run in runs),
        owners=sorted({run.owner for run in runs if run.owner})[:_MOST_WORDS],
        tags=[tag for tag, _ in Counter(t for r in runs for t in r.tags).most_common(_MOST_WORDS)],
        created=_newest(run.created for run in runs),
        updated=_newest(run.updated for run in runs),
        best=next((best for role in BEST_ROLES if (best := _best(runs, role)) is not None), None),
    )


def _newest(times: Iterable[float | None]) -> float | None:
    newest = max((time for time in times if time), default=None)
    return newest if newest is not None and math.isfinite(newest) else None


def _best(runs: Sequence[ProjectMember], role: str) -> BestValue | None:
    having = [run for run in runs if role in run.lowest]
    if not having:
        return None
    run = min(having, key=lambda run: run.lowest[role])
    return BestValue(role=role, value=run.lowest[role], run=run.id, name=run.name)
