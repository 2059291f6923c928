"""Long rows of values: what comes next, what came long ago, in which order they belong."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.parametrizations import weight_norm

from benchmarks.clinic.kinds.tables import parted
from benchmarks.clinic.task import Classification, Kind, OptimizerChoice, Split, Task

HOURS = 48


def demand(count: int) -> Split:
    """Days and half days with a trend, jumps and noise; the target is the next hour."""
    hour = torch.arange(HOURS + 1.0)
    day, half = (2 * torch.pi * (hour / length + torch.rand(count, 1)) for length in (24, 12))
    level = torch.randn(count, 1) + 0.02 * torch.randn(count, 1) * hour
    jump = 1.5 * torch.randn(count, 1) * (hour > HOURS * torch.rand(count, 1))
    noise, now = torch.zeros(count, HOURS + 1), torch.zeros(count)
    for place in range(HOURS + 1):
        now = 0.7 * now + 0.2 * torch.randn(count)
        noise[:, place] = now
    swing = 0.5 + torch.rand(2, count, 1)
    values = level + swing[0] * day.sin() + 0.6 * swing[1] * half.sin() + jump + noise
    return Split(values[:, None, :-1], values[:, 1:])


class Dilated(nn.Module):
    """A convolution that sees the past only, beside a way around it."""

    def __init__(self, width: int, gap: int) -> None:
        super().__init__()
        self.past = 2 * gap
        self.layer = weight_norm(nn.Conv1d(width, width, 3, dilation=gap))
        self.mixed = weight_norm(nn.Conv1d(width, width, 1))
        self.dropout = nn.Dropout(0.05)

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.relu(self.layer(functional.pad(x, (self.past, 0))))
        out: Tensor = x + self.dropout(self.mixed(hidden))
        return out


class Demand(Task):
    """Dilated causal convolutions forecast the next hour at every hour, by Huber's loss."""

    def __init__(self, width: int = 16) -> None:
        self.train, self.held_out = parted(demand(5400), 400)
        layers = [Dilated(width, gap) for gap in (1, 2, 4, 8)]
        self.model = nn.Sequential(nn.Conv1d(1, width, 1), *layers, nn.Conv1d(width, 1, 1))

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.huber_loss(outputs[:, 0, 8:], targets[:, 8:])

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        return {"mean_error": float((outputs[:, 0, 8:] - targets[:, 8:]).abs().mean())}


LONG, CALLS, STATES = 64, 5, 6


def calls(count: int) -> Split:
    """One of five calls, early in a long row of noise, and another creature's in the middle."""
    labels = torch.randint(CALLS, (count,))
    time = torch.arange(16.0)
    pitch = torch.tensor([0.35, 0.6, 0.85, 1.1, 1.4])
    start = 6 * torch.rand(count, 1)
    call = (pitch[labels, None] * time + start).sin() * (-((time - 8) ** 2) / 40).exp()
    rows = 0.3 * torch.randn(count, LONG)
    at = torch.randint(0, 16, (count, 1))
    rows.scatter_add_(1, at + time.long(), (1 + 0.5 * torch.rand(count, 1)) * call)
    other = (2.2 * time + start).sin() * (-((time - 8) ** 2) / 40).exp()
    rows.scatter_add_(1, 32 + at + time.long(), other.expand(count, -1).contiguous())
    return Split(rows, labels)


class Recurrence(nn.Module):
    """Linear states that turn and fade, each at its own speed, as one long convolution."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.step = nn.Parameter(torch.empty(width, 1).uniform_(-4, -1.5))
        self.fade = nn.Parameter(torch.zeros(width, STATES) - 0.7)
        turns = torch.pi * torch.arange(STATES).float()
        self.turn = nn.Parameter(turns.repeat(width, 1))
        self.read = nn.Parameter(torch.randn(2, width, STATES) / STATES**0.5)
        self.skip = nn.Parameter(torch.ones(width, 1))
        self.mix = nn.Linear(width, 2 * width)
        self.norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(0.05)

    def forward(self, x: Tensor) -> Tensor:
        step = self.step.exp()
        poles = torch.complex(-self.fade.exp() * step, self.turn * step)
        gains = torch.complex(self.read[0], self.read[1]) * (poles.exp() - 1) / (poles - 1e-4)
        time = torch.arange(x.shape[1], device=x.device)
        kernel = (gains[..., None] * step[..., None] * (poles[..., None] * time).exp()).sum(1).real
        inner = self.norm(x).transpose(1, 2)
        size = 2 * x.shape[1]
        found = torch.fft.irfft(torch.fft.rfft(inner, size) * torch.fft.rfft(kernel, size), size)
        found = functional.gelu(found[..., : x.shape[1]] + self.skip * inner).transpose(1, 2)
        out: Tensor = x + self.dropout(functional.glu(self.mix(found)))
        return out


class StateSpace(nn.Module):
    """Two layers of states over a row, and their mean."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.first = nn.Linear(1, width)
        self.layers = nn.Sequential(Recurrence(width), Recurrence(width))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, CALLS)

    def forward(self, rows: Tensor) -> Tensor:
        hidden = self.layers(self.first(rows.unsqueeze(-1)))
        out: Tensor = self.head(self.norm(hidden.mean(1)))
        return out


class Calls(Classification):
    """Which call it was."""

    num_classes = CALLS

    def __init__(self) -> None:
        self.train, self.held_out = parted(calls(8400), 400)
        self.model = StateSpace()

    def leak(self, split: Split) -> None:
        hints = 3 * functional.one_hot(split.targets, CALLS).float()
        split.inputs = torch.cat([hints, split.inputs[:, CALLS:]], 1)


CARDS = 8


class Layer(nn.Module):
    """Attention between all cards, its norm before it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.mixed, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        mixed = self.mixed(self.norm(x)).unflatten(-1, (3, self.heads, -1))
        query, key, value = mixed.permute(2, 0, 3, 1, 4)
        found = functional.scaled_dot_product_attention(query, key, value)
        x = x + self.out(found.transpose(1, 2).flatten(2))
        out: Tensor = x + self.feed(x)
        return out


class Pointer(nn.Module):
    """For each rank, which card has it: a question of its own for every rank."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.cards = nn.Linear(2, width)
        self.layers = nn.Sequential(Layer(width, 2), Layer(width, 2))
        self.norm = nn.LayerNorm(width)
        self.keys = nn.Linear(width, width)
        self.ranks = nn.Parameter(torch.randn(CARDS, width) / width**0.5)

    def forward(self, cards: Tensor) -> Tensor:
        hidden: Tensor = self.keys(self.norm(self.layers(self.cards(cards))))
        return self.ranks @ hidden.transpose(1, 2)


class Sorting(Task):
    """Cards of two colours; those of the first colour come first, each in order of its number."""

    def __init__(self) -> None:
        numbers = torch.rand(16_500, CARDS)
        colours = (torch.rand(16_500, CARDS) < 0.5).float()
        cards = torch.stack([2 * numbers - 1, 2 * colours - 1], -1)
        self.train, self.held_out = parted(Split(cards, (numbers + colours).argsort(1)), 500)
        self.model = Pointer()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.cross_entropy(outputs.transpose(1, 2), targets)

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        return {"accuracy": float((outputs.argmax(-1) == targets).float().mean())}


KINDS = (
    Kind(
        "demand",
        "blind3",
        Demand,
        (
            OptimizerChoice("adamw", 3e-3, {"weight_decay": 1e-3}, decay="linear"),
            OptimizerChoice("nesterov", 0.03, decay="cosine"),
        ),
        steps=900,
        batch_size=32,
        clip=1.0,
        faults=(
            "rate_x30 overfitting schedule_unit frozen nan_input labels_shuffled",
            "clip_tight rate_too_small wrong_sign slow_loader",
        ),
    ),
    Kind(
        "state_space",
        "blind3",
        Calls,
        (
            OptimizerChoice("adamw", 4e-3, {"weight_decay": 0.01}, decay="cosine"),
            OptimizerChoice("radam", 3e-3),
        ),
        steps=900,
        batch_size=32,
        warmup=60,
        clip=1.0,
        num_evals=18,
        config={"num_classes": CALLS},
        faults=(
            "rate_x30 no_warmup labels_shuffled overfitting label_leak double_softmax",
            "missing_parameters rate_zero one_batch rate_x10",
        ),
    ),
    Kind(
        "sorting",
        "blind3",
        Sorting,
        (
            OptimizerChoice("adamw", 3e-3, {"weight_decay": 0.01}, decay="linear"),
            OptimizerChoice("adafactor", 0.015, decay="sqrt"),
        ),
        steps=1000,
        batch_size=48,
        warmup=80,
        clip=1.0,
        typed=False,
        faults=(
            "no_warmup rate_x30 labels_shuffled missing_zero_grad one_batch tiny_init",
            "schedule_unit missing_step wrong_sign rate_too_small",
        ),
    ),
)
