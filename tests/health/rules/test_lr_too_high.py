from epochal.health.engine import Health
from epochal.health.rules.learning_rate import LearningRateTooHigh
from tests.health.curve_records import falling, flat, steps
from tests.health.machine_records import opened

RATES = [1e-3 * min(1, (n + 1) / 300) for n in range(900)]


def test_a_loss_that_turns_at_the_peak_is_a_warning() -> None:
    best = falling(300)[-1]
    losses = falling(300) + [best * (1 + 0.5 * min(1, n / 100)) for n in range(600)]
    (found,) = opened(LearningRateTooHigh, steps(losses, lr=RATES))
    assert found.severity == "warning"
    assert "at its peak of 0.0010" in found.sentence


def test_a_loss_that_falls_at_the_peak_is_fine() -> None:
    assert opened(LearningRateTooHigh, steps(falling(900), lr=RATES)) == []


def test_a_rise_long_after_the_peak_has_other_reasons() -> None:
    losses = falling(600) + flat(300, falling(600)[-1] * 1.5)
    rates = [1e-3 * (1 - n / 900) for n in range(900)]
    assert opened(LearningRateTooHigh, steps(losses, lr=rates)) == []


def test_of_a_constant_rate_there_is_no_telling() -> None:
    losses = falling(300) + flat(600, falling(300)[-1] * 1.4)
    assert opened(LearningRateTooHigh, steps(losses, lr=1e-3)) == []


def test_a_warm_up_in_steps_does_not_hide_it_behind_the_divergence() -> None:
    """The rate doubles from record to record at first; the loss is lost long after that."""
    losses = [*falling(200), *(2.9 + 0.15 * n for n in range(80)), *flat(60, 14.0)]
    rates = [1e-3 * min(1.0, 2.0 ** (n - 8)) for n in range(len(losses))]
    health = Health()
    found = [f for record in steps(losses, lr=rates) for f in health.feed(record)]
    assert {"divergence", "lr-too-high"} <= {f.rule for f in found}


def test_a_rise_without_noise_and_gradients_that_grow_is_by_design() -> None:
    best = falling(300)[-1]
    rough = flat(600, 1.0)
    losses = falling(300) + [
        best * (1 + 0.5 * min(1, n / 100)) * one for n, one in enumerate(rough)
    ]
    rises = [1.0] * 300 + [1 + min(1, n / 100) for n in range(600)]
    assert opened(LearningRateTooHigh, steps(losses, lr=RATES, norm=1.0)) == []
    assert len(opened(LearningRateTooHigh, steps(losses, lr=RATES, norm=rises))) == 1
