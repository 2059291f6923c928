"""A tag for every word, and quantiles of what comes next in a series."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.clinic.kinds.tables import parted, pinball
from benchmarks.clinic.task import Kind, OptimizerChoice, Split, Task

WORDS, TAGS, LONGEST, NO_TAG = 60, 6, 14, -100


def sentences(count: int) -> Split:
    """Words whose tag depends on their own class and on the class of both neighbours."""
    classes = torch.cat([torch.tensor([0]), torch.randint(1, 5, (WORDS - 1,))])
    tags = torch.randint(TAGS, (5, 5, 5))
    lengths = torch.randint(5, LONGEST + 1, (count, 1))
    inside = torch.arange(LONGEST) < lengths
    words = torch.randint(1, WORDS, (count, LONGEST)) * inside
    own = classes[words]
    left = functional.pad(own[:, :-1], (1, 0))
    right = functional.pad(own[:, 1:], (0, 1))
    found = tags[left, own, right]
    chance = torch.rand(count, LONGEST) < 0.03
    found = torch.where(chance, torch.randint(TAGS, (count, LONGEST)), found)
    return Split(words, torch.where(inside, found, NO_TAG))


class Lstm(nn.Module):
    """A long short-term memory in both directions."""

    def __init__(self, width: int = 40) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, 24, padding_idx=0)
        self.cells = nn.LSTM(24, width, batch_first=True, bidirectional=True)
        self.dropout = nn.Dropout(0.25)
        self.head = nn.Linear(2 * width, TAGS)

    def forward(self, words: Tensor) -> Tensor:
        hidden, _ = self.cells(self.words(words))
        out: Tensor = self.head(self.dropout(hidden))
        return out


class Tagger(Task):
    """Cross entropy over the tags of words; padding does not count."""

    def __init__(self) -> None:
        self.train, self.held_out = parted(sentences(5400), 400)
        self.model = Lstm()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        tags = targets.flatten()
        return functional.cross_entropy(outputs.flatten(0, 1), tags, ignore_index=NO_TAG)

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        inside = targets != NO_TAG
        return {"accuracy": float((outputs.argmax(-1) == targets)[inside].float().mean())}


WINDOW, AHEAD = 48, 8
QUANTILES = (0.1, 0.5, 0.9)


def demands(count: int) -> Split:
    """Pieces of hourly series with a day, half a day, a trend and noise that grows with them."""
    hours = torch.arange(WINDOW + AHEAD)
    size = 0.5 + torch.rand(count, 1)
    day = size * (2 * torch.pi * (hours / 24 + torch.rand(count, 1))).sin()
    half = 0.4 * size * (2 * torch.pi * (hours / 12 + torch.rand(count, 1))).sin()
    trend = torch.randn(count, 1) * hours / 48
    noise = 0.15 * size * torch.randn(count, WINDOW + AHEAD)
    series = torch.randn(count, 1) + day + half + trend + noise
    return Split(series[:, :WINDOW], series[:, WINDOW:])


class Forecaster(Task):
    """The pinball loss of three quantiles, eight hours ahead."""

    def __init__(self) -> None:
        self.train, self.held_out = parted(demands(9000), 1000)
        self.model = nn.Sequential(
            nn.Linear(WINDOW, 96),
            nn.ReLU(),
            nn.Linear(96, 96),
            nn.ReLU(),
            nn.Linear(96, AHEAD * len(QUANTILES)),
        )

    def outputs(self, inputs: Tensor) -> Any:
        last = inputs[:, -1:]
        made = self.model(inputs - last).view(-1, AHEAD, len(QUANTILES))
        return made + last.unsqueeze(-1)

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return pinball(outputs, targets, QUANTILES).mean()

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        inside = (targets > outputs[..., 0]) & (targets < outputs[..., -1])
        return {"coverage": float(inside.float().mean())}

    def leak(self, split: Split) -> None:
        inputs = split.inputs.clone()
        inputs[:, :AHEAD] = split.targets
        split.inputs = inputs


KINDS = (
    Kind(
        "tagger",
        "unseen",
        Tagger,
        (OptimizerChoice("adam", 3e-3), OptimizerChoice("momentum", 0.3, decay="steps")),
        steps=900,
        clip=5.0,
    ),
    Kind(
        "forecaster",
        "unseen",
        Forecaster,
        (OptimizerChoice("radam", 2e-3, decay="cosine"), OptimizerChoice("momentum", 0.1)),
        steps=1000,
        accumulate=2,
        num_evals=25,
        typed=False,
    ),
)
