from __future__ import annotations

from typing import Any

from epochal.health.rules.eval_mode import EvalMode
from epochal.records import Record
from tests.health.machine_records import opened, step, updated

T0 = 1.7e9


def passes(number: int, **facts: Any) -> Record:
    known = {"passes": 4, "dropouts": 2, "batchnorms": 0, "module": "head.drop", "share": 0.5}
    event = {"log": "event", "t": T0 + number + 0.8, "name": "evaluation-passes", "step": number}
    return {**event, **known, **facts}


def evaluation(number: int) -> Record:
    return {"log": "eval", "t": T0 + number + 0.5, "step": number, "loss": 1.0}


def trained(count: int, *, every: int, passes_at: int, **facts: Any) -> list[Record]:
    """Steps with an evaluation at every so many, and passes without gradients at others."""
    found: list[Record] = []
    for number in range(1, count):
        found.append(step(number, loss=1.0))
        if number % every == 0:
            found.append(evaluation(number))
        if number % passes_at == 0:
            found.append(passes(number, **facts))
    return found


def test_an_evaluation_with_dropout_on_is_found() -> None:
    (found,) = opened(EvalMode, trained(31, every=10, passes_at=10))
    assert found.severity == "warning"
    assert "training mode in the evaluation at step 10" in found.sentence
    assert "dropout is on in 2 modules (of head.drop: 50 %)" in found.sentence


def test_batchnorm_in_training_mode_is_found() -> None:
    facts = {"dropouts": 0, "batchnorms": 1, "share": None}
    (found,) = opened(EvalMode, trained(31, every=10, passes_at=10, **facts))
    assert "1 BatchNorm uses the statistics of the batch" in found.sentence


def test_passes_that_belong_to_training_say_nothing() -> None:
    assert opened(EvalMode, trained(31, every=10, passes_at=1)) == []


def test_it_closes_when_the_mode_is_right() -> None:
    records = trained(21, every=10, passes_at=10)
    late = [step(21, loss=1.0), evaluation(21), passes(21, dropouts=0)]
    assert updated(EvalMode, [*records, *late])[-1].state == "closed"
