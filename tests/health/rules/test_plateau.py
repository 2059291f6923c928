from epochal.health.engine import Health
from epochal.health.rules.loss import Plateau
from tests.health.curve_records import falling, flat, noise, steps
from tests.health.machine_records import metrics, noisy, opened, step, updated

FALL_THEN_STAND = [5.0 - 3 * n / 300 for n in range(300)] + [2.0] * 1500


def test_a_loss_that_stopped_falling_is_a_note() -> None:
    losses = falling(600) + flat(1200, falling(600)[-1])
    (found,) = opened(Plateau, steps(losses, lr=1e-3))
    assert found.severity == "info"
    assert "Lower the learning rate" in found.advice


def test_it_closes_when_the_loss_falls_again() -> None:
    level = falling(600)[-1]
    losses = falling(600) + flat(1200, level) + [level * 0.999**n for n in range(900)]
    assert [finding.state for finding in updated(Plateau, steps(losses))] == ["open", "closed"]


def test_a_loss_that_falls_is_on_none() -> None:
    assert opened(Plateau, steps([10 * 0.9995**n for n in range(3000)])) == []


def test_a_loss_that_never_fell_is_not_on_one() -> None:
    assert opened(Plateau, steps(flat(2000, 2.3))) == []


def test_noise_that_could_hide_a_fall_is_no_plateau() -> None:
    begin, rough = [0.69 - 0.16 * n / 100 for n in range(100)], noise(1400, 0.1)
    losses = [*begin, *(0.53 + around for around in rough)]
    assert opened(Plateau, steps(losses, lr=1e-2)) == []


def said(losses: list[float], *, late_lr: float = 1e-3, late_norm: float = 1.0) -> list[str]:
    """The sentences of what is open at the end of a training with gradients and a rate."""
    health = Health(rules=[Plateau])
    norms, noise = noisy(1.0, 0.1, len(losses)), noisy(1.0, 0.01, len(losses), seed=1)
    for n, loss in enumerate(losses):
        lr = 1e-3 if n < 300 else late_lr
        norm = norms[n] * max(late_norm, 0.99 ** max(0, n - 300))
        health.feed(step(n, loss=loss * noise[n], norm=norm, lr=lr))
    return [finding.sentence for finding in health.open_findings]


def test_a_plateau_at_a_high_rate_is_noted() -> None:
    (sentence,) = said(FALL_THEN_STAND)
    assert "The learning rate is still 0.0010." in sentence


def test_gradients_that_have_faded_are_not_called_as_large() -> None:
    (sentence,) = said(FALL_THEN_STAND, late_norm=0.2)
    assert "Gradients" not in sentence


def test_a_rate_that_has_come_down_is_no_reason() -> None:
    (sentence,) = said(FALL_THEN_STAND, late_lr=1e-4)
    assert "Gradients" not in sentence


def test_the_loss_of_a_game_is_on_no_plateau() -> None:
    records = steps([*falling(600), *flat(1500, 2.1)])
    assert opened(Plateau, records) != []
    assert opened(Plateau, [metrics(0, {"reward": 1.0}), *records]) == []


def test_levels_that_move_to_and_fro_are_of_other_data() -> None:
    waves = [2.0 if (n // 75) % 2 else 2.2 for n in range(1500)]
    rough = [level + around for level, around in zip(waves, noise(1500, 0.01), strict=True)]
    begin = [5.0 - 3 * n / 300 for n in range(300)]
    assert opened(Plateau, steps([*begin, *rough], lr=1e-3)) == []
    still = [2.1 + around for around in noise(1500, 0.01)]
    assert len(opened(Plateau, steps([*begin, *still], lr=1e-3))) == 1
