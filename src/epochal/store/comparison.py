"""Sets runs beside each other: where their configurations differ, and what they came to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from epochal.record import Axis
from epochal.series.reduce import Summary
from epochal.series.trend import Goal
from epochal.store.store import RunView

# Stands for what a run does not have, where None is a value that it may have.
MISSING = "—"


@dataclass(frozen=True, slots=True)
class ComparedMetric:
    """One series of several runs; None for a run that does not have it."""

    name: str
    axis: Axis
    goal: Goal | None
    summaries: tuple[Summary | None, ...]

    def values(self) -> tuple[float | None, ...]:
        """What stands for each run: the best value where better is known, else the last."""
        return tuple(self._value(summary) for summary in self.summaries)

    def deltas(self) -> tuple[float | None, ...]:
        """How far each value is from the first run's."""
        first, *_ = values = self.values()
        return tuple(None if first is None or value is None else value - first for value in values)

    def _value(self, summary: Summary | None) -> float | None:
        if summary is None or self.goal is None:
            return None if summary is None else summary.last
        best = summary.best(self.goal)
        return summary.last if best is None else best[1]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Several runs beside each other; every tuple has one entry per run."""

    config: Mapping[str, tuple[Any, ...]]
    metrics: tuple[ComparedMetric, ...]

    def differences(self) -> dict[str, tuple[Any, ...]]:
        """The configuration entries that are not the same in all runs."""
        return {
            name: values
            for name, values in self.config.items()
            if any(not _same(value, values[0]) for value in values[1:])
        }


def compare(runs: Sequence[RunView], *, names: Sequence[str] = ()) -> Comparison:
    """Compare runs by everything they have in common or not; by some metrics when named."""
    configs = [dict(_flat(run.config)) for run in runs]
    keys = dict.fromkeys(key for config in configs for key in config)
    config = {key: tuple(own.get(key, MISSING) for own in configs) for key in keys}
    return Comparison(config, tuple(_metrics(runs, names)))


def _metrics(runs: Sequence[RunView], names: Sequence[str]) -> Iterator[ComparedMetric]:
    if names:
        found = [run.metric(name) for name in names for run in runs]
    else:
        found = [metric for run in runs for metric in run.metrics() if metric.axis != "time"]
    chosen = {(m.name, m.axis): m.goal for m in reversed(found) if m is not None}
    for name, axis in dict.fromkeys((m.name, m.axis) for m in found if m is not None):
        summaries = tuple(_summary(run, name, axis) for run in runs)
        yield ComparedMetric(name, axis, chosen[name, axis], summaries)


def _summary(run: RunView, name: str, axis: Axis) -> Summary | None:
    has_it = any((m.name, m.axis) == (name, axis) and 0 in m.ranks for m in run.metrics())
    return run.summary(name, axis=axis) if has_it else None


def _flat(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in config.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _same(left: Any, right: Any) -> bool:
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)
