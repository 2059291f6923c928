from epochal.health.rules.plateau import Plateau
from tests.health.curve_records import falling, flat, noise, steps
from tests.health.machine_records import opened, updated


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
