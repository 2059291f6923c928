"""GPT-2: embeddings of tokens and places, blocks of attention and MLP, a head of shared weights.

Names are those of the published weights (``wte wpe h ln_f``), with linear layers the usual way
round.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 (its usual name)
from torch import Tensor, nn

from epochal import UsageError

# Targets that count for nothing: padding, and the question of a question and answer.
IGNORED = -1


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a model; the defaults are the 124M one's."""

    vocab_size: int = 50_304
    context_length: int = 1024
    num_layers: int = 12
    num_heads: int = 12
    embd_size: int = 768

    def __post_init__(self) -> None:
        if self.embd_size % self.num_heads:
            raise UsageError(
                f"--embd_size {self.embd_size} must be a multiple of --num_heads {self.num_heads}."
            )


class Attention(nn.Module):
    """Causal self-attention over several heads."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.num_heads = shape.num_heads
        self.c_attn = nn.Linear(shape.embd_size, 3 * shape.embd_size)
        self.c_proj = nn.Linear(shape.embd_size, shape.embd_size)

    def forward(self, x: Tensor) -> Tensor:
        """Mix each place with those before it."""
        batch, length, width = x.shape
        parts = self.c_attn(x).view(batch, length, 3, self.num_heads, width // self.num_heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        out: Tensor = self.c_proj(mixed.transpose(1, 2).reshape(batch, length, width))
        return out


class MLP(nn.Module):
    """Four times as wide in the middle."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.c_fc = nn.Linear(shape.embd_size, 4 * shape.embd_size)
        self.c_proj = nn.Linear(4 * shape.embd_size, shape.embd_size)

    def forward(self, x: Tensor) -> Tensor:
        """Each place for itself."""
        out: Tensor = self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))
        return out


class Block(nn.Module):
    """Attention and MLP, each added to what it was given."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(shape.embd_size), Attention(shape)
        self.ln_2, self.mlp = nn.LayerNorm(shape.embd_size), MLP(shape)

    def forward(self, x: Tensor) -> Tensor:
        """One block."""
        x = x + self.attn(self.ln_1(x))
        out: Tensor = x + self.mlp(self.ln_2(x))
        return out


class GPT(nn.Module):
    """The model; built anew from the global generator, so seed that first."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.wte = nn.Embedding(shape.vocab_size, shape.embd_size)
        self.wpe = nn.Embedding(shape.context_length, shape.embd_size)
        self.h = nn.ModuleList(Block(shape) for _ in range(shape.num_layers))
        self.ln_f = nn.LayerNorm(shape.embd_size)
        self.lm_head = nn.Linear(shape.embd_size, shape.vocab_size, bias=False)
        self.lm_head.weight = self.wte.weight
        for name, parameter in self.named_parameters():
            self._initialise(name, parameter)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """Mean loss over the targets that count, in nats."""
        logits = self.logits(tokens)
        flat = targets.reshape(-1)
        return F.cross_entropy(logits.flatten(0, 1).float(), flat, ignore_index=IGNORED)

    def logits(self, tokens: Tensor) -> Tensor:
        """What the model expects after each place."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.wte(tokens) + self.wpe(places)
        for block in self.h:
            x = block(x)
        out: Tensor = self.lm_head(self.ln_f(x))
        return out

    @property
    def num_parameters(self) -> int:
        """How many numbers are learned; the shared ones count once."""
        return sum(parameter.numel() for parameter in self.parameters())

    def decay_groups(self, weight_decay: float) -> list[dict[str, object]]:
        """Parameter groups for an optimizer: matrices decay, biases and norms do not."""
        parameters = list(self.parameters())
        matrices = [p for p in parameters if p.dim() >= 2]
        others = [p for p in parameters if p.dim() < 2]
        return [
            {"params": matrices, "weight_decay": weight_decay},
            {"params": others, "weight_decay": 0.0},
        ]

    def _initialise(self, name: str, parameter: Tensor) -> None:
        if parameter.dim() < 2:
            nn.init.constant_(parameter, 1.0 if ".ln_" in f".{name}" and "weight" in name else 0.0)
            return
        # Every block adds twice to the stream: without this its variance would grow with depth.
        is_added = name.endswith("c_proj.weight")
        scale = (2 * self.shape.num_layers) ** -0.5 if is_added else 1.0
        nn.init.normal_(parameter, mean=0.0, std=0.02 * scale)
