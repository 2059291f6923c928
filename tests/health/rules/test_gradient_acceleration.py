from epochal.health.engine import Health
from epochal.health.rules.gradient_acceleration import GradientAcceleration
from tests.health.curve_records import falling, flat, noise, steps
from tests.health.machine_records import opened


def test_a_norm_that_doubles_again_and_again_is_a_warning() -> None:
    usual = flat(400, 1.0, width=0.2)
    norms = usual[:250] + [usual[250 + n] * 2 ** (n / 25) for n in range(150)]
    losses = falling(250) + [2.9 * 1.004**n for n in range(150)]
    found = opened(GradientAcceleration, steps(losses, norm=norms))
    assert found[-1].severity == "warning"
    assert "doubling about every" in found[-1].sentence


def test_noise_has_no_slope() -> None:
    norms = [2.0 ** (2 * around) for around in noise(5000, 0.5)]
    assert opened(GradientAcceleration, steps(falling(5000), norm=norms)) == []


def test_a_jump_of_some_points_is_not_a_growth() -> None:
    norms = flat(600, 1.0, width=0.2)
    norms[300:304] = [30.0] * 4
    assert opened(GradientAcceleration, steps(falling(600), norm=norms)) == []


def test_a_norm_that_triples_while_the_loss_falls_is_a_note() -> None:
    usual = flat(500, 1.0, width=0.1)
    norms = [value * 2 ** (min(max(n - 250, 0), 60) / 38) for n, value in enumerate(usual)]
    found = opened(GradientAcceleration, steps(falling(500), norm=norms))
    assert {one.severity for one in found} <= {"info"}


def test_norms_that_double_in_a_small_run_are_no_more_than_a_note() -> None:
    """0.4 to 1 within a hundred steps, as the loss of a small run comes to its end."""
    losses = [*falling(400, start=2.3, floor=0.6), *flat(200, 0.6)]
    rising = [0.4 * 2.5 ** min(1.0, max(0.0, (n - 400) / 70)) for n in range(600)]
    norms = [norm * (1 + around) for norm, around in zip(rising, noise(600, 0.05), strict=True)]
    health = Health()
    found = [f for record in steps(losses, norm=norms) for f in health.feed(record)]
    assert [f.sentence for f in found if f.severity != "info"] == []


def test_a_norm_that_grows_as_the_loss_leaves_a_standstill_is_no_warning() -> None:
    rest = noise(200, 0.02)
    fall = [around * 6 - 0.011 * n for n, around in enumerate(noise(80, 0.02))]
    losses = [1.7 + around for around in [*rest, *fall]]
    norms = [1.0 + around for around in rest]
    norms += [1.0 * 5 ** (n / 60) + around for n, around in enumerate(noise(80, 0.02))]
    assert opened(GradientAcceleration, steps(losses, norm=norms)) == []


def test_norms_that_grow_while_the_loss_is_at_its_best_are_left_alone() -> None:
    """A loss that stands at chance and is about to fall."""
    usual = flat(400, 1.0, width=0.2)
    norms = usual[:250] + [usual[250 + n] * 2 ** (n / 25) for n in range(150)]
    assert opened(GradientAcceleration, steps(flat(400, 1.6), norm=norms)) == []


def test_other_data_that_comes_in_turn_is_no_growth() -> None:
    other = [n > 300 and (n // 25) % 4 == 0 for n in range(800)]
    norms = [v * (12 if o else 1) for v, o in zip(flat(800, 1.0, width=0.2), other, strict=True)]
    losses = [v * (3 if o else 1) for v, o in zip(falling(800), other, strict=True)]
    assert opened(GradientAcceleration, steps(losses, norm=norms)) == []
