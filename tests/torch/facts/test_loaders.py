"""Data loaders that nobody passed to ``watch_data``."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

import epochal
from epochal.run.run import Run
from tests.conftest import StartRun
from tests.doubles.journals import of_kind
from tests.torch.facts.trainings import Body, evaluate, loader_of, samples, train


@pytest.fixture
def run(start_run: StartRun) -> Run:
    return start_run(facts=True)


def splits(run: Run) -> list[tuple[str, int, int]]:
    run.finish()
    return [(one["name"], one["epoch"], one["samples"]) for one in of_kind(run.dir, "data")]


def test_a_loader_between_whose_batches_steps_come_is_training_data(run: Run) -> None:
    model = Body()
    for _ in range(2):
        train(run, model, loader_of(64))
    assert splits(run) == [("train", 1, 64), ("train-2", 1, 64)]


def test_a_loader_without_gradients_is_evaluation_data_after_the_first_step(run: Run) -> None:
    model, training, other = Body(), loader_of(64), loader_of(32, seed=1)
    evaluate(model, other)
    train(run, model, training)
    evaluate(model, other)
    evaluate(model, training)
    assert splits(run) == [("train", 1, 64), ("eval", 2, 32)]


def test_passes_before_the_first_step_and_over_training_data_are_not_recorded(run: Run) -> None:
    model, training = Body(), loader_of(64)
    list(training)
    train(run, model, training)
    evaluate(model, DataLoader(training.dataset, batch_size=16))
    assert splits(run) == [("train", 2, 64)]


def test_labels_and_copies_are_read(run: Run) -> None:
    train(run, Body(), loader_of(64))
    run.finish()
    (record,) = of_kind(run.dir, "data")
    assert sum(record["labels"].values()) == 64
    assert len(record["hashes"]) == 64
    assert record["dataset_samples"] == 64


def test_a_watched_loader_is_recorded_once(run: Run) -> None:
    loader = epochal.watch_data(loader_of(64), "train", run)
    train(run, Body(), loader)
    assert splits(run) == [("train", 1, 64)]


class Slow(Dataset[Any]):
    """Samples that take long, beside a training that takes little time."""

    def __len__(self) -> int:
        return 24 * 8

    def __getitem__(self, index: int) -> Any:
        time.sleep(0.002)
        return torch.randn(4), index % 3


def test_the_wait_for_a_slow_loader_is_most_of_the_time(run: Run) -> None:
    train(run, Body(), DataLoader(Slow(), batch_size=8))
    run.finish()
    waits = [one["m"] for one in of_kind(run.dir, "metrics") if "time/data_wait" in one["m"]]
    assert waits[-1]["time/data_wait_ms"] >= 16
    assert 0 < waits[-1]["time/data_wait"] < 1


def test_workers_and_other_collate_functions_give_the_same_samples(run: Run) -> None:
    data = samples(64)

    def collate(rows: list[Any]) -> Any:
        return torch.stack([x for x, _ in rows]), torch.stack([y for _, y in rows])

    train(run, Body(), DataLoader(data, 8, num_workers=1))
    own = DataLoader(data, 8, collate_fn=collate)
    train(run, Body(), own)
    run.finish()
    first, second = of_kind(run.dir, "data")
    assert sorted(first["hashes"]) == sorted(second["hashes"])
