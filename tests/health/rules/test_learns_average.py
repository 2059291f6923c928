from epochal.health.engine import Health
from epochal.health.finding import Finding
from epochal.health.rules.learns_average import LearnsAverage
from epochal.records import Record
from tests.health.curve_records import evals, falling, flat, in_order, steps
from tests.health.machine_records import opened

STANDS = [2.2, 2.2, 2.19, 2.2, 2.2, 2.21, 2.2, 2.2, 2.2, 2.21, 2.2, 2.2, 2.19, 2.2]


def test_an_evaluation_that_stays_at_its_first_figure_is_a_warning() -> None:
    records = in_order(steps(flat(700, 2.19)), evals(STANDS, every=50, accuracy=[0.16] * 14))
    (found,) = opened(LearnsAverage, records, config={"num_classes": 10})
    assert "labels belong to their inputs" in found.advice
    assert "learned nothing" in found.sentence
    assert "optimizer.step()" in found.advice


def test_what_fell_at_first_has_learned_an_average() -> None:
    losses = [3.0 - 0.08 * n for n in range(10)] + flat(690, 2.19)
    (found,) = opened(LearnsAverage, in_order(steps(losses), evals(STANDS, every=50)))
    assert "learned an average" in found.sentence
    assert "optimizer.step()" not in found.advice


def test_a_fall_within_the_noise_of_single_losses_is_no_learning() -> None:
    losses = [2.3, 2.25, 2.3, 2.28, 2.27, 2.3, 2.26, 2.29, *flat(692, 2.19, width=0.1)]
    (found,) = opened(LearnsAverage, in_order(steps(losses), evals(STANDS, every=50)))
    assert "learned nothing" in found.sentence


def test_eight_evaluations_are_enough_at_the_end_of_a_run() -> None:
    records = in_order(steps(flat(400, 2.19)), evals(STANDS[:8], every=50))
    assert opened(LearnsAverage, records) == []
    (found,) = at_end(records)
    assert found.rule == "learns-average"
    late = [*STANDS[:6], 2.0, 1.7]
    assert at_end(in_order(steps(flat(400, 2.19)), evals(late, every=50))) == []
    few = in_order(steps(flat(350, 2.19)), evals(STANDS[:7], every=50))
    assert at_end(few) == []


def at_end(records: list[Record]) -> list[Finding]:
    health = Health(rules=[LearnsAverage])
    for record in records:
        health.feed(record, rank=0, writer="loop")
    return health.close()


def test_an_accuracy_above_chance_is_no_average() -> None:
    records = in_order(steps(flat(700, 2.19)), evals(STANDS, every=50, accuracy=[0.5] * 14))
    assert opened(LearnsAverage, records, config={"num_classes": 10}) == []


def test_a_training_that_converged_is_fine() -> None:
    losses = [5.0] * 10 + flat(690, 0.09)
    records = in_order(steps(losses), evals([0.09, *[0.088] * 13], every=50))
    assert opened(LearnsAverage, records) == []


def test_a_training_that_learns_is_fine() -> None:
    losses = falling(700)
    records = in_order(steps(losses), evals([losses[50 * n + 49] for n in range(14)], every=50))
    assert opened(LearnsAverage, records) == []


def test_a_product_of_small_factors_starts_late() -> None:
    losses = [*flat(400, 0.7), *(0.7 - 0.001 * n for n in range(300))]
    records = in_order(steps(losses), evals([losses[50 * n + 49] for n in range(14)], every=50))
    assert opened(LearnsAverage, records) == []


def test_a_small_fall_is_an_average_if_nothing_else_of_the_evaluation_moves() -> None:
    losses = [*[5.05, 5.04, 5.03, 5.0], *[4.94] * 10]
    off = [5.8, 6.5, 7.3, 4.5, 4.7, 6.2, 5.4, 5.7, 6.5, 6.8, 4.9, 6.2, 5.3, 5.7]
    train = steps(flat(700, 4.97, width=0.005))
    (found,) = opened(LearnsAverage, in_order(train, evals(losses, every=50, pixels_off=off)))
    assert "labels belong to their inputs" in found.advice
    better = [one - 0.4 * n for n, one in enumerate(off)]
    assert opened(LearnsAverage, in_order(train, evals(losses, every=50, pixels_off=better))) == []
    # The loss alone does not say so, and neither does the time that an evaluation takes.
    assert opened(LearnsAverage, in_order(train, evals(losses, every=50))) == []
    assert opened(LearnsAverage, in_order(train, evals(losses, every=50, runtime=off))) == []


def test_an_evaluation_that_was_better_for_a_while_has_learned() -> None:
    swings = [*STANDS[:6], 2.0, 1.98, 2.05, *STANDS[9:]]
    training = steps(flat(700, 2.19))
    assert opened(LearnsAverage, in_order(training, evals(swings, every=50))) == []
    assert len(opened(LearnsAverage, in_order(training, evals(STANDS, every=50)))) == 1
