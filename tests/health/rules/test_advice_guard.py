from epochal.health.rules.advice_guard import AdviceGuard
from epochal.records import Record
from tests.health.machine_records import START, opened, updated


def moe(number: int, use: float) -> Record:
    return {"log": "moe", "t": START + number, "step": number, "expert_utilization": use}


def lr_cut(number: int) -> Record:
    cut = {"log": "event", "name": "lr-cut", "kind": "temporary", "at_step": number}
    return {**cut, "t": START + number, "step": number}


def test_a_cut_while_experts_are_idle_points_to_the_routing() -> None:
    (found,) = opened(AdviceGuard, [moe(95, 0.4), lr_cut(100)])
    assert "40 % of the experts" in found.sentence


def test_a_cut_while_all_experts_work_does_not() -> None:
    assert opened(AdviceGuard, [moe(95, 0.95), lr_cut(100), moe(105, 0.95)]) == []


def test_experts_that_were_idle_long_before_do_not_count() -> None:
    assert opened(AdviceGuard, [moe(50, 0.4), lr_cut(100)]) == []


def test_it_closes_after_some_time_without_a_cut() -> None:
    records = [moe(95, 0.4), lr_cut(100), *(moe(n, 0.9) for n in range(120, 400, 10))]
    assert [f.state for f in updated(AdviceGuard, records)] == ["open", "closed"]
