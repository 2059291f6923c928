import pytest

from epochal.health.rules.unusual_rate import UnusualRate, usual_rates
from tests.health.curve_records import START, falling, flat, steps
from tests.health.machine_records import opened

ADAM = {"optimizer": "AdamW"}
SOON_FLAT = [*falling(60), *flat(440, falling(60)[-1])]


def test_a_rate_far_beyond_the_usual_with_a_loss_that_stands_is_noted() -> None:
    (found,) = opened(UnusualRate, steps(SOON_FLAT, lr=0.09), config=ADAM)
    assert found.severity == "info"
    assert "reached 0.09, and Adam is used with 0.0001 to 0.01" in found.sentence
    assert "10 times lower" in found.advice


def test_a_rate_somewhat_beyond_the_usual_needs_a_loss_that_stands_still() -> None:
    losses = [*falling(150), *flat(150, falling(150)[-1]), *flat(200, 0.93 * falling(150)[-1])]
    assert len(opened(UnusualRate, steps(SOON_FLAT, lr=0.024), config=ADAM)) == 1
    assert opened(UnusualRate, steps(losses, lr=0.024), config=ADAM) == []


def test_a_low_rate_with_a_loss_that_still_falls_is_noted() -> None:
    losses = [2.0 - 0.0005 * n for n in range(500)]
    (found,) = opened(UnusualRate, steps(losses, lr=1e-5), config=ADAM)
    assert "reached 1e-05" in found.sentence
    assert "may be too small" in found.sentence
    assert "raise the learning rate" in found.advice


def test_a_low_rate_with_a_loss_that_has_settled_is_fine() -> None:
    losses = [2 + 2 * 0.95**n for n in range(500)]
    assert opened(UnusualRate, steps(losses, lr=1e-5), config=ADAM) == []


def test_a_loss_above_its_start_is_noted_though_it_falls() -> None:
    losses = [4.0] * 20 + [900 * 0.99**n + 4 for n in range(480)]
    (found,) = opened(UnusualRate, steps(losses, lr=18.0), config={"optim": "adagrad"})
    assert "above its start: 4.0000 at first" in found.sentence


def test_a_high_rate_with_a_loss_that_keeps_falling_is_fine() -> None:
    losses = [5.0 - 0.004 * n for n in range(500)]
    assert opened(UnusualRate, steps(losses, lr=0.09), config=ADAM) == []


@pytest.mark.parametrize(("optimizer", "rate"), [("adam", 0.02), ("sgd", 20.0), ("mine", 1.0)])
def test_usual_rates_and_those_that_nobody_knows_are_fine(optimizer: str, rate: float) -> None:
    assert opened(UnusualRate, steps(SOON_FLAT, lr=rate), config={"optimizer": optimizer}) == []


def test_sgd_with_momentum_has_usual_rates() -> None:
    config = {"optimizer": "torch.optim.SGD", "momentum": 0.9}
    assert len(opened(UnusualRate, steps(SOON_FLAT, lr=3.0), config=config)) == 1


def test_an_optimizer_that_finds_its_rate_is_not_taken_for_another() -> None:
    assert usual_rates({"optimizer": "DAdaptAdam"}) is None


def test_a_loss_above_its_start_is_noted_where_few_steps_are_logged() -> None:
    losses = [2.4] * 10 + [3.0 + 0.01 * (n % 3) for n in range(150)]
    sparse = list(range(0, 640, 4))
    assert len(opened(UnusualRate, steps(losses, lr=0.05, step=sparse), config=ADAM)) == 1
    assert opened(UnusualRate, steps(losses, lr=0.05), config=ADAM) == []
    assert opened(UnusualRate, steps(SOON_FLAT[:160], lr=0.09, step=sparse), config=ADAM) == []


def test_a_rate_beyond_what_any_training_needs_is_noted_whatever_the_loss_does() -> None:
    losses = [5.0 - 0.004 * n for n in range(500)]
    assert len(opened(UnusualRate, steps(losses, lr=0.15), config=ADAM)) == 1
    assert opened(UnusualRate, steps(losses, lr=0.1), config=ADAM) == []


def test_in_a_game_only_the_rate_counts() -> None:
    reward = {"log": "metrics", "t": START, "step": 0, "m": {"reward": 1.0}}
    for rate, count in ((0.15, 1), (0.05, 0), (1e-5, 1), (1e-4, 0)):
        records = [reward, *steps(flat(400, 2.0), lr=rate)]
        assert len(opened(UnusualRate, records, config=ADAM)) == count


def test_a_loss_that_rose_at_first_is_noted_though_it_falls_now() -> None:
    losses = [*flat(5, 2.0), *flat(30, 3.0), *falling(400, start=2.0, floor=0.5)]
    (found,) = opened(UnusualRate, steps(losses, lr=0.05), config=ADAM)
    assert "The loss rose from" in found.sentence
    assert opened(UnusualRate, steps(losses, lr=0.005), config=ADAM) == []


def test_a_low_rate_of_sgd_suits_a_loss_in_large_units() -> None:
    config = {"optimizer": "SGD", "momentum": 0.9}
    small, large = ([scale - 0.0003 * scale * n for n in range(500)] for scale in (2.0, 2000.0))
    assert len(opened(UnusualRate, steps(small, lr=0.0003), config=config)) == 1
    assert opened(UnusualRate, steps(large, lr=0.0003), config=config) == []
    assert len(opened(UnusualRate, steps(large, lr=1e-5), config=ADAM)) == 1
