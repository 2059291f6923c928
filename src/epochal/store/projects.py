"""The overview of projects: how many runs, how they stand, and what is the best of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from epochal.journal.row import RunRow

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
    """Every project, the one that was written last first."""

    projects: list[ProjectRow]


def project_list(runs: Iterable[RunRow]) -> ProjectList:
    """The projects of some runs, which come the newest first."""
    by_project: dict[str, list[RunRow]] = {}
    for run in runs:
        by_project.setdefault(run.project, []).append(run)
    rows = [_project_row(name, found) for name, found in by_project.items()]
    rows.sort(key=lambda row: row.updated or 0.0, reverse=True)
    return ProjectList(rows)


def _project_row(name: str, runs: Sequence[RunRow]) -> ProjectRow:
    live = [run.id for run in runs if run.status.state == "running"]
    best = (best for role in BEST_ROLES if (best := _best(runs, role)) is not None)
    return ProjectRow(
        name=name,
        runs=len(runs),
        states=dict(Counter(run.status.state for run in runs)),
        running=live[:_MOST_RUNNING],
        errors=sum(bool(run.open_errors) for run in runs),
        warnings=sum(bool(run.open_warnings) and not run.open_errors for run in runs),
        owners=sorted({run.owner for run in runs if run.owner})[:_MOST_WORDS],
        tags=[tag for tag, _ in Counter(t for r in runs for t in r.tags).most_common(_MOST_WORDS)],
        created=_newest(run.created for run in runs),
        updated=_newest(run.updated for run in runs),
        best=next(best, None),
    )


def _newest(times: Iterable[float | None]) -> float | None:
    newest = max((time for time in times if time), default=None)
    return newest if newest is not None and math.isfinite(newest) else None


def _best(runs: Sequence[RunRow], role: str) -> BestValue | None:
    lowest = [(one.min, run) for run in runs if (one := run.of_role(role)) and one.min is not None]
    if not lowest:
        return None
    value, run = min(lowest, key=lambda pair: pair[0])
    return BestValue(role=role, value=value, run=run.id, name=run.name)
