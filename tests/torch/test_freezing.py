from __future__ import annotations

import pytest
import torch
from torch import nn

from epochal.torch import freeze, is_frozen, unfreeze


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2))
        self.encoder_head = nn.Linear(2, 1)
        self.layers = nn.ModuleList(
            nn.ModuleDict({"norm": nn.LayerNorm(2), "mix": nn.Linear(2, 2)}) for _ in range(2)
        )


def frozen_names(model: nn.Module) -> set[str]:
    return {name for name, param in model.named_parameters() if not param.requires_grad}


def test_a_module_is_frozen_by_its_path_and_no_other_of_a_like_name() -> None:
    model = Net()
    assert freeze(model, "encoder") == (
        "encoder.0.weight",
        "encoder.0.bias",
        "encoder.1.weight",
        "encoder.1.bias",
    )
    assert is_frozen(model, "encoder")
    assert not is_frozen(model, "encoder_head")


def test_a_parameter_is_frozen_by_its_path_with_slashes_too() -> None:
    model = Net()
    freeze(model, "encoder/0/weight")
    assert frozen_names(model) == {"encoder.0.weight"}
    assert not is_frozen(model, "encoder")


def test_a_star_stands_for_one_part_of_the_path() -> None:
    model = Net()
    freeze(model, "layers.*.norm")
    assert frozen_names(model) == {
        f"layers.{i}.norm.{p}" for i in (0, 1) for p in ("weight", "bias")
    }


def test_everything_can_be_frozen_and_trained_again() -> None:
    model = Net()
    freeze(model)
    assert is_frozen(model)
    unfreeze(model, "encoder_head")
    assert not is_frozen(model)
    assert not is_frozen(model, "encoder_head")


def test_a_single_parameter_can_be_frozen() -> None:
    param = nn.Parameter(torch.zeros(2))
    freeze(param)
    assert is_frozen(param)
    unfreeze(param)
    assert not is_frozen(param)


def test_a_frozen_parameter_is_not_moved_by_a_gradient_it_had() -> None:
    param = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([param], lr=0.1, weight_decay=0.1)
    param.grad = torch.ones(2)
    freeze(param)
    optimizer.step()
    assert param.tolist() == [1.0, 1.0]


def test_parameters_of_whole_numbers_stay_frozen() -> None:
    model = nn.Module()
    model.codes = nn.Parameter(torch.zeros(2, dtype=torch.int8), requires_grad=False)
    assert unfreeze(model) == ()
    assert is_frozen(model)


def test_a_module_without_parameters_is_not_frozen() -> None:
    assert not is_frozen(nn.ReLU())


def test_a_path_that_matches_nothing_is_an_error_with_a_suggestion() -> None:
    with pytest.raises(ValueError, match="'encodr' matches no parameter; did you mean 'encoder'"):
        freeze(Net(), "encodr")


def test_misuse_names_the_argument() -> None:
    with pytest.raises(ValueError, match="path must be None"):
        freeze(nn.Parameter(torch.zeros(1)), "weight")
    with pytest.raises(TypeError, match="target must be"):
        freeze("encoder")  # type: ignore[arg-type]
