"""What series mean: unit, goal and role of each, and what a program set as its summary."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, Protocol, TypeVar

import msgspec

from epochal.records import ROLE_GUESSES, Axis
from epochal.records.values import as_float, flat_items
from epochal.series.goals import guess_goal
from epochal.series.importance import Importance, importance
from epochal.series.trend import Goal


class Metric(msgspec.Struct, frozen=True, gc=False):
    """A series that exists: its name and axis, the ranks that have it, its unit, goal and role.

    The goal may be a guess by the name; ``importance`` tells apart a goal that was declared.
    """

    name: str
    axis: Axis
    ranks: tuple[int, ...]
    unit: str | None = None
    goal: Goal | None = None
    role: str | None = None
    x: str | None = None
    importance: Importance = Importance.OWN


class _Meaning(Protocol):
    """What is asked of a metric or its summary to put it in order."""

    @property
    def name(self) -> str: ...
    @property
    def axis(self) -> Axis: ...
    @property
    def role(self) -> str | None: ...
    @property
    def importance(self) -> int: ...


def headline_order(metric: _Meaning) -> tuple[bool, int, bool, str]:
    """Sorts metrics for the headline of a run: roles, which lists ask for, then by importance."""
    return metric.role is None, metric.importance, metric.axis != "step", metric.name


# So few that what they mean is kept for other runs.
_FEW = 1000

_NONFINITE = ("nan", "inf", "-inf")

# What ``dig`` returns for a name that is not there; None may be a value.
NOT_THERE = object()

_GOALS: Mapping[str, Goal] = {"loss": "min", "eval_loss": "min", "throughput": "max"}

# The name and the axis of a series.
K = TypeVar("K", bound=tuple[str, Axis])


def dig(values: Mapping[str, Any], names: Sequence[str]) -> Any:
    """The value under dotted names, else ``NOT_THERE``; a name with dots may be one key or several.

    The keys may be nested.
    """
    for split in range(len(names), 0, -1):
        key = ".".join(names[:split])
        if key in values:
            value, rest = values[key], names[split:]
            if not rest:
                return value
            if isinstance(value, Mapping):
                return dig(value, rest)
    return NOT_THERE


def set_metrics(
    values: Mapping[str, Any], series: Collection[str], definitions: Mapping[str, Mapping[str, Any]]
) -> list[Metric]:
    """The numbers that a program set with ``run.summary`` under names that no series has.

    They are on the axis ``none``: they have a summary and no points.
    """
    meaning_of = _with_patterns(definitions)
    return [
        _metric(name, "none", {0}, {**meaning_of(name), "x": None}, role=None)
        for name, _ in flat_items(values)
        if name not in series and set_number(values, name) is not None
    ]


def set_role(role: str, metrics: Iterable[Metric]) -> Metric | None:
    """The one of ``set_metrics`` whose name says that it plays a role; None without one."""
    by_name = {metric.name: metric for metric in metrics}
    return next((by_name[name] for name in ROLE_GUESSES[role] if name in by_name), None)


def set_number(values: Mapping[str, Any], name: str) -> float | None:
    """The number that a program set as the summary of a metric; None where it set none."""
    value = dig(values, name.split("."))
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return as_float(value)
    return float(value) if isinstance(value, str) and value in _NONFINITE else None


def metrics_of(
    ranks: Mapping[K, set[int]], definitions: Mapping[str, Mapping[str, Any]]
) -> list[Metric]:
    """The metrics of some series, each with the ranks that have it."""
    if not definitions and len(ranks) <= _FEW and all(some == {0} for some in ranks.values()):
        return list(undefined_metrics(tuple(ranks)))
    return _metrics_of(ranks, definitions)


@lru_cache(64)
def undefined_metrics(keys: tuple[tuple[str, Axis], ...]) -> tuple[Metric, ...]:
    """The metrics of rank 0 that no record defines; thousands of runs have the same ones."""
    return tuple(_metrics_of({key: {0} for key in keys}, {}))


def _metrics_of(
    ranks: Mapping[K, set[int]], definitions: Mapping[str, Mapping[str, Any]]
) -> list[Metric]:
    roles = _roles({name for name, _ in ranks}, definitions)
    meaning_of = _with_patterns(definitions)
    return [
        _metric(name, axis, some, meaning_of(name), roles.get(name))
        for (name, axis), some in ranks.items()
    ]


def _roles(names: set[str], definitions: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Role by metric name: what was defined, else the first guess that exists."""
    roles: dict[str, str] = {
        name: meaning["role"]
        for name, meaning in definitions.items()
        if "role" in meaning and name in names
    }
    for role, guesses in ROLE_GUESSES.items():
        if role not in roles.values():
            known = (name for name in guesses if name in names and name not in roles)
            roles |= dict.fromkeys(islice(known, 1), role)
    return roles


def _with_patterns(
    definitions: Mapping[str, Mapping[str, Any]],
) -> Callable[[str], Mapping[str, Any]]:
    """What gives a metric's meaning: its own definition over those of patterns (``val/*``)."""
    patterns = [
        (re.compile(fnmatch.translate(name)).match, meaning)
        for name, meaning in definitions.items()
        if any(sign in name for sign in "*?[")
    ]

    def meaning_of(name: str) -> Mapping[str, Any]:
        found: dict[str, Any] = {}
        for matches, meaning in patterns:
            # A metric that a pattern calls its own axis would stand on itself.
            if matches(name):
                found.update(meaning if meaning.get("x") != name else {**meaning, "x": None})
        return {**found, **definitions.get(name, {})}

    return meaning_of


def _metric(
    name: str, axis: Axis, ranks: set[int], meaning: Mapping[str, Any], role: str | None
) -> Metric:
    goal = meaning.get("goal")
    is_declared = goal in ("min", "max")
    return Metric(
        name=name,
        axis=axis,
        ranks=tuple(sorted(ranks)),
        unit=meaning.get("unit"),
        goal=goal if is_declared else _GOALS.get(role or "") or guess_goal(name),
        role=role,
        x=meaning.get("x"),
        importance=importance(name, role=role, is_declared=is_declared, axis=axis),
    )
