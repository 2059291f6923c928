"""What an archive says of several runs together: groups by likely keys, and which keys matter.

A saved page has no server that computes these. Curves of groups are not among them: the page draws
those from the series in the file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from epochal.store.groups import (
    Member,
    default_metrics,
    group_members,
    group_tables,
    members_of,
    read_value,
    run_values,
)
from epochal.store.importance import importance_of
from epochal.store.store import RunView
from epochal.values import flat_items

_MOST_METRICS = 6
_MOST_KEYS = 8
_MOST_GROUPS = 40


def pack_sweep(
    runs: Sequence[RunView], redact: Callable[[RunView], Mapping[str, Any]], *, budget_bytes: int
) -> dict[str, Any]:
    """Tables of groups by choice of keys, and rankings by metric, as far as they fit.

    A choice is a key, ``-seed`` for everything but the seed, or empty for no groups. ``redact``
    gives the config of a run as it may be shown.
    """
    members = [
        Member(one.run, one.info, dict(flat_items(redact(one.run)))) for one in members_of(runs)
    ]
    metrics = default_metrics(members)[:_MOST_METRICS] if len(members) > 1 else []
    if not metrics:
        return {}
    read = [
        (one, {name: read_value(one.run, name, "last", None) for name in metrics})
        for one in members
    ]
    packed: dict[str, Any] = {"groups": {}, "importance": {}}
    left = budget_bytes
    for metric in metrics:
        ranking = importance_of(run_values([(one, own[metric]) for one, own in read], metric))
        packed["importance"][metric] = ranking
        left -= len(msgspec.json.encode(ranking))
    for choice, keys in _choices(members).items():
        grouping = group_members(members, **keys)
        if len(grouping.groups) > _MOST_GROUPS:
            continue
        table = group_tables(grouping, read, metrics)
        left -= len(msgspec.json.encode(table))
        if left < 0:
            break
        packed["groups"][choice] = table
    return packed


def _choices(members: Sequence[Member]) -> dict[str, dict[str, Sequence[str]]]:
    """No groups, everything but the seed, and each key that differs."""
    grouping = group_members(members, by=())
    choices: dict[str, dict[str, Sequence[str]]] = {"": {"by": ()}}
    if grouping.repeats:
        choices["-" + ",".join(grouping.repeats)] = {"all_but": grouping.repeats}
    for key in grouping.varying[:_MOST_KEYS]:
        choices[key] = {"by": (key,)}
    return choices
