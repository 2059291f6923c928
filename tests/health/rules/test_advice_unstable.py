from epochal.health.engine import Health
from epochal.health.finding import Finding
from epochal.health.rules.advice_unstable import AdviceUnstable
from epochal.health.rules.moe_collapse import MoeCollapse
from tests.health.machine_records import START, noisy, step


def run(*, collapses: bool) -> list[Finding]:
    """A training that falls, then rises with its gradients."""
    health = Health(rules=[MoeCollapse, AdviceUnstable])
    noise = noisy(1.0, 0.01, 500)
    found: list[Finding] = []
    for n in range(500):
        loss = 5 - n / 100 if n < 300 else 2 * 1.01 ** (n - 300)
        norm = 1.0 if n < 300 else 1.01 ** (n - 300)
        use = 0.2 if collapses and n > 300 else 1.0
        moe = {"log": "moe", "t": START + n, "step": n, "expert_utilization": use}
        found += health.feed({**moe, "load_imbalance": 1 / use + 1})
        found += health.feed(step(n, loss=loss * noise[n], norm=norm, lr=1e-3))
    return [f for f in found if f.rule == "advice-unstable" and f.state == "open"]


def test_divergence_with_collapsed_routers_points_to_them() -> None:
    found, *_ = run(collapses=True)
    assert "the routing is the likely cause" in found.sentence
    assert found.evidence["routing"] == "moe-collapse"


def test_divergence_with_healthy_routers_does_not() -> None:
    assert run(collapses=False) == []
