from epochal.health.engine import Health
from epochal.health.rules.moe_collapse import MoeCollapse
from epochal.records import Record
from tests.health.machine_records import START, opened, updated


def moe(number: int, *, use: float, imbalance: float, entropy: float) -> Record:
    record = {"log": "moe", "t": START + number, "step": number, "expert_utilization": use}
    return {**record, "load_imbalance": imbalance, "router_entropy": entropy}


def healthy(number: int) -> Record:
    return moe(number, use=1.0, imbalance=1.8, entropy=0.8)


def collapsed(number: int) -> Record:
    return moe(number, use=0.25, imbalance=6.0, entropy=0.05)


def test_a_router_that_left_experts_out_is_found() -> None:
    records = [healthy(n) if n < 50 else collapsed(n) for n in range(80)]
    (found,) = opened(MoeCollapse, records)
    assert found.severity == "error"
    assert "only 25 % of the experts get tokens" in found.sentence


def test_the_layer_that_uses_least_is_named() -> None:
    load = [[0.25] * 4, [0.7, 0.3, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]]
    layers = {"log": "experts", "layers": ["h.0", "h.1", "h.2"], "load": load, "top_k": 1}
    records = [{**layers, "t": START, "step": 0}, *(collapsed(n) for n in range(30))]
    (found,) = opened(MoeCollapse, records)
    assert found.evidence["worst_layer"] == "h.2"


def test_a_sudden_collapse_is_one_error_of_all_rules() -> None:
    health = Health(config={"num_experts": 8, "num_experts_per_tok": 1})
    news = []
    for n in range(120):
        news += health.feed(healthy(n) if n < 60 else collapsed(n))
    assert [(one.rule, one.severity) for one in news if one.state == "open"] == [
        ("moe-collapse", "error")
    ]


def test_a_router_that_has_not_decided_yet_may_settle() -> None:
    def undecided(number: int) -> Record:
        return moe(number, use=0.375, imbalance=4.0, entropy=0.9)

    assert opened(MoeCollapse, [undecided(n) for n in range(60)]) == []
    (found,) = opened(MoeCollapse, [undecided(n) for n in range(200)])
    assert "only 38 % of the experts get tokens" in found.sentence
    # A new attempt has its own time to settle.
    resume = {"log": "resume", "t": START + 80, "attempt": 2, "step": 80}
    halves = [*(undecided(n) for n in range(80)), resume, *(undecided(n) for n in range(80, 160))]
    assert opened(MoeCollapse, halves) == []


def test_a_sure_router_that_uses_all_experts_is_healthy() -> None:
    records = [moe(n, use=1.0, imbalance=2.0, entropy=0.1) for n in range(500)]
    assert opened(MoeCollapse, records) == []


def test_a_few_idle_experts_are_no_collapse() -> None:
    records = [moe(n, use=0.75, imbalance=3.5, entropy=0.5) for n in range(500)]
    assert opened(MoeCollapse, records) == []


def test_the_fields_of_step_records_are_judged_as_well() -> None:
    fields = {"moe_expert_utilization": 0.2, "moe_load_imbalance": 5.0}
    records = [{"log": "step", "t": START + n, "step": n, **fields} for n in range(30)]
    assert len(opened(MoeCollapse, records)) == 1


def test_it_closes_when_the_experts_are_back() -> None:
    records = [collapsed(n) if 20 <= n < 60 else healthy(n) for n in range(100)]
    assert [f.state for f in updated(MoeCollapse, records)] == ["open", "closed"]
