from __future__ import annotations

from epochal.journal.metrics import metrics_of
from epochal.records import Axis
from epochal.store.metrics import by_importance


def test_declared_goals_come_first_and_those_that_names_suggest_do_not() -> None:
    names = ("grads/w/norm", "zeta", "train/loss", "val/top1", "val/f1", "hellaswag", "accuracy")
    keys: dict[tuple[str, Axis], set[int]] = {(name, "step"): {0} for name in names}
    defined = {
        "hellaswag": {"goal": "max"},
        "val/f*": {"goal": "max"},
        "zeta": {"goal": "sideways", "unit": "s"},
    }
    found = [one.name for one in by_importance(metrics_of(keys, defined))]
    assert found[:3] == ["val/f1", "hellaswag", "train/loss"]
    assert found[3:] == ["val/top1", "accuracy", "zeta", "grads/w/norm"]
