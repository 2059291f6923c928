from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

import epochal
from epochal.torch.data.pairs import PairFigures, PairReader
from tests.conftest import StartRun
from tests.doubles.journals import of_kind


def drawn(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape)))


def figures(inputs: Tensor, targets: Tensor, *, size: int = 32) -> dict[str, Any]:
    reader, figures = PairReader(), PairFigures()
    for first in range(0, len(inputs), size):
        batch = [inputs[first : first + size], targets[first : first + size]]
        facts = reader.read(batch, len(batch[0]))
        if facts is not None:
            figures.add(facts, None)
    return figures.fields()


def test_classes_cost_their_entropy() -> None:
    labels = torch.tensor([0, 0, 0, 1]).repeat(256)
    found = figures(drawn(1024, 4), labels)["targets"]
    expected = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    assert (found["classes"], found["majority"]) == (2, 0.75)
    assert found["entropy"] == pytest.approx(expected, rel=1e-3)


def test_labels_have_a_range_without_the_ignored_one() -> None:
    labels = torch.tensor([3, -100, -1, 10]).repeat(8)
    assert figures(drawn(32, 4), labels)["label_range"] == [-1, 10]
    assert figures(drawn(32, 4), drawn(32)).get("label_range") is None


def test_shares_of_two_numbers_have_a_majority() -> None:
    found = figures(drawn(400, 4), (torch.arange(400) % 4 == 0).float())
    assert found["targets"]["majority"] == pytest.approx(0.75)


def test_constant_features_are_counted() -> None:
    inputs = drawn(256, 3, 2)
    inputs[:, 1] = 7
    inputs[:-1, 0, 0] = 1  # all but the last
    found = figures(inputs, torch.arange(256) % 4)
    assert (found["constant_features"], found["features"]) == (2, 6)
    assert "constant_features" not in figures(inputs[:64], torch.arange(64) % 4)
    tokens = torch.ones(256, 5, dtype=torch.int64)
    assert "constant_features" not in figures(tokens, torch.arange(256) % 4)


def test_numbers_have_a_variance_around_the_mean_at_their_place() -> None:
    pictures = 0.5 * drawn(1024, 2, 3) + torch.arange(6).view(2, 3)
    found = figures(drawn(1024, 4), pictures)["targets"]
    assert found["variance"] == pytest.approx(0.25, rel=0.05)
    assert "entropy" not in found


def test_targets_of_several_widths_have_one_variance() -> None:
    reader, together = PairReader(), PairFigures()
    for width in (3, 5, 5):
        facts = reader.read((drawn(64, 4), drawn(64, width)), 64)
        assert facts is not None
        together.add(facts, None)
    assert together.fields()["targets"]["variance"] == pytest.approx(1, rel=0.3)


def test_near_inputs_with_near_targets_are_associated() -> None:
    inputs = drawn(1024, 8)
    targets = inputs[:, :2].sum(1)
    own = figures(inputs, targets)["association"]
    apart = figures(inputs, targets[torch.randperm(1024)])["association"]
    assert own["correlation"] > 10 * own["error"]
    assert own["nearest"] > 5 * own["nearest_error"]
    assert abs(apart["correlation"]) < 5 * apart["error"]
    assert abs(apart["nearest"]) < 5 * apart["nearest_error"]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_label_among_the_inputs_is_told(start_run: StartRun, workers: int) -> None:
    labels = torch.arange(1200) % 3
    inputs = drawn(1200, 2, 10)
    inputs[:, 1, 4:7] = torch.nn.functional.one_hot(labels).float()
    run = start_run()
    data = TensorDataset(inputs, labels)
    for _ in epochal.watch_data(DataLoader(data, batch_size=32, num_workers=workers), "train"):
        pass
    run.finish()
    record = of_kind(run.dir, "data")[0]
    assert record["telling"]["features"] == [14, 15, 16]
    assert record["telling"]["classes"] == 3


def test_features_that_are_constant_or_leave_classes_together_tell_nothing() -> None:
    labels = torch.arange(960) % 3
    inputs = drawn(960, 6)
    inputs[:, 2] = 1
    inputs[:, 3] = (labels == 0).float()
    assert "telling" not in figures(inputs, labels)


def test_a_target_of_a_regression_among_the_inputs_is_told() -> None:
    inputs, targets = drawn(320, 6), drawn(320)
    inputs[:, 4] = 20 - 3 * targets
    assert figures(inputs, targets)["telling"] == {"samples": 320, "classes": 0, "features": [4]}
    inputs[:, 4] += 0.1 * drawn(320, 6)[:, 0]  # a feature that is only close to the target
    assert "telling" not in figures(inputs, targets)
    # An autoencoder has its input as its target.
    assert "telling" not in figures(inputs, inputs.clone())


def test_inputs_of_several_widths_are_not_compared_with_a_target() -> None:
    reader = PairReader()
    for width in (3, 5) * 8:
        # Far from 0, sums over samples of other widths would look like a correlation.
        facts = reader.read((1000 + drawn(32, width), 1000 + drawn(32)), 32)
    assert facts is not None
    assert facts.telling is None


def test_pairs_that_are_no_inputs_and_targets_are_left_out() -> None:
    assert PairReader().read([drawn(4, 2)], 4) is None
    assert PairReader().read((drawn(4, 2), drawn(4, 2), drawn(4)), 4) is None
    assert PairReader().read((drawn(4, 2), drawn(3)), 4) is None
    facts = PairReader().read({"input_ids": drawn(8, 2).long(), "labels": torch.arange(8)}, 8)
    assert facts is not None
    assert facts.targets is not None


def test_inputs_that_are_not_finite_have_no_association() -> None:
    inputs = drawn(64, 3)
    inputs[0, 0] = math.nan
    found = figures(inputs, torch.arange(64) % 4)
    assert "association" not in found
    assert found["targets"]["classes"] == 4


@pytest.mark.parametrize("width", [2, 9000])
@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float8_e4m3fn])
def test_inputs_of_floats_that_numpy_does_not_know_are_read(kind: torch.dtype, width: int) -> None:
    labels = torch.arange(240) % 4
    facts = PairReader().read((labels[:, None].repeat(1, width).to(kind), labels), 240)
    assert facts is not None
    assert facts.association is not None
    assert facts.telling is not None
    assert facts.telling[:2] == (240, 4)
