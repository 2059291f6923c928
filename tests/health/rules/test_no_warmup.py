from epochal.health.rules.no_warmup import NoWarmup
from tests.health.curve_records import falling, flat, steps
from tests.health.machine_records import opened


def test_a_shock_under_the_full_rate_is_a_warning() -> None:
    losses = [4 * (1 + min(n, 20) / 25) for n in range(200)]
    (found,) = opened(NoWarmup, steps(losses, lr=1e-2))
    assert found.severity == "warning"
    assert "without a warm-up" in found.sentence


def test_a_full_rate_without_a_shock_is_fine() -> None:
    assert opened(NoWarmup, steps(falling(500), lr=1e-2)) == []


def test_a_rise_under_a_warm_up_is_not_for_want_of_one() -> None:
    losses = [4 * (1 + min(n, 20) / 25) for n in range(200)]
    rates = [1e-2 * min(1, (n + 1) / 100) for n in range(200)]
    assert opened(NoWarmup, steps(losses, lr=rates)) == []


def test_noise_at_the_start_is_no_shock() -> None:
    assert opened(NoWarmup, steps(flat(300, 1.0, width=0.25), lr=1e-2)) == []


def test_a_shock_shows_through_noise_that_grows_with_it() -> None:
    rough = flat(200, 1.0, width=0.15)
    losses = [2 * (1 + 1.5 * min(1, n / 10)) * value for n, value in enumerate(rough)]
    assert len(opened(NoWarmup, steps(losses, lr=1e-2))) == 1


def test_a_norm_that_leaps_is_a_second_witness() -> None:
    rough = flat(200, 1.0, width=0.15)
    losses = [2 * (1 + 0.65 * min(1, n / 10)) * value for n, value in enumerate(rough)]
    norms = [1 + 9 * min(1, n / 10) for n in range(200)]
    assert opened(NoWarmup, steps(losses, lr=1e-2, norm=norms)) != []
    assert opened(NoWarmup, steps(losses, lr=1e-2, norm=1.0)) == []


def test_a_loss_that_is_lost_at_once_may_have_another_cause() -> None:
    lost = [2.0, 2.0, 2.1, *(2.0 * 1.5**n for n in range(30))]
    (found,) = opened(NoWarmup, steps(lost, lr=0.1))
    assert "zero_grad" in found.advice


def test_a_shock_that_passes_is_no_fault() -> None:
    losses = [0.3 * (1 + max(0.0, 1 - abs(n - 25) / 20)) for n in range(60)]
    losses += [0.28 * 0.99**n for n in range(200)]
    shrinking = [0.4 * 0.97**n for n in range(260)]
    assert opened(NoWarmup, steps(losses, lr=1e-3, norm=shrinking)) == []


def test_first_steps_that_throw_the_loss_far_away_are_a_warning() -> None:
    losses = [0.29, 9.8, 0.06, 0.25, *flat(200, 0.05)]
    norms = [0.83, 25.7, 0.18, 0.57, *flat(200, 0.1)]
    (found,) = opened(NoWarmup, steps(losses, norm=norms, lr=0.06))
    assert "from 0.2900 to 9.8" in found.sentence
    assert "the learning rate of 0.06" in found.sentence
    # Rare batches with a large loss come again.
    rare = [*losses[:30], 8.0, *losses[30:]]
    assert opened(NoWarmup, steps(rare, norm=[*norms, 0.1], lr=0.06)) == []
    # A rate that warms up is not the reason.
    rates = [0.06 * min(1, (n + 1) / 50) for n in range(len(losses))]
    assert opened(NoWarmup, steps(losses, norm=norms, lr=rates)) == []


def test_a_term_that_grows_lifts_gradients_no_more_than_the_loss() -> None:
    lift = [1 + 2 * min(1, n / 40) for n in range(200)]
    losses = [1.2 * up * value for up, value in zip(lift, flat(200, 1.0), strict=True)]
    codes = [0.2 * up for up in lift]  # a codebook that its encoder runs away from
    shock = [0.2 * up**2 for up in lift]
    assert opened(NoWarmup, steps(losses, lr=2e-3, norm=codes)) == []
    assert len(opened(NoWarmup, steps(losses, lr=2e-3, norm=shock))) == 1
