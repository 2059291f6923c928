from epochal.health.engine import Health
from epochal.health.rules.advice_fading import AdviceFading
from epochal.health.rules.plateau import Plateau
from epochal.records import Record
from tests.health.machine_records import noisy, opened, step


def run(losses: list[float], norms: list[float]) -> list[Record]:
    noise = noisy(1.0, 0.01, len(losses))
    return [
        step(n, loss=loss * noise[n], norm=norm, lr=1e-3)
        for n, (loss, norm) in enumerate(zip(losses, norms, strict=True))
    ]


def test_a_loss_that_stops_as_gradients_fade_is_noted() -> None:
    losses = [5.0 - 0.8 * n / 300 for n in range(300)] + [4.2] * 300
    norms = noisy(1.0, 0.1, 300) + noisy(0.2, 0.1, 300, seed=1)
    found, *_ = opened(AdviceFading, run(losses, norms))
    assert "become too small to learn" in found.sentence


def test_gradients_that_fade_slowly_are_noted_once_the_plateau_is_found() -> None:
    health = Health(rules=[Plateau, AdviceFading])
    losses = [5.0 - 0.8 * n / 300 for n in range(300)] + [4.2] * 1500
    norms = [
        norm * max(0.2, 0.995 ** max(0, n - 300)) for n, norm in enumerate(noisy(1, 0.1, 1800))
    ]
    found = [f for record in run(losses, norms) for f in health.feed(record)]
    faded = [f for f in found if f.rule == "advice-fading"]
    assert [f.state for f in faded] == ["open"]
    assert "shrank to" in faded[0].sentence


def test_gradients_that_settle_while_the_loss_falls_are_healthy() -> None:
    losses = [2 + 8 * (1 + n / 40) ** -0.7 for n in range(1000)]
    norms = [0.5 * (1 + 8 * 0.98**n) for n in range(1000)]
    assert opened(AdviceFading, run(losses, norms)) == []


def test_a_plateau_with_gradients_as_before_is_left_alone() -> None:
    losses = [5.0 - 3 * n / 300 for n in range(300)] + [2.0] * 300
    assert opened(AdviceFading, run(losses, noisy(1.0, 0.1, 600))) == []


def test_a_likelihood_that_has_converged_is_left_alone() -> None:
    losses = [5.0 - 90 * n / 300 for n in range(300)] + [-85.0] * 300
    norms = noisy(1.0, 0.1, 300) + noisy(0.2, 0.1, 300, seed=1)
    assert opened(AdviceFading, run(losses, norms)) == []


def test_a_loss_that_has_come_to_its_end_has_small_gradients() -> None:
    losses = [1.7] * 200 + [1.7 - 1.6 * n / 100 for n in range(100)] + [0.1] * 400
    norms = noisy(1.0, 0.1, 300) + noisy(0.02, 0.1, 400, seed=1)
    assert opened(AdviceFading, run(losses, norms)) == []
