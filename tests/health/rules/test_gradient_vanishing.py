from epochal.health.rules.gradients import GradientVanishing
from tests.health.curve_records import falling, flat, steps
from tests.health.machine_records import START, opened


def test_a_norm_that_falls_away_is_a_warning() -> None:
    norms = flat(400, 1.0, width=0.2) + flat(100, 1e-4, width=0.2)
    (found,) = opened(GradientVanishing, steps(flat(500, 2.3), norm=norms))
    assert found.severity == "warning"
    assert found.evidence["norm"] < 0.001


def test_a_gradient_of_nothing_at_all_is_one_too() -> None:
    norms = [*flat(400, 1.0, width=0.2), *[0.0] * 50]
    (found,) = opened(GradientVanishing, steps(flat(450, 2.3), norm=norms))
    assert found.evidence["norm"] == 0


def test_a_model_that_has_learned_all_needs_no_gradient() -> None:
    norms = flat(400, 1.0, width=0.2) + flat(200, 1e-3, width=0.2)
    losses = flat(400, 2.3) + flat(200, 1e-3)
    assert opened(GradientVanishing, steps(losses, norm=norms)) == []


def test_norms_that_settle_are_healthy() -> None:
    norms = [(0.3 + 5 * 0.99**n) for n in range(1000)]
    assert opened(GradientVanishing, steps(falling(1000), norm=norms)) == []


def test_the_gradient_of_a_game_may_fall() -> None:
    norms = flat(400, 1.0, width=0.2) + flat(100, 1e-4, width=0.2)
    reward = {"log": "metrics", "t": START, "step": 0, "m": {"reward": 1.0}}
    assert opened(GradientVanishing, [reward, *steps(flat(500, 2.3), norm=norms)]) == []


def test_the_gradient_of_a_whole_dataset_ends_where_its_loss_is_lowest() -> None:
    norms = [2.0 * 0.98**n for n in range(600)]
    losses = [1.0 + 0.6 * 0.98**n for n in range(600)]
    assert opened(GradientVanishing, steps(losses, norm=norms)) == []


def test_a_margin_that_is_met_has_no_gradient() -> None:
    norms = flat(400, 1.0, width=0.2) + flat(60, 0.01, width=0.2)
    met = [
        *flat(380, 2.3),
        *(2.3 - 0.05 * n for n in range(20)),
        *(2.3 - 0.05 * min(n + 20, 30) for n in range(60)),
    ]
    assert opened(GradientVanishing, steps(met, norm=norms)) == []
    assert len(opened(GradientVanishing, steps(flat(460, 2.3), norm=norms))) == 1
