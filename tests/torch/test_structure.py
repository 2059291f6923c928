from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import nn

from epochal.torch.structure import structural_hash

SCRIPT = """
from torch import nn
from epochal.torch.structure import structural_hash
print(structural_hash(nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))))
"""


def net(hidden: int = 8) -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, hidden), nn.BatchNorm1d(hidden), nn.Linear(hidden, 2))


def test_it_is_64_digits_and_the_same_in_another_process() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == structural_hash(net())
    assert len(structural_hash(net())) == 64


def test_it_does_not_change_between_releases() -> None:
    assert structural_hash(nn.Linear(2, 3)) == PINNED


def test_values_dtype_and_training_mode_do_not_change_it() -> None:
    assert structural_hash(net().double().eval()) == structural_hash(net())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch.compile itself
def test_wrappers_of_torch_do_not_change_it() -> None:
    assert structural_hash(nn.DataParallel(net())) == structural_hash(net())
    assert structural_hash(torch.compile(net())) == structural_hash(net())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "other",
    [
        net(9),
        nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 2)),
        nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2), nn.ReLU()),
        nn.Sequential(nn.Linear(4, 8, bias=False), nn.BatchNorm1d(8), nn.Linear(8, 2)),
        nn.ModuleDict({"a": nn.Linear(4, 8), "b": nn.BatchNorm1d(8), "c": nn.Linear(8, 2)}),
    ],
)
def test_another_architecture_has_another(other: nn.Module) -> None:
    assert structural_hash(other) != structural_hash(net())


def test_a_model_is_asked_for_its_own() -> None:
    class Own(nn.Module):
        def structural_hash(self) -> str:
            return "ab" * 32

    assert structural_hash(Own()) == "ab" * 32
    assert structural_hash(nn.Sequential(Own())) != structural_hash(nn.Sequential(nn.Identity()))


def test_layers_without_weights_yet_have_one_too() -> None:
    assert structural_hash(nn.LazyLinear(3)) != structural_hash(nn.Linear(2, 3))


def test_what_is_no_model_is_an_error() -> None:
    with pytest.raises(TypeError, match="model must be a torch module"):
        structural_hash([1])  # type: ignore[arg-type]


PINNED = "6cde65cbf104efbf6b3dbe0e71977e2101d3f489c1737abafbfd518b0efa19dc"
