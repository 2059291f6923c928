"""Sequences of letters: a transformer, GPT-2 as in the example, a recurrent network."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.clinic.kinds.tables import parted
from benchmarks.clinic.task import Kind, OptimizerChoice, Split, Task

sys.path.append(str(Path(__file__).parents[3] / "examples" / "gpt2"))
from model import GPT, Shape

LETTERS, LENGTH = 16, 24


def text(count: int, *, letters: int = LETTERS, length: int = LENGTH) -> Split:
    """Text of a made language: the next letter depends on the two before, with some freedom."""
    choices = torch.randint(letters, (letters, letters, 3))
    weights = torch.tensor([0.7, 0.2, 0.1])
    drawn = torch.multinomial(weights, count * (length + 1), replacement=True)
    drawn = drawn.view(length + 1, count)
    line = torch.randint(letters, (count, length + 1))
    for place in range(2, length + 1):
        options = choices[line[:, place - 2], line[:, place - 1]]
        line[:, place] = options.gather(1, drawn[place].unsqueeze(1)).squeeze(1)
    return Split(line[:, :-1].contiguous(), line[:, 1:].contiguous())


class Text(Task):
    """The next letter at every place."""

    def __init__(self, count: int = 6200) -> None:
        self.train, self.held_out = parted(text(count), 200)

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.cross_entropy(outputs.flatten(0, 1), targets.flatten())


class Encoder(nn.Module):
    """A transformer whose norms come after the residual; it needs a warm-up."""

    def __init__(self, width: int = 32, layers: int = 2, dropout: float = 0.1) -> None:
        super().__init__()
        self.letters = nn.Embedding(LETTERS, width)
        self.places = nn.Embedding(LENGTH, width)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=dropout, batch_first=True)
            for _ in range(layers)
        )
        self.head = nn.Linear(width, LETTERS)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH))

    def forward(self, letters: Tensor) -> Tensor:
        hidden = self.letters(letters) + self.places.weight
        for block in self.blocks:
            hidden = block(hidden, src_mask=self.mask, is_causal=True)
        out: Tensor = self.head(hidden)
        return out


class CharTransformer(Text):
    def __init__(self) -> None:
        super().__init__()
        self.model = Encoder()


class Logits(nn.Module):
    """The model of the example, which returns its logits."""

    def __init__(self, gpt: GPT) -> None:
        super().__init__()
        self.gpt = gpt

    def forward(self, tokens: Tensor) -> Tensor:
        return self.gpt.logits(tokens)


class Gpt2(Text):
    def __init__(self) -> None:
        super().__init__()
        self.model = Logits(GPT(Shape(LETTERS, LENGTH, num_layers=2, num_heads=2, embd_size=32)))


class Recurrent(nn.Module):
    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.letters = nn.Embedding(LETTERS, width)
        self.cells = nn.GRU(width, width, batch_first=True)
        self.dropout = nn.Dropout(0.2)
        self.head = nn.Linear(width, LETTERS)

    def forward(self, letters: Tensor) -> Tensor:
        hidden, _ = self.cells(self.letters(letters))
        out: Tensor = self.head(self.dropout(hidden))
        return out


class Gru(Text):
    def __init__(self) -> None:
        super().__init__()
        self.model = Recurrent()


KINDS = (
    Kind(
        "char_transformer",
        "tuning",
        CharTransformer,
        (OptimizerChoice("adamw", 4e-3), OptimizerChoice("momentum", 0.2)),
        batch_size=16,
        warmup=80,
        decay="cosine",
        clip=1.0,
    ),
    Kind(
        "gpt2",
        "unseen",
        Gpt2,
        (
            OptimizerChoice("adamw", 8e-3, {"betas": (0.9, 0.95), "weight_decay": 0.1}),
            OptimizerChoice("momentum", 0.1),
        ),
        batch_size=16,
        warmup=60,
        decay="cosine",
        clip=1.0,
    ),
    Kind(
        "gru",
        "unseen",
        Gru,
        (OptimizerChoice("adam", 5e-3), OptimizerChoice("momentum", 0.3)),
        batch_size=16,
        clip=1.0,
        typed=False,
    ),
)
