"""``define_metric``: what a metric is drawn against, and which way is better."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from epochal.run.run import Run
from epochal.wandb.errors import Error
from epochal.wandb.history_row import flatten
from epochal.wandb.notices import not_supported

_SUMMARIES = frozenset({"min", "max", "mean", "best", "last", "copy", "none", "first"})
_GOALS = {"minimize": "min", "min": "min", "maximize": "max", "max": "max"}


@dataclass(frozen=True, slots=True)
class Metric:
    """What ``define_metric`` returns."""

    name: str
    step_metric: str | None = None
    step_sync: bool | None = None
    hidden: bool | None = None
    summary: str | None = None
    goal: str | None = None

    @property
    def wanted(self) -> list[str]:
        """The parts of ``summary``."""
        return [part.strip() for part in (self.summary or "").lower().split(",") if part.strip()]


class StepSync:
    """Adds the last value of a step metric to rows that hold a metric drawn against it."""

    def __init__(self) -> None:
        self._rules: list[tuple[str, str]] = []
        self._last: dict[str, Any] = {}

    def add(self, metric: Metric) -> None:
        """Follow a definition, unless it says ``step_sync=False``."""
        if metric.step_metric is not None and metric.step_sync is not False:
            self._rules.append((metric.name, metric.step_metric))

    def complete(self, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """A row with the step metrics that it lacks."""
        if not self._rules:
            return data
        flat = dict(flatten(data))
        self._last.update({x: flat[x] for _, x in self._rules if x in flat})
        lacking = {
            x: self._last[x]
            for pattern, x in self._rules
            if x in self._last
            and x not in flat
            and any(fnmatchcase(name, pattern) for name in flat if name != x)
        }
        return {**data, **lacking} if lacking else data


def define(run: Run, metric: Metric) -> None:
    """Record the definition of a metric; raises for what W&B does not accept."""
    name: Any = metric.name
    if not isinstance(name, str) or not name:
        raise Error("define_metric() requires non empty name argument")
    unknown = [part for part in metric.wanted if part not in _SUMMARIES]
    if unknown:
        raise Error(f"Unhandled define_metric() arg: summary op: {unknown[0]}")
    if metric.goal is not None and metric.goal not in _GOALS:
        raise Error(f"Unhandled define_metric() arg: goal: {metric.goal}")
    if metric.hidden:
        not_supported("define_metric(hidden=True)", "the metric is shown")
    goal = _GOALS[metric.goal] if metric.goal is not None else _goal_of(metric.wanted)
    if metric.step_metric is not None or goal is not None:
        run.define(metric.name, x=metric.step_metric, goal=goal)


def _goal_of(wanted: list[str]) -> str | None:
    """``summary="min"`` says that less is better."""
    return next((part for part in wanted if part in ("min", "max")), None)
