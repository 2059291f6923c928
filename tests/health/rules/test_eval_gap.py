from epochal.health.rules.eval_gap import EvalGap
from tests.health.curve_records import evals, falling, flat, in_order, steps
from tests.health.machine_records import opened

EPOCHS = [n / 400 for n in range(300)]
TRAIN = [2.0 * 0.992**n for n in range(300)]


def test_an_evaluation_that_stays_behind_in_the_first_epoch_is_a_warning() -> None:
    records = in_order(steps(TRAIN, epoch=EPOCHS), evals([2.5, 2.6, 2.4, 2.4, 2.3], every=50))
    (found,) = opened(EvalGap, records)
    assert "computes something else in evaluation" in found.sentence
    assert "BatchNorm" in found.advice
    assert "eval()" in found.advice


def test_losses_that_fall_together_are_fine() -> None:
    figures = [1.5 * TRAIN[50 * n + 49] for n in range(5)]
    records = in_order(steps(TRAIN, epoch=EPOCHS), evals(figures, every=50))
    assert opened(EvalGap, records) == []


def test_a_gap_after_many_epochs_is_another_matter() -> None:
    epochs = [n / 10 for n in range(300)]
    records = in_order(steps(TRAIN, epoch=epochs), evals([1.8, 1.6, 1.7, 1.8, 1.9], every=50))
    assert opened(EvalGap, records) == []


def test_sorted_data_is_told_by_an_evaluation_worse_than_the_start() -> None:
    losses = [2.3 * 0.9**n for n in range(250)]
    epochs = [n / 600 for n in range(250)]
    records = in_order(steps(losses, epoch=epochs), evals([15.0, 18.0, 17.0], every=80))
    (found,) = opened(EvalGap, records)
    assert "Shuffle" in found.advice
    assert "not the same batch in every step" in found.advice


def test_sorted_data_is_learned_within_the_first_points() -> None:
    losses = [2.8, 1.6, 0.7, *flat(247, 0.5)]
    epochs = [n / 600 for n in range(250)]
    records = in_order(steps(losses, epoch=epochs), evals([4.1, 4.0, 4.1], every=80))
    (found,) = opened(EvalGap, records)
    assert "1.4 times where training started (2.8000)" in found.sentence


def test_an_ordinary_training_is_fine() -> None:
    losses = falling(300)
    records = in_order(
        steps(losses, epoch=EPOCHS), evals([losses[50 * n + 49] for n in range(6)], every=50)
    )
    assert opened(EvalGap, records) == []


def test_the_sentence_names_the_evaluation_that_was_compared() -> None:
    losses = [*flat(60, 1.0), *flat(60, 4.0), *flat(60, 1.9)]
    records = in_order(steps(losses), evals([2.0, 4.0, 4.2], every=60))
    for found in opened(EvalGap, records):
        assert "from 4" in found.sentence


def test_rare_samples_with_a_large_loss_are_no_gap() -> None:
    losses = [1.0 if n % 12 == 0 else 0.1 * 0.99 ** (n // 4) for n in range(400)]
    records = in_order(steps(losses), evals([0.16, 0.155, 0.15, 0.15, 0.15], every=80))
    assert opened(EvalGap, records) == []


def test_an_evaluation_that_has_gained_since_its_first_is_fine() -> None:
    gained = [4.0, 2.6, 2.5, 2.5, 2.4]
    records = in_order(steps(TRAIN, epoch=EPOCHS), evals(gained, every=50))
    assert opened(EvalGap, records) == []


def test_an_evaluation_that_falls_behind_in_the_first_epoch_is_a_warning() -> None:
    train = [2.0 * 0.985**n for n in range(300)]
    levels = [train[50 * n + 40] for n in range(6)]
    times = [1.2, 1.3, 3.5, 4.0, 4.5, 5.0]
    behind = [many * level for many, level in zip(times, levels, strict=True)]
    (found,) = opened(EvalGap, in_order(steps(train, epoch=EPOCHS), evals(behind, every=50)))
    assert "the evaluation loss went from 1.3" in found.sentence
    assert "BatchNorm" in found.advice
    # Another measure, such as a sum over words, is as many times as large from the first on.
    summed = evals([4 * level for level in levels], every=50)
    assert opened(EvalGap, in_order(steps(train, epoch=EPOCHS), summed)) == []
    # Without the epoch, samples may have come many times.
    assert opened(EvalGap, in_order(steps(train), evals(behind, every=50))) == []
