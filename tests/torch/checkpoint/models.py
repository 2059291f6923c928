"""Small models that the tests of checkpoints share."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Net(nn.Module):
    """Parameters and buffers, some of them not kept, in a small tree."""

    def __init__(self, hidden: int = 6) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(4, hidden), nn.BatchNorm1d(hidden))
        self.head = nn.Linear(hidden, 2)
        self.register_buffer("mask", torch.ones(hidden), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.encoder(x).relu())
        return out


class Tied(nn.Module):
    """Two names for one weight."""

    def __init__(self, *, tied: bool = True) -> None:
        super().__init__()
        self.embed = nn.Embedding(5, 3)
        self.out = nn.Linear(3, 5, bias=False)
        if tied:
            self.out.weight = self.embed.weight


def values(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(
        a[name].dtype == b[name].dtype and torch.equal(a[name], b[name]) for name in a
    )
