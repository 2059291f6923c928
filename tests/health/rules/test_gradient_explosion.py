from epochal.health.rules.gradients import GradientExplosion
from tests.health.curve_records import falling, flat, noise, steps
from tests.health.machine_records import opened, updated


def test_norms_fifty_times_the_usual_are_found_within_steps() -> None:
    norms = flat(400, 1.0, width=0.2) + flat(50, 50.0, width=0.2)
    found = opened(GradientExplosion, steps(falling(400) + flat(50, 5.0), norm=norms))
    assert found[0].steps == (400, 400)
    assert found[-1].severity == "warning"
    assert found[-1].t - found[0].t <= 20


def test_a_thousandfold_norm_is_an_error() -> None:
    norms = flat(400, 1.0, width=0.2) + flat(50, 1000.0, width=0.2)
    lost = falling(400) + flat(50, 9.0)
    assert opened(GradientExplosion, steps(lost, norm=norms))[-1].severity == "error"


def test_a_growth_without_a_jump_is_found_in_the_end() -> None:
    norms = flat(400, 1.0, width=0.2) + [1.05**n for n in range(120)]
    lost = falling(400) + flat(120, 9.0)
    assert opened(GradientExplosion, steps(lost, norm=norms))[-1].severity == "error"


def test_natural_batches_make_no_warning() -> None:
    norms = [2.0 ** (2 * around) for around in noise(4000, 0.5)]
    found = opened(GradientExplosion, steps(falling(4000), norm=norms))
    assert [finding for finding in found if finding.severity != "info"] == []


def test_it_stays_open_until_the_norm_is_back() -> None:
    norms = flat(400, 1.0, width=0.2) + flat(300, 50.0, width=0.2) + flat(100, 1.0, width=0.2)
    losses = falling(400) + flat(300, 5.0) + flat(100, 2.5)
    closed = updated(GradientExplosion, steps(losses, norm=norms))[-1]
    assert closed.state == "closed"
    assert closed.steps is not None
    assert 690 < closed.steps[1] < 710


def test_a_norm_no_larger_than_at_the_beginning_is_no_explosion() -> None:
    fallen = [30.0 * 0.97**n for n in range(300)] + flat(300, 0.003, width=0.2)
    norms = fallen + flat(20, 0.6, width=0.2)
    assert opened(GradientExplosion, steps(falling(620), norm=norms)) == []


def test_norms_that_grow_slowly_while_the_loss_is_as_low_as_ever_are_fine() -> None:
    norms = flat(400, 1.0, width=0.2) + [1.05 ** min(n, 80) for n in range(120)]
    assert opened(GradientExplosion, steps(falling(520), norm=norms)) == []
    lost = falling(400) + flat(120, 7.0)
    assert opened(GradientExplosion, steps(lost, norm=norms))[-1].severity == "warning"


def test_norms_far_above_the_usual_do_no_harm_while_the_loss_stands_or_falls() -> None:
    norms = flat(400, 1.0, width=0.2) + flat(50, 300.0, width=0.2)
    found = opened(GradientExplosion, steps(falling(450), norm=norms))
    assert {one.severity for one in found} == {"info"}
