from epochal.health.rules.advice_stuck import AdviceStuck
from epochal.record import Record
from tests.health.machine_records import noisy, opened, step


def run(losses: list[float], *, lr: float = 1e-3, late_lr: float = 1e-3) -> list[Record]:
    norms = noisy(1.0, 0.1, len(losses))
    noise = noisy(1.0, 0.01, len(losses), seed=1)
    return [
        step(n, loss=loss * noise[n], norm=norms[n], lr=lr if n < 300 else late_lr)
        for n, loss in enumerate(losses)
    ]


FALL_THEN_STAND = [5.0 - 3 * n / 300 for n in range(300)] + [2.0] * 700


def test_a_plateau_at_a_high_rate_is_noted() -> None:
    found, *_ = opened(AdviceStuck, run(FALL_THEN_STAND))
    assert found.severity == "info"
    assert "the learning rate is still 0.0010" in found.sentence


def test_a_rate_that_has_come_down_is_no_reason() -> None:
    assert opened(AdviceStuck, run(FALL_THEN_STAND, late_lr=1e-4)) == []


def test_a_loss_that_falls_needs_no_advice() -> None:
    losses = [2 + 5 * (1 + n / 50) ** -0.5 for n in range(1000)]
    assert opened(AdviceStuck, run(losses)) == []
