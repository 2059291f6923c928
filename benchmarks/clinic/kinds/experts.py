"""Mixtures of experts: in a perceptron, in a transformer, and with two experts a token."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.clinic.kinds.language import LENGTH, LETTERS, Text
from benchmarks.clinic.kinds.tables import parted, teacher_classes
from benchmarks.clinic.task import Classification, Kind, OptimizerChoice


class Experts(nn.Module):
    """A router and its experts; ``balance`` is the loss that keeps them all in use."""

    def __init__(self, width: int, num_experts: int, top_k: int) -> None:
        super().__init__()
        self.num_experts, self.top_k = num_experts, top_k
        self.router = nn.Linear(width, num_experts, bias=True)
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


def experts_of(model: nn.Module) -> list[Experts]:
    """The mixtures of a model."""
    return [part for part in model.modules() if isinstance(part, Experts)]


def balance_of(model: nn.Module) -> Tensor:
    """The balancing losses of the last forward pass."""
    return torch.stack([part.balance for part in experts_of(model)]).mean()


class Mixed(Classification):
    """Two layers of experts over rows."""

    num_classes = 10
    balance_share = 0.05

    def __init__(self) -> None:
        self.train, self.held_out = parted(teacher_classes(20_000, 32, 10, noise=0.02), 1000)
        self.model = nn.Sequential(
            nn.Linear(32, 48), nn.ReLU(), Experts(48, 8, 1), nn.ReLU(), nn.Linear(48, 10)
        )

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        loss = super().loss(outputs, targets)
        if torch.is_grad_enabled():
            loss = loss + self.balance_share * balance_of(self.model)
        return loss


class Block(nn.Module):
    def __init__(self, width: int, num_experts: int, top_k: int) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.moe = Experts(width, num_experts, top_k)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        normed = self.before(x)
        mixed, _ = self.attention(normed, normed, normed, attn_mask=mask, need_weights=False)
        x = x + mixed
        out: Tensor = x + self.moe(self.between(x))
        return out


class Sparse(nn.Module):
    """A transformer with experts in each block."""

    def __init__(self, num_experts: int, top_k: int, layers: int) -> None:
        super().__init__()
        width = 32
        self.letters = nn.Embedding(LETTERS, width)
        self.places = nn.Embedding(LENGTH, width)
        self.blocks = nn.ModuleList(Block(width, num_experts, top_k) for _ in range(layers))
        self.head = nn.Linear(width, LETTERS)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH))

    def forward(self, letters: Tensor) -> Tensor:
        hidden = self.letters(letters) + self.places.weight
        for block in self.blocks:
            hidden = block(hidden, self.mask)
        out: Tensor = self.head(hidden)
        return out


class SparseText(Text):
    balance_share = 0.02

    def __init__(self, num_experts: int, top_k: int, layers: int) -> None:
        super().__init__()
        self.model = Sparse(num_experts, top_k, layers)

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        loss = super().loss(outputs, targets)
        if torch.is_grad_enabled():
            loss = loss + self.balance_share * balance_of(self.model)
        return loss


def _config(num_experts: int, top_k: int) -> dict[str, Any]:
    return {"num_experts": num_experts, "top_k": top_k}


KINDS = (
    Kind(
        "moe_mlp",
        "tuning",
        Mixed,
        (OptimizerChoice("adamw", 2e-3), OptimizerChoice("momentum", 0.05)),
        batch_size=64,
        steps=800,
        config={"num_classes": 10, **_config(8, 1)},
    ),
    Kind(
        "moe",
        "unseen",
        lambda: SparseText(6, 1, 2),
        (OptimizerChoice("adamw", 6e-3), OptimizerChoice("momentum", 0.2)),
        batch_size=12,
        steps=800,
        warmup=40,
        decay="cosine",
        clip=1.0,
        config=_config(6, 1),
    ),
    Kind(
        "moe_top2",
        "unseen",
        lambda: SparseText(8, 2, 1),
        (OptimizerChoice("adam", 5e-3), OptimizerChoice("momentum", 0.2)),
        batch_size=12,
        steps=800,
        warmup=40,
        clip=1.0,
        typed=False,
        config=_config(8, 2),
    ),
)
