"""Gives series their meanings: unit, goal and role, as defined by the program or guessed."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Mapping
from typing import Any

from epochal.records import ROLE_GUESSES
from epochal.series.goals import guess_goal
from epochal.series.trend import Goal
from epochal.store.answers import Metric
from epochal.store.local.columns import SeriesKey

_GOALS: Mapping[str, Goal] = {"loss": "min", "eval_loss": "min", "throughput": "max"}


def metrics_of(
    ranks: Mapping[SeriesKey, set[int]], definitions: Mapping[str, Mapping[str, Any]]
) -> list[Metric]:
    """The metrics of some series, each with the ranks that have it."""
    roles = _roles({key.name for key in ranks}, definitions)
    meaning_of = _with_patterns(definitions)
    return [
        _metric(key, some, meaning_of(key.name), roles.get(key.name)) for key, some in ranks.items()
    ]


def _roles(names: set[str], definitions: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Role by metric name: what was defined, else the first guess that exists."""
    roles: dict[str, str] = {
        name: meaning["role"]
        for name, meaning in definitions.items()
        if "role" in meaning and name in names
    }
    for role, guesses in ROLE_GUESSES.items():
        if role in roles.values():
            continue
        guess = next((name for name in guesses if name in names and name not in roles), None)
        if guess is not None:
            roles[guess] = role
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
        own = definitions.get(name, {})
        if not patterns:
            return own
        found: dict[str, Any] = {}
        for matches, meaning in patterns:
            # A metric that a pattern calls its own axis would stand on itself.
            if matches(name):
                found.update(meaning if meaning.get("x") != name else {**meaning, "x": None})
        return {**found, **own}

    return meaning_of


def _metric(
    key: SeriesKey, ranks: set[int], meaning: Mapping[str, Any], role: str | None
) -> Metric:
    goal = meaning.get("goal")
    return Metric(
        name=key.name,
        axis=key.axis,
        ranks=tuple(sorted(ranks)),
        unit=meaning.get("unit"),
        goal=goal if goal in ("min", "max") else _GOALS.get(role or "") or guess_goal(key.name),
        role=role,
        x=meaning.get("x"),
    )
