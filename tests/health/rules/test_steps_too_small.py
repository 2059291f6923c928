from epochal.health.rules.steps_too_small import StepsTooSmall
from tests.health.curve_records import falling, flat, noise, steps
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
