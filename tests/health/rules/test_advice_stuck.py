from epochal.health.engine import Health
from epochal.health.finding import Finding
from epochal.health.rules.advice_stuck import AdviceStuck
from epochal.health.rules.plateau import Plateau
from tests.health.machine_records import noisy, step

FALL_THEN_STAND = [5.0 - 3 * n / 300 for n in range(300)] + [2.0] * 1500


def advised(losses: list[float], *, late_lr: float = 1e-3, late_norm: float = 1.0) -> list[Finding]:
    health = Health(rules=[Plateau, AdviceStuck])
    norms = noisy(1.0, 0.1, len(losses))
    noise = noisy(1.0, 0.01, len(losses), seed=1)
    found: list[Finding] = []
    for n, loss in enumerate(losses):
        lr = 1e-3 if n < 300 else late_lr
        norm = norms[n] * max(late_norm, 0.99 ** max(0, n - 300))
        found += health.feed(step(n, loss=loss * noise[n], norm=norm, lr=lr))
    return [f for f in found if f.rule == "advice-stuck"]


def test_a_plateau_at_a_high_rate_is_noted() -> None:
    found, *_ = advised(FALL_THEN_STAND)
    assert found.severity == "info"
    assert "as large as before, and the learning rate stays at 0.0010" in found.sentence


def test_gradients_that_have_faded_are_not_called_as_large() -> None:
    assert advised(FALL_THEN_STAND, late_norm=0.2) == []


def test_gradients_that_shrank_a_little_are_said_to() -> None:
    found, *_ = advised(FALL_THEN_STAND, late_norm=0.7)
    assert "still 69 % of what they were before" in found.sentence


def test_a_rate_that_has_come_down_is_no_reason() -> None:
    assert advised(FALL_THEN_STAND, late_lr=1e-4) == []


def test_a_loss_that_falls_needs_no_advice() -> None:
    losses = [2 + 5 * (1 + n / 50) ** -0.5 for n in range(2000)]
    assert advised(losses) == []
