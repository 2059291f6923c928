"""The order that people look at metrics in: what a training is about, the rest, the inner life."""

from __future__ import annotations

from collections.abc import Iterable

from epochal.store.answers import Metric

_ROLES = ("loss", "eval_loss", "lr", "norm", "throughput")
# Hundreds of series, one for each layer, which would bury what stands behind them.
_LAYERS = ("params/", "grads/", "activations/", "update_ratio/", "abs_max/")
_MACHINE = ("system/", "gpu/", "memory/", "phase/", "resources/", "epoch/")


def in_order(metrics: Iterable[Metric]) -> list[Metric]:
    """Roles first, layers and the machine last, and among equals by first appearance."""
    return sorted(metrics, key=_place)


def _place(metric: Metric) -> int:
    if metric.role in _ROLES:
        return _ROLES.index(metric.role)
    if metric.name.startswith(_LAYERS):
        return len(_ROLES) + 1
    return len(_ROLES) + 2 * metric.name.startswith(_MACHINE)
