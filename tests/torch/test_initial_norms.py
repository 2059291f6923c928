from collections.abc import Callable

import pytest
import torch
from torch import nn

from epochal.torch.initial_norms import initialised


def counted(model: nn.Module) -> tuple[int, int]:
    parameters = dict(model.named_parameters())
    shapes = {name: tuple(one.shape) for name, one in parameters.items()}
    norms = {name: float(one.detach().norm()) for name, one in parameters.items()}
    fitting, others = initialised(shapes, norms)
    return len(fitting), len(others)


MODELS: list[Callable[[], nn.Module]] = [
    lambda: nn.Sequential(nn.Linear(20, 64), nn.Linear(64, 64)),
    lambda: nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.Conv2d(16, 32, 3)),
    lambda: nn.TransformerEncoderLayer(32, 4, 64),
    lambda: nn.GRU(16, 32),
    lambda: nn.LSTM(16, 32),
    lambda: nn.Sequential(nn.Embedding(100, 32), nn.LayerNorm(32), nn.Linear(32, 32)),
]


@pytest.mark.parametrize("build", MODELS)
def test_new_layers_fit(build: Callable[[], nn.Module]) -> None:
    torch.manual_seed(0)
    fitting, others = counted(build())
    assert fitting >= 3
    assert others == 0


def test_weights_that_were_trained_do_not_fit() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 64), nn.Linear(64, 64), nn.Linear(64, 64))
    with torch.no_grad():
        for one in model.parameters():
            one.mul_(1.25)
    fitting, others = counted(model)
    assert others >= fitting
