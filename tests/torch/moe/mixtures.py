"""Small mixtures of experts whose routers have the shapes that people's models have."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

WIDTH = 8


class LinearGate(nn.Module):
    """A linear layer named gate; the layer around it chooses."""

    def __init__(self, experts: int, top_k: int) -> None:
        super().__init__()
        self.num_experts, self.top_k = experts, top_k
        self.gate = nn.Linear(WIDTH, experts, bias=False)
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(experts))
        self.shared_expert_gate = nn.Linear(WIDTH, 1, bias=False)

    def route(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        logits: Tensor = self.gate(hidden)
        weights, index = logits.softmax(-1).topk(self.top_k, dim=-1)
        return weights, index

    def forward(self, hidden: Tensor) -> Tensor:
        shape = hidden.shape
        flat = hidden.reshape(-1, WIDTH)
        weights, index = self.route(flat)
        mixed = torch.zeros_like(flat)
        for number, expert in enumerate(self.experts):
            share = (weights * (index == number)).sum(-1, keepdim=True)
            mixed = mixed + share * expert(flat)
        mixed = mixed * torch.sigmoid(self.shared_expert_gate(flat))
        return mixed.reshape(shape)


class TopKRouter(nn.Module):
    """Gives logits, weights and where each token goes."""

    def __init__(self, experts: int, top_k: int) -> None:
        super().__init__()
        self.num_experts, self.top_k = experts, top_k
        self.weight = nn.Parameter(torch.randn(experts, WIDTH))

    def forward(self, hidden: Tensor) -> Any:
        logits = nn.functional.linear(hidden, self.weight)
        weights, index = logits.softmax(-1).topk(self.top_k, dim=-1)
        return logits, weights, index


class BiasedRouter(TopKRouter):
    """Gives only its choice: by sigmoid scores and a bias that balances the load."""

    def __init__(self, experts: int, top_k: int) -> None:
        super().__init__(experts, top_k)
        self.register_buffer("e_score_correction_bias", torch.zeros(experts))

    def forward(self, hidden: Tensor) -> Any:
        scores = nn.functional.linear(hidden, self.weight).sigmoid()
        index = (scores + self.get_buffer("e_score_correction_bias")).topk(self.top_k).indices
        return index, scores.gather(-1, index)


class SparseScores(TopKRouter):
    """Gives scores that are 0 where a token does not go, and the logits."""

    def forward(self, hidden: Tensor) -> Any:
        logits = nn.functional.linear(hidden, self.weight)
        values, index = logits.topk(self.top_k, dim=-1)
        scores = torch.zeros_like(logits).scatter(1, index, values.sigmoid())
        return scores, logits


class SoftRouter(TopKRouter):
    """Gives its probabilities first, where others give logits."""

    def forward(self, hidden: Tensor) -> Any:
        probs = nn.functional.linear(hidden, self.weight).softmax(-1)
        weights, index = probs.topk(self.top_k, dim=-1)
        return probs, weights, index


class SparseChoice(TopKRouter):
    """Gives probabilities that are 0 where a token does not go, and where it goes."""

    def forward(self, hidden: Tensor) -> Any:
        logits = nn.functional.linear(hidden, self.weight)
        values, index = logits.topk(self.top_k, dim=-1)
        return torch.zeros_like(logits).scatter(1, index, values.softmax(-1)), index


class ClosedRouter(nn.Module):
    """Gives probabilities made by something in which no weight is found."""

    def __init__(self, experts: int, top_k: int) -> None:
        super().__init__()
        self.num_experts, self.top_k = experts, top_k
        self.table = nn.Parameter(torch.randn(WIDTH, experts))

    def forward(self, hidden: Tensor) -> Any:
        probs = (hidden @ self.table).softmax(-1)
        return probs, *probs.topk(self.top_k, dim=-1)


class Routed(LinearGate):
    """A layer around any of the routers above."""

    def __init__(self, router: nn.Module, experts: int, top_k: int) -> None:
        super().__init__(experts, top_k)
        del self.gate
        self.router = router

    def route(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        given = self.router(hidden)
        index = next((t for t in given if t.dtype == torch.long and t.dim() == 2), None)
        if index is None:
            index = given[-1].topk(self.top_k, dim=-1).indices
        return torch.full(index.shape, 1 / self.top_k), index


class Block(nn.Module):
    def __init__(self, mlp: nn.Module) -> None:
        super().__init__()
        self.mlp = mlp

    def forward(self, hidden: Tensor) -> Tensor:
        result: Tensor = hidden + self.mlp(hidden)
        return result


class Mixture(nn.Module):
    """Layers of experts, with a configuration as large models have one."""

    def __init__(
        self, *layers: nn.Module, recompute: bool = False, reentrant: bool = False, **config: Any
    ) -> None:
        super().__init__()
        self.h = nn.ModuleList(Block(layer) for layer in layers)
        self.config = SimpleNamespace(**config)
        self._recompute, self._reentrant = recompute, reentrant

    def forward(self, hidden: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        for block in self.h:
            if self._recompute:
                hidden = checkpoint(block, hidden, use_reentrant=self._reentrant)
            else:
                hidden = block(hidden)
        return hidden


def mixture(*, layers: int = 2, experts: int = 4, top_k: int = 2, **options: Any) -> Mixture:
    torch.manual_seed(0)
    return Mixture(*(LinearGate(experts, top_k) for _ in range(layers)), **options)


def tokens(seed: int = 0, *, batch: int = 2, length: int = 6) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, length, WIDTH, generator=generator)
