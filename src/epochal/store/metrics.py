"""Finds the metric that a short name or a role means, and the order that people read metrics in."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from epochal.records import ROLES, Axis
from epochal.store.answers import Metric

_ROLES = ("loss", "eval_loss", "lr", "norm", "throughput")
# Hundreds of series, one for each layer: what follows them would not be seen.
_LAYERS = ("params/", "grads/", "activations/", "update_ratio/", "abs_max/")
_MOST_COMPARED = 2000
_NONFINITE = ("nan", "inf", "-inf")
_MACHINE = ("system/", "gpu/", "memory/", "phase/", "resources/", "epoch/")


def resolve(name: str, metrics: Sequence[Metric]) -> Metric | None:
    """The metric of a name; else of a role; else the first whose name ends in ``/name``.

    Of several axes the step goes first.
    """
    exact = [metric for metric in metrics if metric.name == name]
    if exact:
        return next((metric for metric in exact if metric.axis == "step"), exact[0])
    if name in ROLES:
        for metric in metrics:
            if metric.role == name:
                return metric
    return next((metric for metric in metrics if metric.name.endswith(f"/{name}")), None)


def no_metric(
    name: str, metrics: Sequence[Metric], *, run: str, rank: int, axis: Axis | None
) -> str:
    """The error sentence for a name that no metric of a run has."""
    # Comparing with each of a hundred thousand names would take seconds.
    known = list(dict.fromkeys(metric.name for metric in metrics[:_MOST_COMPARED]))
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
    where = f" on rank {rank}" + (f" and the {axis} axis" if axis else "")
    hint = f" Near: {', '.join(near)}." if near else ""
    return f"run {run!r} has no metric {name!r}{where}.{hint}"


def set_number(values: Mapping[str, Any], name: str) -> float | None:
    """The number that a program set as the summary of a metric; None where it set none."""
    value = values.get(name)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    return float(value) if isinstance(value, str) and value in _NONFINITE else None


def in_order(metrics: Iterable[Metric]) -> list[Metric]:
    """Roles first, layers and the machine last, and among equals by first appearance."""
    return sorted(metrics, key=_place)


def _place(metric: Metric) -> int:
    if metric.role in _ROLES:
        return _ROLES.index(metric.role)
    if metric.name.startswith(_LAYERS):
        return len(_ROLES) + 1
    return len(_ROLES) + 2 * metric.name.startswith(_MACHINE)
