from __future__ import annotations

from epochal.journal.metrics import Metric
from epochal.store.metrics import in_order


def metric(name: str, role: str | None = None) -> Metric:
    return Metric(name, "step", (0,), role=role)


def test_roles_come_first_and_layers_and_the_machine_last() -> None:
    found = [
        metric("system/ram_used"),
        metric("grads/w/norm"),
        metric("zeta"),
        metric("tokens_per_second", "throughput"),
        metric("val", "eval_loss"),
        metric("alpha"),
        metric("cost", "loss"),
    ]
    names = [one.name for one in in_order(found)]
    assert names[:3] == ["cost", "val", "tokens_per_second"]
    assert names[3:] == ["zeta", "alpha", "grads/w/norm", "system/ram_used"]
