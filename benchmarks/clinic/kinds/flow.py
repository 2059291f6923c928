"""A normalizing flow: the density of points, as a chain of maps that can be inverted."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.clinic.kinds.tables import parted
from benchmarks.clinic.task import Kind, OptimizerChoice, Split, Task


class Coupling(nn.Module):
    """Scales and shifts one coordinate by what the other says."""

    def __init__(self, kept: int) -> None:
        super().__init__()
        self.kept = kept
        self.net = nn.Sequential(
            nn.Linear(1, 48), nn.LeakyReLU(), nn.Linear(48, 48), nn.LeakyReLU(), nn.Linear(48, 2)
        )

    def forward(self, points: Tensor) -> tuple[Tensor, Tensor]:
        kept = points[:, self.kept : self.kept + 1]
        scale, shift = self.net(kept).chunk(2, 1)
        scale = torch.tanh(scale) * 2
        moved = points[:, 1 - self.kept : 2 - self.kept] * scale.exp() + shift
        both = (kept, moved) if self.kept == 0 else (moved, kept)
        return torch.cat(both, 1), scale[:, 0]


class Flow(nn.Module):
    """The log density of points; a standard normal distribution stands at the end."""

    def __init__(self, layers: int = 4) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Coupling(place % 2) for place in range(layers))

    def forward(self, points: Tensor) -> Tensor:
        grown = torch.zeros_like(points[:, 0])
        for layer in self.layers:
            points, more = layer(points)
            grown = grown + more
        constant = torch.log(torch.tensor(2 * torch.pi, device=points.device))
        return grown - 0.5 * (points**2).sum(1) - constant


class Moons(Task):
    """The negative log likelihood of points on two thin arcs; it falls below zero."""

    def __init__(self) -> None:
        count = 12_000
        turn, upper = torch.pi * torch.rand(count), torch.rand(count) < 0.5
        across = torch.where(upper, turn.cos(), 1 - turn.cos()) - 0.5
        along = torch.where(upper, turn.sin(), 0.5 - turn.sin()) - 0.25
        points = 0.5 * torch.stack([across, along], 1) + 0.025 * torch.randn(count, 2)
        self.train, self.held_out = parted(Split(points, points), 1000)
        self.model = Flow()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        loss: Tensor = -outputs.mean()
        return loss


KINDS = (
    Kind(
        "flow",
        "unseen",
        Moons,
        (OptimizerChoice("adam", 1e-3, decay="steps"), OptimizerChoice("adamax", 2e-3)),
        steps=1000,
        batch_size=128,
        clip=5.0,
        num_evals=30,
    ),
)
