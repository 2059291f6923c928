"""Finds the metric that a short name or a role means."""

from __future__ import annotations

from collections.abc import Sequence

from epochal.record import ROLES
from epochal.store.answers import Metric


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
