import math
from typing import Any

from epochal.health.engine import Health
from epochal.health.rules.values import NonFinite
from epochal.records import Record
from tests.health.curve_records import falling, steps
from tests.health.machine_records import opened, updated


def bad(record: Record, field: str, word: str = "nan") -> Record:
    return {**record, field: None, "nonfinite": {field: word}}


def test_the_loss_is_an_error_in_the_record_it_first_fails_in() -> None:
    records = steps(falling(20))
    records[12] = bad(records[12], "loss")
    (found,) = opened(NonFinite, records)
    assert (found.severity, found.steps, found.t) == ("error", (12, 12), records[12]["t"])
    assert "became NaN at step 12; the last number was" in found.sentence


def test_it_closes_when_numbers_are_back() -> None:
    records = steps(falling(20))
    records[5] = bad(records[5], "loss", "inf")
    assert [finding.state for finding in updated(NonFinite, records)] == ["open", "closed"]


def test_one_that_stays_tells_since_when_and_for_how_long() -> None:
    records = steps(falling(40))
    records[12:] = [bad(record, "loss") for record in records[12:]]
    records[20] = steps(falling(40))[20]  # one number in between ends nothing
    health = Health(rules=[NonFinite])
    for record in records:
        health.feed(record)
    (found,) = health.open_findings
    assert (found.steps, found.evidence["records"]) == ((12, 39), 27)
    assert "became NaN at step 12; the last number was" in found.sentence
    assert "at step 11." in found.sentence


def test_a_skipped_step_of_a_loss_scaler_is_a_note() -> None:
    records = steps(falling(20), norm=1.0)
    records[5] = bad(records[5], "norm", "inf")
    assert [finding.severity for finding in opened(NonFinite, records)] == ["info"]


def test_norms_that_stay_infinite_are_a_warning() -> None:
    records = [bad(record, "norm", "inf") for record in steps(falling(20), norm=1.0)]
    assert [finding.severity for finding in opened(NonFinite, records)] == ["info", "warning"]


def test_the_first_bad_tensor_is_named() -> None:
    names = [f"grads/h.{n}/norm" for n in range(3)]
    metrics: dict[str, Any] = dict.fromkeys(names[1:]) | {names[0]: 1.0}
    words = dict.fromkeys(names[1:], "inf")
    watched = {"log": "metrics", "t": 1.7e9 + 9.5, "step": 9, "m": metrics, "nonfinite": words}
    records = steps(falling(20))
    records[10] = bad(records[10], "loss")
    tensor, loss = opened(NonFinite, [*records[:10], watched, *records[10:]])
    assert tensor.series == "grads/"
    assert "grads/h.1/norm became infinite at step 9, with 1 more like it" in tensor.sentence
    assert "First seen in grads/h.1/norm (step 9)" in loss.sentence


def test_a_tensor_that_was_watched_later_is_not_where_it_began() -> None:
    watched = {"log": "metrics", "t": 1.7e9 + 15.5, "step": 15, "m": {"params/h.1/norm": None}}
    watched["nonfinite"] = {"params/h.1/norm": "nan"}
    records = [*steps(falling(11))[:10], *(bad(one, "loss") for one in steps(falling(20))[10:])]
    health = Health(rules=[NonFinite])
    for record in [*records[:16], watched, *records[16:]]:
        health.feed(record)
    (open_finding,) = (one for one in health.open_findings if one.severity == "error")
    assert "The next watched step, 15, has such values in params/h.1" in open_finding.sentence


def test_an_event_names_the_tensor_as_well() -> None:
    event = {"log": "event", "t": 1.7e9 + 9.5, "name": "nonfinite-gradient"}
    event |= {"at_step": 9, "parameter": "h.1.mlp.weight", "parameters": 4}
    records = steps(falling(20))
    records[10] = bad(records[10], "loss")
    (found,) = opened(NonFinite, [*records[:10], event, *records[10:]])
    assert "First seen in the gradient of h.1.mlp.weight (step 9)" in found.sentence


def test_other_ranks_are_named() -> None:
    (found,) = opened(NonFinite, [(2, bad(steps([1.0])[0], "loss"))])
    assert "The loss of rank 2 became NaN" in found.sentence
    assert found.evidence["rank"] == 2


def test_a_metric_that_never_was_a_number_is_a_note() -> None:
    record = {
        "log": "metrics",
        "step": 1,
        "t": 1.0,
        "m": {"auc": None},
        "nonfinite": {"auc": "nan"},
    }
    assert [finding.severity for finding in opened(NonFinite, [record])] == ["info"]


def test_finite_records_say_nothing() -> None:
    assert updated(NonFinite, steps(falling(200), norm=1.0)) == []


def test_the_figures_of_routers_are_one_fault() -> None:
    names = ("moe/aux_loss", "moe/z_loss", "moe/router_entropy")
    record = {
        "log": "metrics",
        "step": 1,
        "t": 1.0,
        "m": dict.fromkeys(names),
        "nonfinite": dict.fromkeys(names, "nan"),
    }
    (found,) = opened(NonFinite, [record])
    assert "logits of the routers" in found.advice


def test_the_advice_about_the_first_steps_is_another_one() -> None:
    records = steps(falling(100))
    (early,) = opened(NonFinite, [*records[:4], bad(records[4], "loss")])
    (late,) = opened(NonFinite, [*records[:50], bad(records[50], "loss")])
    assert "initialisation" in early.advice
    assert "checkpoint" in late.advice


def test_a_loss_scaler_may_search_for_its_scale_at_first() -> None:
    norms = [math.inf] * 6 + [1.0] * 20
    found = updated(NonFinite, steps([2.0] * 26, norm=norms))
    assert {one.severity for one in found} == {"info"}
    later = [1.0] * 10 + [math.inf] * 6 + [1.0] * 10
    assert "warning" in {one.severity for one in updated(NonFinite, steps([2.0] * 26, norm=later))}


def test_a_loss_below_zero_that_explodes_at_once_may_be_negated() -> None:
    records = steps([-0.7, -5.0, -3e8, math.nan, math.nan])
    assert "check the sign" in opened(NonFinite, records)[0].advice
    records = steps([0.7, 5.0, 3e8, math.nan, math.nan])
    assert "initialisation" in opened(NonFinite, records)[0].advice
