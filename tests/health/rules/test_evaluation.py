from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from epochal.health.rules.evaluation import (
    DoubleSoftmax,
    EvalFlat,
    EvalGap,
    EvalMode,
    StaleBatchNorm,
    TooGood,
)
from epochal.records import Record
from tests.health.curve_records import START, evals, falling, in_order, noise, steps
from tests.health.data_records import epoch
from tests.health.machine_records import layers, metrics, opened, step, updated


def passes(number: int, **facts: Any) -> Record:
    known = {"passes": 4, "dropouts": 2, "batchnorms": 0, "module": "head.drop", "share": 0.5}
    event = {"log": "event", "t": START + number + 0.8, "name": "evaluation-passes", "step": number}
    return {**event, **known, **facts}


def trained(count: int, *, every: int, passes_at: int, **facts: Any) -> list[Record]:
    """Steps with an evaluation at every so many, and passes without gradients at others."""
    found: list[Record] = []
    for number in range(1, count):
        found.append(step(number, loss=1.0))
        if number % every == 0:
            found.append({"log": "eval", "t": START + number + 0.5, "step": number, "loss": 1.0})
        if number % passes_at == 0:
            found.append(passes(number, **facts))
    return found


def test_an_evaluation_in_training_mode_is_found() -> None:
    (found,) = opened(EvalMode, trained(31, every=10, passes_at=10))
    assert (found.severity, found.steps) == ("warning", (10, 10))
    assert "2 dropout" in found.sentence
    facts = {"dropouts": 0, "batchnorms": 1}
    (found,) = opened(EvalMode, trained(31, every=10, passes_at=10, **facts))
    assert found.evidence["batchnorms"] == 1


def test_passes_that_belong_to_training_are_fine_and_the_right_mode_closes_it() -> None:
    assert opened(EvalMode, trained(31, every=10, passes_at=1)) == []
    right = [*trained(21, every=10, passes_at=10), *trained(11, every=10, passes_at=10, dropouts=0)]
    assert updated(EvalMode, right)[-1].state == "closed"


def test_an_export_and_a_generated_sample_are_no_evaluation() -> None:
    wrong = trained(21, every=10, passes_at=10)
    assert updated(EvalMode, wrong)[-1].state == "open"
    without = [step(30, loss=1.0), passes(30, dropouts=0)]
    assert updated(EvalMode, [*wrong, *without])[-1].state == "open"
    logged = {"log": "eval", "t": START + 40.5, "step": 40, "loss": 1.0}
    again = [step(40, loss=1.0), logged, passes(40, dropouts=0)]
    assert updated(EvalMode, [*wrong, *without, *again])[-1].state == "closed"


def watched(number: int, norms: Sequence[float]) -> Record:
    return metrics(number, layers(number, "running_stats/{}/norm", list(norms)))


def test_running_statistics_that_never_change_are_found() -> None:
    (found,) = opened(StaleBatchNorm, [watched(n, [1.0 + n, 4.0]) for n in range(10)])
    assert (found.series, found.severity) == ("running_stats/b/norm", "warning")
    assert found.evidence["since_step"] == 0
    assert opened(StaleBatchNorm, [watched(n, [1.0 + 1e-6 * n]) for n in range(50)]) == []
    assert opened(StaleBatchNorm, [watched(n, [1.0 + n // 2]) for n in range(50)]) == []


def test_a_batchnorm_that_the_forward_pass_does_not_use_is_not_stale() -> None:
    def trained(gradient: float) -> list[Record]:
        more = {"params/a.weight/norm": 1.0, "grads/a.weight/norm": gradient}
        records = [watched(n, [4.0]) for n in range(10)]
        return [{**record, "m": record["m"] | more} for record in records]

    assert opened(StaleBatchNorm, trained(0.0)) == []
    assert len(opened(StaleBatchNorm, trained(0.1))) == 1


def test_a_language_model_that_sees_the_next_token_is_too_good() -> None:
    vocabulary = {"vocab_size": 256}
    losses = steps([0.05 + 5.5 * 0.95**n for n in range(300)])
    records = in_order(losses, evals([3.0, 0.3, 0.1, 0.06], every=50))
    (found,) = opened(TooGood, records, config=vocabulary)
    assert (found.severity, found.series) == ("warning", "eval/loss")
    assert "causal mask" in found.advice
    assert opened(TooGood, records) == []  # other models may learn that fast
    honest = in_order(losses, evals([4.0, 3.0, 2.5, 2.3], every=50))
    assert opened(TooGood, honest, config=vocabulary) == []


def test_the_same_value_again_and_again_is_a_warning() -> None:
    (found,) = opened(EvalFlat, evals([2.3107] * 6, every=50))
    assert (found.severity, found.series) == ("warning", "eval/loss")
    # A loss has digits enough to move, whatever returns of games do.
    returns = [-31.0 + 0.3 * n for n in range(8)]
    assert len(opened(EvalFlat, evals([1.81063] * 8, every=50, **{"return": returns}))) == 1


def test_a_value_that_may_stay_is_fine() -> None:
    falls = [3 * 0.95**n + around for n, around in enumerate(noise(30, 0.01))]
    assert opened(EvalFlat, evals(falls, every=50)) == []
    assert opened(EvalFlat, evals(falls[:8], every=50, accuracy=[0.92135] * 8)) == []
    # Few digits are too coarse.
    assert opened(EvalFlat, evals([0.12] * 8, every=50, accuracy=[0.96875] * 8)) == []


def test_a_model_that_the_learning_rate_no_longer_moves_measures_the_same() -> None:
    rates = [1e-3 if n < 200 else 1e-6 for n in range(600)]
    losses = [2.0, 1.5, 1.2, *([1.1037] * 8)]
    records = in_order(steps(falling(600), lr=rates), evals(losses, every=50))
    assert opened(EvalFlat, records) == []
    awake = in_order(steps(falling(600), lr=1e-3), evals(losses, every=50))
    assert [finding.severity for finding in opened(EvalFlat, awake)] == ["warning"]


EPOCHS = [n / 400 for n in range(300)]
TRAIN = [2.0 * 0.992**n for n in range(300)]


def test_an_evaluation_that_stays_behind_in_the_first_epoch_is_a_warning() -> None:
    records = in_order(steps(TRAIN, epoch=EPOCHS), evals([2.5, 2.6, 2.4, 2.4, 2.3], every=50))
    (found,) = opened(EvalGap, records)
    assert (found.severity, found.evidence["eval"]) == ("warning", 2.4)
    assert "eval()" in found.advice
    # Without the epoch, the first evaluations count.
    assert len(opened(EvalGap, in_order(steps(TRAIN), evals([2.5] * 5, every=50)))) == 1


def test_losses_that_fall_together_are_fine() -> None:
    together = evals([1.5 * TRAIN[50 * n + 49] for n in range(5)], every=50)
    assert opened(EvalGap, in_order(steps(TRAIN, epoch=EPOCHS), together)) == []
    # What has gained since the first evaluation, and a gap after many epochs.
    gained = evals([4.0, 2.6, 2.5, 2.5, 2.4], every=50)
    assert opened(EvalGap, in_order(steps(TRAIN, epoch=EPOCHS), gained)) == []
    late = in_order(steps(TRAIN, epoch=[n / 10 for n in range(300)]), evals([1.8] * 5, every=50))
    assert opened(EvalGap, late) == []


def test_rare_samples_with_a_large_loss_are_no_gap() -> None:
    losses = [1.0 if n % 12 == 0 else 0.1 * 0.99 ** (n // 4) for n in range(400)]
    records = in_order(steps(losses), evals([0.16, 0.155, 0.15, 0.15, 0.15], every=80))
    assert opened(EvalGap, records) == []


def test_a_perfect_first_evaluation_is_a_warning() -> None:
    records = in_order(steps(falling(100)), evals([0.15], every=50, accuracy=[0.999]))
    (found,) = opened(TooGood, records)
    assert (found.severity, found.evidence["value"]) == ("warning", 0.999)
    assert "labels among the inputs" in found.advice
    soon = in_order(steps(falling(50)), evals([0.15] * 2, every=20, accuracy=[0.8, 0.999]))
    assert len(opened(TooGood, soon)) == 1


def test_one_answer_among_the_inputs_is_one_finding_that_stays() -> None:
    losses = [2.3 if n < 5 else 0.01 for n in range(200)]
    told = evals([0.01, 0.008, 0.007], every=50, accuracy=[1.0, 1.0, 1.0])
    said = updated(TooGood, in_order(steps(losses), told), config={"num_classes": 10})
    assert [finding.state for finding in said] == ["open"]


def test_what_took_its_time_is_fine() -> None:
    late = evals([2.0, 1.0, 0.5], every=100, accuracy=[0.93, 0.995, 0.999])
    assert opened(TooGood, in_order(steps(falling(400)), late)) == []
    first = evals([0.15], every=900, accuracy=[0.993])
    assert opened(TooGood, in_order(steps(falling(1000)), first)) == []
    nan = in_order(steps(falling(100)), evals([math.nan], every=50, accuracy=[math.nan]))
    assert opened(TooGood, nan) == []


def test_an_easy_task_is_known_early_but_by_small_margins() -> None:
    training = steps(falling(100, start=2.3, floor=1.1))
    easy = evals([0.28], every=50, accuracy=[0.992])
    assert opened(TooGood, in_order(training, easy)) == []
    given = evals([0.06], every=50, accuracy=[0.992])
    assert len(opened(TooGood, in_order(training, given))) == 1


def test_data_without_the_label_among_its_inputs_is_fine() -> None:
    records = in_order(steps(falling(100)), evals([0.01], every=50, accuracy=[0.999]))
    clean = epoch(1, range(8), targets={"samples": 400, "classes": 4, "entropy": 1.38})
    assert opened(TooGood, [clean, *records]) == []
    told = {"samples": 400, "classes": 4, "features": [7]}
    assert len(opened(TooGood, [{**clean, "telling": told}, *records])) == 1


ACCURACIES = [0.3, 0.45, 0.5, 0.53, 0.53, 0.54]
FLOOR = math.log1p(9 / math.e)
CLASSES = {"num_classes": 10}


def test_a_loss_that_the_accuracy_decides_is_a_warning() -> None:
    losses = [FLOOR + 1 - accuracy + 0.01 for accuracy in ACCURACIES]
    (found,) = opened(DoubleSoftmax, evals(losses, every=50, accuracy=ACCURACIES), config=CLASSES)
    assert (found.severity, found.evidence["floor"]) == ("warning", FLOOR)
    assert "softmax" in found.sentence


def test_a_loss_that_logits_have_too_is_fine() -> None:
    for losses, accuracies in (
        ([2.0, 1.6, 1.4, 1.3, 1.25, 1.2], ACCURACIES),
        ([2.30] * 8, [0.12] * 8),
        ([2.24] * 8, [0.3] * 8),
    ):
        records = evals(losses, every=50, accuracy=accuracies)
        assert opened(DoubleSoftmax, records, config=CLASSES) == []
    # A loss that passes by within a few steps.
    accuracies = [0.73, 0.74, 0.75, 0.76, 0.77, 0.78]
    fast = evals([FLOOR + 1.02 - one for one in accuracies], every=5, accuracy=accuracies)
    assert opened(DoubleSoftmax, fast, config=CLASSES) == []
