from epochal.health.engine import Health
from epochal.health.rules.eval_flat import EvalFlat
from tests.health.curve_records import evals, falling, flat, in_order, noise, steps
from tests.health.machine_records import opened, updated


def test_the_same_figure_again_and_again_is_a_warning() -> None:
    (found,) = opened(EvalFlat, evals([2.3107] * 6, every=50))
    assert (found.severity, found.series) == ("warning", "eval/loss")


def test_a_metric_that_only_wanders_is_a_note() -> None:
    losses = [2 + 0.01 * (-1) ** n for n in range(14)]
    found = opened(EvalFlat, evals(losses, every=50))
    assert [finding.severity for finding in found] == ["info"]


def test_a_metric_that_improves_is_fine() -> None:
    losses = [3 * 0.95**n + around for n, around in enumerate(noise(30, 0.01))]
    assert opened(EvalFlat, evals(losses, every=50)) == []


def test_an_accuracy_of_one_may_stay_there() -> None:
    losses = [3 * 0.95**n for n in range(8)]
    assert opened(EvalFlat, evals(losses, every=50, accuracy=[1.0] * 8)) == []


def test_a_count_may_stay_the_same() -> None:
    losses = [3 * 0.95**n for n in range(8)]
    assert opened(EvalFlat, evals(losses, every=50, samples=[512.0] * 8)) == []


def test_a_metric_of_training_is_not_looked_at() -> None:
    records = [{"log": "metrics", "t": float(n), "step": n, "m": {"lr": 0.1}} for n in range(50)]
    assert opened(EvalFlat, records) == []


def test_a_share_of_few_samples_may_stand_still_while_the_loss_moves() -> None:
    losses = [3 * 0.95**n for n in range(10)]
    accuracies = [0.5, 0.8, *([0.92] * 6), 0.94, 0.94]
    assert opened(EvalFlat, evals(losses, every=50, accuracy=accuracies)) == []


def test_what_was_said_of_a_metric_is_not_said_again_soon() -> None:
    scores = [*([90.17] * 5), 91.1, 92.1, 93.1, 92.1, *([91.17] * 5), 92.1, 90.1, 92.1]
    records = evals([1.0] * len(scores), every=50, bleu=scores)
    for record in records:
        del record["loss"]
    assert [finding.severity for finding in opened(EvalFlat, records)] == ["warning"]


def test_a_metric_that_goes_on_wandering_is_one_note() -> None:
    losses = [2 + around for around in noise(300, 0.01)]
    health = Health(rules=[EvalFlat])
    told = [f for record in evals(losses, every=50) for f in health.feed(record)]
    assert [finding.state for finding in told] == ["open"]
    (grown,) = health.open_findings
    assert int(grown.evidence["evaluations"]) > 200


def test_a_metric_that_moves_again_is_over() -> None:
    losses = [2 + around for around in noise(60, 0.01)]
    losses[40:] = [loss - 0.01 * n for n, loss in enumerate(losses[40:])]
    assert [f.state for f in updated(EvalFlat, evals(losses, every=50))] == ["open", "closed"]


def test_a_model_that_the_rate_no_longer_moves_measures_the_same() -> None:
    rates = [1e-3 if n < 200 else 1e-6 for n in range(600)]
    losses = [2.0, 1.5, 1.2, *([1.1037] * 8)]
    records = in_order(steps(falling(600), lr=rates), evals(losses, every=50))
    assert opened(EvalFlat, records) == []
    awake = in_order(steps(falling(600), lr=1e-3), evals(losses, every=50))
    assert [finding.severity for finding in opened(EvalFlat, awake)] == ["warning"]


def test_noise_that_could_hide_a_change_says_nothing() -> None:
    losses = [1.0 - 0.05 * n for n in range(10)] + [0.5 + around for around in noise(40, 0.02)]
    assert opened(EvalFlat, evals(losses, every=50)) == []


def test_a_return_that_has_reached_its_limit_may_stay_there() -> None:
    returns = [20.0, 180.0, *([500.0] * 10)]
    records = evals([1.0] * len(returns), every=50, **{"return": returns})
    for record in records:
        del record["loss"]
    assert opened(EvalFlat, records) == []


def test_a_figure_that_is_too_coarse_may_come_again() -> None:
    records = evals([0.12] * 8, every=50, accuracy=[0.96875] * 8)
    assert opened(EvalFlat, records) == []


def test_a_loss_that_never_moves_is_of_weights_that_do_not_change() -> None:
    """Returns of games that are played afresh move by chance."""
    losses, returns = [1.81063] * 8, [-31.0 + 0.3 * n for n in range(8)]
    records = in_order(
        steps(flat(400, 1.8), lr=1e-3), evals(losses, every=50, **{"return": returns})
    )
    (found,) = opened(EvalFlat, records)
    assert "all 4 evaluations: the weights of the evaluated model do not change" in found.sentence
    assert "optimizer.step()" in found.advice
