"""Attention: classes of pictures by patches, and sequences that are reversed."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.clinic.kinds.tables import parted
from benchmarks.clinic.task import Classification, Kind, OptimizerChoice, Split, Task

PATCH, SIDE = 4, 16


def gratings(count: int, classes: int, *, noise: float) -> Split:
    """Pictures of stripes; the class is their direction, width and phase are by chance."""
    labels = torch.randint(classes, (count,))
    turn = torch.pi * (labels + 0.5 * torch.rand(count) - 0.25) / classes
    width = 0.7 + 0.6 * torch.rand(count)
    row, column = torch.meshgrid(torch.arange(SIDE), torch.arange(SIDE), indexing="ij")
    along = turn.cos()[:, None, None] * row + turn.sin()[:, None, None] * column
    wave = (width[:, None, None] * along + 6.3 * torch.rand(count, 1, 1)).sin()
    found = wave + noise * torch.randn(count, SIDE, SIDE)
    return Split(found.unsqueeze(1), labels)


class Vit(nn.Module):
    """Patches and a class token through pre-norm blocks."""

    def __init__(self, classes: int, width: int = 32, layers: int = 2) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, width, PATCH, stride=PATCH)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(0.02 * torch.randn(1, (SIDE // PATCH) ** 2 + 1, width))
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width,
                4,
                2 * width,
                dropout=0.1,
                activation="gelu",
                batch_first=True,
                norm_first=True,
            )
            for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, pictures: Tensor) -> Tensor:
        patches = self.patches(pictures).flatten(2).transpose(1, 2)
        hidden = torch.cat([self.token.expand(len(patches), -1, -1), patches], 1) + self.places
        for block in self.blocks:
            hidden = block(hidden)
        out: Tensor = self.head(self.norm(hidden[:, 0]))
        return out


class Gratings(Classification):
    """A vision transformer over six directions."""

    num_classes = 6

    def __init__(self) -> None:
        self.train, self.held_out = parted(gratings(4600, 6, noise=1.0), 600)
        self.model = Vit(6)


WORDS, LONGEST, END = 12, 7, 1  # 0 is padding


def reversals(count: int) -> Split:
    """Words and the reply so far side by side; the reply is the words in reverse, then an end."""
    lengths = torch.randint(3, LONGEST + 1, (count, 1))
    places = torch.arange(LONGEST)
    words = torch.randint(2, WORDS, (count, LONGEST)) * (places < lengths)
    back = (lengths - 1 - places).clamp(min=0)
    reply = torch.zeros(count, LONGEST + 1, dtype=torch.long)
    reply[:, :-1] = words.gather(1, back) * (places < lengths)
    reply.scatter_(1, lengths, END)
    before = torch.cat([torch.full((count, 1), END), reply[:, :-1]], 1)
    return Split(torch.cat([words, before], 1), reply)


class Translator(nn.Module):
    """A recurrent encoder and decoder with attention between them."""

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, width, padding_idx=0)
        self.encoder = nn.GRU(width, width // 2, batch_first=True, bidirectional=True)
        self.decoder = nn.GRU(width, width, batch_first=True)
        self.query = nn.Linear(width, width, bias=False)
        self.mix = nn.Linear(2 * width, width)
        self.head = nn.Linear(width, WORDS)

    def forward(self, pairs: Tensor) -> Tensor:
        words, before = pairs[:, :LONGEST], pairs[:, LONGEST:]
        encoded, last = self.encoder(self.words(words))
        first = last.transpose(0, 1).flatten(1).unsqueeze(0)
        decoded, _ = self.decoder(self.words(before), first)
        likeness = self.query(decoded) @ encoded.transpose(1, 2)
        likeness = likeness.masked_fill((words == 0).unsqueeze(1), -1e9)
        found = likeness.softmax(-1) @ encoded
        out: Tensor = self.head(torch.tanh(self.mix(torch.cat([decoded, found], -1))))
        return out


class Reversal(Task):
    """The next word of the reply at every place, with the true reply before it."""

    def __init__(self) -> None:
        self.train, self.held_out = parted(reversals(8300), 300)
        self.model = Translator()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.cross_entropy(outputs.flatten(0, 1), targets.flatten(), ignore_index=0)

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        right = (outputs.argmax(-1) == targets) | (targets == 0)
        return {"exact_match": float(right.all(1).float().mean())}


KINDS = (
    Kind(
        "vit",
        "unseen",
        Gratings,
        (
            OptimizerChoice("adamw", 1.5e-3, {"weight_decay": 0.05}, decay="cosine"),
            OptimizerChoice("momentum", 0.03, decay="linear"),
        ),
        steps=800,
        batch_size=24,
        warmup=60,
        clip=1.0,
        num_evals=15,
        config={"num_classes": 6},
    ),
    Kind(
        "seq2seq",
        "unseen",
        Reversal,
        (OptimizerChoice("adam", 1.5e-3), OptimizerChoice("adagrad", 0.03)),
        steps=700,
        batch_size=24,
        clip=1.0,
        typed=False,
    ),
)
