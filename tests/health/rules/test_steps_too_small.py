from epochal.health.rules.steps_too_small import StepsTooSmall
from tests.health.curve_records import evals, falling, flat, in_order, noise, steps
from tests.health.machine_records import opened


def test_a_loss_that_falls_in_a_straight_line_is_a_warning() -> None:
    losses = [2.3 - 8e-5 * n + around for n, around in enumerate(noise(700, 0.01))]
    (found,) = opened(StepsTooSmall, steps(losses, lr=1e-5))
    assert "steps are too small" in found.sentence


def test_a_loss_that_bends_is_fine() -> None:
    assert opened(StepsTooSmall, steps(falling(1000), lr=1e-3)) == []


def test_a_loss_that_stands_still_is_another_matter() -> None:
    assert opened(StepsTooSmall, steps(flat(1000, 2.3, width=0.01), lr=1e-3)) == []


def test_a_rate_that_was_lowered_on_purpose_is_fine() -> None:
    losses = [2.3 - 8e-5 * n + around for n, around in enumerate(noise(700, 0.01))]
    rates = [1e-3] * 50 + [1e-4] * 650
    assert opened(StepsTooSmall, steps(losses, lr=rates)) == []


def rates_of(count: int) -> list[float]:
    """A rate that falls to a fifth."""
    return [1e-5 * (1 - 0.8 * n / count) for n in range(count)]


def evenly(rates: list[float], *, fall: float, every: int) -> list[float]:
    """Evaluation losses that fall by what the rates account for."""
    whole = sum(rates)
    count = len(rates) // every
    return [2.3 * (1 - fall * sum(rates[: (n + 1) * every]) / whole) for n in range(count)]


def test_evaluations_that_fall_evenly_say_it_in_spite_of_noise() -> None:
    rates = rates_of(600)
    train = steps(flat(600, 2.2, width=0.2), lr=rates)
    losses = evenly(rates, fall=0.03, every=50)
    (found,) = opened(StepsTooSmall, in_order(train, evals(losses, every=50)))
    assert found.severity == "warning"
    assert "evaluation loss falls evenly" in found.sentence
    assert "Raise the learning rate" in found.advice
    losses = evenly(rates, fall=0.2, every=50)
    (found,) = opened(StepsTooSmall, in_order(train, evals(losses, every=50)))
    assert found.severity == "info"


def test_evaluations_that_scatter_bend_or_speed_up_are_fine() -> None:
    rates = rates_of(600)
    train = steps(flat(600, 2.2, width=0.2), lr=rates)
    even = evenly(rates, fall=0.2, every=50)
    scattered = [one * (1 + around) for one, around in zip(even, noise(12, 0.004), strict=True)]
    bent = [1.9 + 0.4 * 0.6**n for n in range(12)]
    faster = [2.3 - 0.004 * n * n for n in range(12)]
    far = evenly(rates, fall=0.6, every=50)
    for losses in (scattered, bent, faster, far):
        assert opened(StepsTooSmall, in_order(train, evals(losses, every=50))) == []


def test_evaluations_of_every_few_steps_are_too_near_to_tell() -> None:
    rates = rates_of(120)
    train = steps(flat(120, 2.2, width=0.2), lr=rates)
    losses = evenly(rates, fall=0.3, every=10)
    assert opened(StepsTooSmall, in_order(train, evals(losses, every=10))) == []


def test_the_small_steps_of_a_warm_up_are_meant() -> None:
    losses = [2.3 - 8e-5 * n + around for n, around in enumerate(noise(700, 0.01))]
    rising = [1e-5 * min(1.0, (n + 1) / 600) for n in range(700)]
    assert opened(StepsTooSmall, steps(losses, lr=rising)) == []
    soon = [1e-5 * min(1.0, (n + 1) / 50) for n in range(700)]
    assert len(opened(StepsTooSmall, steps(losses, lr=soon))) == 1
