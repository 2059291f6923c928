"""Mixtures of experts: in a perceptron and in a transformer."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from benchmarks.clinic.task import Classification
from benchmarks.clinic.tasks.tables import customers
from benchmarks.clinic.tasks.text import Decoder, NextLetter
from benchmarks.clinic.tasks.vision import Attention

BALANCE = 0.1  # share of the loss that keeps all experts in use


class Experts(nn.Module):
    """A router and its experts; ``balance`` is the balancing loss of the last pass."""

    def __init__(self, width: int, num_experts: int, top_k: int) -> None:
        super().__init__()
        self.num_experts, self.top_k = num_experts, top_k
        self.router = nn.Linear(width, num_experts)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))
            for _ in range(num_experts)
        )
        self.balance = torch.zeros(())

    def forward(self, x: Tensor) -> Tensor:
        rows = x.flatten(0, -2)
        shares = self.router(rows).softmax(1)
        weights, chosen = shares.topk(self.top_k, 1)
        used = torch.zeros_like(shares).scatter(1, chosen, 1.0)
        self.balance = self.num_experts * (used.mean(0) * shares.mean(0)).sum() / self.top_k
        out = torch.zeros_like(rows)
        for number, expert in enumerate(self.experts):
            row, place = (chosen == number).nonzero(as_tuple=True)
            if len(row):
                out = out.index_add(0, row, weights[row, place, None] * expert(rows[row]))
        return out.view_as(x)


def balance_of(model: nn.Module) -> Tensor:
    """The balancing losses of the last forward pass, in training only."""
    if not torch.is_grad_enabled():
        return torch.zeros(())
    parts = [part.balance for part in model.modules() if isinstance(part, Experts)]
    return BALANCE * torch.stack(parts).mean()


class MoeMlp(Classification):
    """Experts over rows."""

    name = "moe_mlp"
    num_classes = 6
    lr = 4e-3
    batch_size = 64
    first_layer = "0"
    config: ClassVar = {"num_classes": 6, "num_experts": 6, "top_k": 1}

    def __init__(self) -> None:
        self.train, self.held_out = customers(12_000, 6).parts(1000)
        self.model = nn.Sequential(
            *(nn.Linear(18, 32), nn.ReLU(), Experts(32, 6, 1), nn.ReLU(), nn.Linear(32, 6))
        )

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return super().loss(outputs, targets) + balance_of(self.model)


class MoeText(NextLetter):
    """A transformer whose second block has experts, two for each letter."""

    name = "moe_text"
    lr = 6e-3
    steps = 300
    batch_size = 12
    warmup = 40
    clip = 1.0
    config: ClassVar = {"num_experts": 4, "top_k": 2}

    def __init__(self) -> None:
        super().__init__()
        blocks = [Attention(32, 2, 0.0, causal=True) for _ in range(2)]
        blocks[1].mlp = Experts(32, 4, 2)
        self.model = Decoder([*blocks])

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return super().loss(outputs, targets) + balance_of(self.model)


TASKS = (MoeMlp, MoeText)
