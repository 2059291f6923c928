from __future__ import annotations

import math
from typing import Any

import pytest

from epochal.health.rules.baseline import NoBetterThanBaseline
from epochal.records import Record
from tests.health.curve_records import START, evals, falling, flat, in_order, noise, steps
from tests.health.data_records import epoch
from tests.health.machine_records import opened, updated

GUESSES = flat(300, 2.303, width=0.005)
CHANCE = [0.101, 0.099, 0.104, 0.1, 0.098, 0.1]
CLASSES = {"model": {"num_classes": 10}}


def data_of(**targets: float) -> Record:
    """What ``watch_data`` has after 32 batches."""
    fields: dict[str, Any] = {"targets": {"samples": 1024, **targets}}
    return epoch(1, range(8), dataset_samples=9000, **fields)


@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_an_accuracy_of_one_in_ten_is_guessing_among_ten(scale: float) -> None:
    told = evals([5.0] * 6, every=50, accuracy=[scale * one for one in CHANCE])
    (found,) = opened(NoBetterThanBaseline, in_order(steps(GUESSES), told), config=CLASSES)
    assert (found.severity, found.steps) == ("warning", (49, 149))
    assert (found.evidence["baseline"], found.evidence["evaluations"]) == (0.1, 3)
    assert "labels" in found.advice


def test_the_last_layer_of_a_watched_model_tells_the_number_of_classes() -> None:
    model = {"log": "event", "t": START, "name": "model", "outputs": 10, "last_layer": "head"}
    records = in_order(steps(GUESSES), evals([2.303] * 6, every=50))
    (found,) = opened(NoBetterThanBaseline, [model, *records])
    assert "guessing among 10 classes" in found.sentence
    # Labels do as well, if training starts from a guess among them.
    labels = epoch(1, range(8), label_range=[0, 9])
    assert len(opened(NoBetterThanBaseline, [labels, *records])) == 1
    assert opened(NoBetterThanBaseline, [{**labels, "label_range": [0, 5]}, *records]) == []
    # A regression.
    for outputs in (1, 3):
        assert opened(NoBetterThanBaseline, [{**model, "outputs": outputs}, *records]) == []


def test_an_evaluation_at_what_a_constant_answer_costs_is_a_warning() -> None:
    for targets, level in (
        ({"entropy": 1.2, "majority": 0.5}, 1.21),
        ({"variance": 5900.0}, 5850.0),
    ):
        first = [3 * level, 2 * level, 1.5 * level]
        records = in_order(steps([*first, *flat(297, level)]), evals([level] * 6, every=50))
        (found,) = opened(NoBetterThanBaseline, [data_of(**targets), *records])
        assert (found.steps, found.series) == ((49, 149), "eval/loss")
        assert "always predicting the average target" in found.sentence


def test_the_most_frequent_class_is_a_baseline() -> None:
    told = evals([9.0] * 6, every=50, accuracy=[0.71, 0.7, 0.69, 0.7, 0.7, 0.7])
    records = in_order(steps(flat(300, 9.0)), told)
    (found,) = opened(NoBetterThanBaseline, [data_of(entropy=0.6, majority=0.7), *records])
    assert found.evidence["baseline"] == 0.7
    # A loss below that of a constant answer shows that something is learned of the rare ones.
    learns = in_order(steps(flat(300, 0.5)), evals([0.5] * 6, every=50, accuracy=[0.7] * 6))
    assert opened(NoBetterThanBaseline, [data_of(entropy=0.6, majority=0.7), *learns]) == []


def test_the_targets_of_the_evaluation_data_count_first() -> None:
    records = in_order(steps(flat(300, 9.0)), evals([9.0] * 6, every=50))
    train, other = data_of(variance=10.0), {**data_of(variance=9.0), "name": "eval"}
    assert opened(NoBetterThanBaseline, [train, *records]) == []
    assert len(opened(NoBetterThanBaseline, [other, train, *records])) == 1


def test_targets_that_depend_on_the_inputs_need_patience() -> None:
    association = {"batches": 32, "correlation": 0.3, "error": 0.007}
    association |= {"nearest": 0.3, "nearest_error": 0.01}
    records = in_order(steps(flat(300, 9.0)), evals([9.0] * 6, every=50))
    related = {**data_of(variance=9.0), "association": association}
    assert opened(NoBetterThanBaseline, [related, *records]) == []


def test_rare_classes_are_learned_late() -> None:
    records = in_order(steps(flat(300, 0.22)), evals([0.22] * 6, every=50))
    assert opened(NoBetterThanBaseline, [data_of(classes=2, entropy=0.22), *records]) == []
    assert len(opened(NoBetterThanBaseline, [data_of(variance=0.22), *records])) == 1


def test_without_a_baseline_evaluations_are_compared_with_the_first_ones() -> None:
    records = in_order(steps(flat(900, 0.8)), evals([0.8] * 18, every=50))
    (found,) = opened(NoBetterThanBaseline, records)
    assert (found.severity, found.evidence["evaluations"]) == ("warning", 14)
    assert "the first evaluations" in found.sentence
    falling = evals([0.8 - 0.005 * n for n in range(18)], every=50)
    assert opened(NoBetterThanBaseline, in_order(steps(flat(900, 0.8)), falling)) == []


def test_a_long_flat_end_is_compared_with_the_first_evaluations_of_the_run() -> None:
    levels = [2.3 + 8 * math.exp(-n / 300) for n in range(10_000)]
    losses = [a + b for a, b in zip(levels, noise(10_000, 0.05), strict=True)]
    told = [losses[n] + 0.1 for n in range(49, 10_000, 50)]
    assert opened(NoBetterThanBaseline, in_order(steps(losses), evals(told, every=50))) == []
    # Accuracies that no longer change are those of a model that has learned.
    shares = [0.3, 0.5, 0.7, *[0.8] * 197]
    records = in_order(steps(losses), evals(told, every=50, accuracy=shares))
    assert opened(NoBetterThanBaseline, records) == []
    # Nor is a model that has memorised after it learned.
    rose = [*(1.0 - 0.02 * n for n in range(25)), *flat(175, 1.02, width=0.002)]
    assert opened(NoBetterThanBaseline, in_order(steps(losses), evals(rose, every=50))) == []
    # After as many evaluations, a model that has learned nothing is still found.
    records = in_order(steps(flat(5000, 0.8)), evals(flat(100, 0.8, width=0.005), every=50))
    assert len(opened(NoBetterThanBaseline, records)) == 1


def test_a_training_loss_that_falls_needs_patience() -> None:
    losses = [2.4 - 0.0004 * n for n in range(300)]
    records = in_order(steps(losses), evals([2.3] * 6, every=50, accuracy=CHANCE))
    assert opened(NoBetterThanBaseline, records, config=CLASSES) == []
    # Memorised labels: the training loss falls, and no evaluation gains from it.
    long = [2.4 * 0.998**n for n in range(900)]
    records = in_order(steps(long), evals([2.3] * 18, every=50, accuracy=3 * CHANCE))
    (found,) = opened(NoBetterThanBaseline, records, config=CLASSES)
    assert found.evidence["evaluations"] == 14


def test_a_warm_up_needs_patience() -> None:
    rates = [1e-3 * min(1.0, n / 200) for n in range(300)]
    told = evals([2.303] * 6, every=50, accuracy=CHANCE)
    warm = in_order(steps(GUESSES, lr=rates), told)
    assert opened(NoBetterThanBaseline, warm, config=CLASSES) == []
    plain = in_order(steps(GUESSES, lr=1e-3), told)
    assert len(opened(NoBetterThanBaseline, plain, config=CLASSES)) == 1


def test_a_model_that_learns_is_fine_and_closes_it() -> None:
    losses = falling(300, start=2.3, floor=0.4)
    told = evals(
        [losses[50 * n + 49] for n in range(6)], every=50, accuracy=[0.1, 0.2, 0.4, 0.5, 0.6, 0.7]
    )
    for data in ([], [data_of(entropy=2.3, majority=0.1)]):
        assert (
            opened(NoBetterThanBaseline, [*data, *in_order(steps(losses), told)], config=CLASSES)
            == []
        )
    late = in_order(
        steps(GUESSES + falling(300, start=2.3, floor=0.4)),
        evals([*[2.303] * 6, 2.0, 1.5, 1.0], every=50),
    )
    said = updated(NoBetterThanBaseline, late, config=CLASSES)
    assert [finding.state for finding in said] == ["open", "closed"]
    # An easy task that is perfect is not at 1 % of a hundred classes.
    perfect = in_order(steps(flat(300, 0.01)), evals([0.01] * 6, every=50, accuracy=[0.999] * 6))
    assert opened(NoBetterThanBaseline, perfect, config={"num_classes": 100}) == []
