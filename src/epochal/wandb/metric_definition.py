"""``define_metric``: what a metric is drawn against, and which way is better; rows of ``log``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from epochal.integrations.rollouts import readable_rollouts
from epochal.media.types import Table
from epochal.run.run import Run
from epochal.wandb.data_types import Image, is_matplotlib
from epochal.wandb.errors import Error
from epochal.wandb.notices import not_supported

# Keys that W&B computes itself.
RESERVED = frozenset({"_step", "_runtime", "_timestamp", "_wandb"})
_PLAIN = frozenset({float, int, bool})


def write_row(run: Run, data: Mapping[str, Any], step: int) -> bool:
    """Record what a ``log`` call holds at a step; True if these are plain numbers only."""
    if all(type(value) in _PLAIN for value in data.values()) and not RESERVED & data.keys():
        run.log(data, step)
        return True
    values = flatten({name: value for name, value in data.items() if name not in RESERVED})
    run.log({name: _accepted(value) for name, value in values if value is not None}, step)
    return False


def flatten(data: Mapping[Any, Any], prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Names and values; those of nested dicts are joined with dots."""
    for key, value in data.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and depth < 32:
            yield from flatten(value, f"{name}.", depth + 1)
        else:
            yield name, value


def _accepted(value: Any) -> Any:
    """What ``epochal.Run.log`` takes, of what W&B's takes."""
    if isinstance(value, (list, tuple)):
        values = [_accepted(item) for item in value]
        return ", ".join(map(str, value)) if any(isinstance(v, str) for v in values) else values
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, Table) or hasattr(value, "itertuples"):  # a table, or a frame of pandas
        return readable_rollouts(value)
    return Image(value) if is_matplotlib(value) else value


_SUMMARIES = frozenset({"min", "max", "mean", "best", "last", "copy", "none", "first"})
_GOALS = {None: None, "minimize": "min", "min": "min", "maximize": "max", "max": "max"}


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
    unknown = [part for part in metric.wanted if part not in _SUMMARIES]
    if not metric.name or unknown or metric.goal not in _GOALS:
        raise Error(f"Unhandled define_metric() argument: {metric}")
    if metric.hidden:
        not_supported("define_metric(hidden=True)", "the metric is shown")
    # ``summary="min"`` says that less is better.
    by_summary = next((part for part in metric.wanted if part in ("min", "max")), None)
    goal = _GOALS[metric.goal] or by_summary
    if metric.step_metric is not None or goal is not None:
        run.define(metric.name, x=metric.step_metric, goal=goal)
