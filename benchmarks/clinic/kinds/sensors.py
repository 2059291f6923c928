"""What sensors give: keywords in sound, windows of a machine, an arm that reaches a place."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.clinic.kinds.tables import parted
from benchmarks.clinic.task import Classification, Kind, OptimizerChoice, Split, Task

BANDS, MOMENTS, KEYWORDS = 20, 24, 10


def spoken(count: int) -> Split:
    """Sounds over bands and time: each keyword has three tones that glide, early or late."""
    start, glide = torch.rand(2, KEYWORDS, 3)
    band = torch.arange(float(BANDS)).view(1, 1, -1, 1)
    time = torch.arange(float(MOMENTS)).view(1, 1, 1, -1)
    labels = torch.randint(KEYWORDS, (count,))
    begin = 8 * torch.rand(count, 1, 1, 1)
    pace = 0.8 + 0.4 * torch.rand(count, 1, 1, 1)
    gone = ((time - begin) * pace).clamp(0, 16)
    tone = BANDS * start[labels].view(count, 3, 1, 1)
    tone = tone + (glide[labels].view(count, 3, 1, 1) - 0.5) * gone + torch.randn(count, 1, 1, 1)
    part = torch.tensor([0.0, 5.0, 10.0]).view(1, 3, 1, 1)
    sounds = (gone > part) & (gone < part + 6)
    power = (sounds * (-((band - tone) ** 2) / 2).exp()).sum(1, keepdim=True)
    power = (1 + torch.rand(count, 1, 1, 1)) * power
    return Split(power + 0.5 * torch.randn_like(power), labels)


def separable(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    """A convolution of each channel for itself, then one that mixes them."""
    return nn.Sequential(
        nn.Conv2d(inputs, inputs, 3, stride=stride, padding=1, groups=inputs, bias=False),
        *(nn.BatchNorm2d(inputs), nn.ReLU(), nn.Conv2d(inputs, outputs, 1, bias=False)),
        *(nn.BatchNorm2d(outputs), nn.ReLU()),
    )


class Keywords(Classification):
    """Depthwise convolutions tell ten keywords, with smoothed labels."""

    num_classes = KEYWORDS

    def __init__(self, width: int = 24) -> None:
        self.train, self.held_out = parted(spoken(5000), 500)
        self.model = nn.Sequential(
            *(nn.Conv2d(1, width, 3, stride=2, padding=1), nn.BatchNorm2d(width), nn.ReLU()),
            *(separable(width, width), separable(width, 2 * width, 2)),
            *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.1)),
            nn.Linear(2 * width, KEYWORDS),
        )

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.cross_entropy(outputs, targets, label_smoothing=0.1)


CHANNELS, WINDOW = 6, 32


def windows(count: int, loads: Tensor) -> Tensor:
    """Channels of a machine: two turns and a load that all channels share, each in its way."""
    time = torch.arange(float(WINDOW))
    speed = 0.2 + 0.4 * torch.rand(count, 1)
    start = 2 * torch.pi * torch.rand(2, count, 1)
    turn, double = (speed * time + start[0]).sin(), (2 * speed * time + start[1]).sin()
    load = torch.randn(count, 1) + 0.1 * torch.randn(count, WINDOW).cumsum(1)
    shared = torch.stack([turn, double, load], 1)
    return loads @ shared + 0.1 * torch.randn(count, CHANNELS, WINDOW)


class Anomalies(Task):
    """An autoencoder of healthy windows; broken ones show by a larger error."""

    def __init__(self) -> None:
        loads = torch.randn(CHANNELS, 3)
        rows = windows(8500, loads)
        self.train, self.held_out = parted(Split(rows, rows), 500)
        broken = windows(500, loads)
        at = torch.randint(CHANNELS, (500, 1, 1)).expand(-1, 1, WINDOW)
        self.broken = broken.scatter_add(1, at, 0.6 * torch.randn(500, 1, WINDOW))
        self.model = nn.Sequential(
            *(nn.Conv1d(CHANNELS, 16, 5, stride=2, padding=2), nn.ReLU()),
            *(nn.Conv1d(16, 16, 5, stride=2, padding=2), nn.ReLU(), nn.Flatten()),
            *(nn.Linear(16 * WINDOW // 4, 12), nn.Linear(12, 96), nn.ReLU()),
            *(nn.Linear(96, CHANNELS * WINDOW), nn.Unflatten(1, (CHANNELS, WINDOW))),
        )

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.mse_loss(outputs, targets)

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        """How often a broken window has a larger error than a healthy one."""
        own = (outputs - targets).square().mean((1, 2))
        odd = (self.model(self.broken) - self.broken).square().mean((1, 2))
        return {"auc": float((odd[:, None] > own[None, :]).float().mean())}


COMPONENTS = 6


def reaches(count: int) -> Split:
    """Where the hand of an arm is, with the length of what it holds, and how its joints stand."""
    joints = torch.pi * (2 * torch.rand(count, 2) - 1) * torch.tensor([0.5, 0.9])
    held = 0.5 + 0.5 * torch.rand(count, 1)
    turn = joints.sum(1, keepdim=True)
    hand = torch.cat([joints[:, :1].cos() + held * turn.cos(), joints[:, :1].sin()], 1)
    hand[:, 1:] += held * turn.sin()
    seen = torch.cat([hand + 0.02 * torch.randn(count, 2), held], 1)
    return Split(seen, joints)


class Reaching(Task):
    """Several ways to stand for one place: a mixture of normal densities of both joints."""

    def __init__(self) -> None:
        self.train, self.held_out = parted(reaches(16_000), 1000)
        self.model = nn.Sequential(
            *(nn.Linear(3, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh()),
            nn.Linear(64, 5 * COMPONENTS),
        )

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        shares, rest = outputs.split([COMPONENTS, 4 * COMPONENTS], 1)
        middle, spread = rest.view(-1, COMPONENTS, 4).chunk(2, -1)
        spread = spread.clamp(-5, 3)
        apart = (targets.unsqueeze(1) - middle) * (-spread).exp()
        each = -0.5 * apart.square() - spread - 0.5 * math.log(2 * math.pi)
        density = torch.logsumexp(shares.log_softmax(1) + each.sum(-1), 1)
        return -density.mean()

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        best = outputs[:, :COMPONENTS].argmax(1)
        middle = outputs[:, COMPONENTS:].view(-1, COMPONENTS, 4)[..., :2]
        guess = middle[torch.arange(len(best), device=best.device), best]
        return {"likeliest_error": float((guess - targets).norm(dim=1).mean())}


KINDS = (
    Kind(
        "keywords",
        "blind4",
        Keywords,
        (
            OptimizerChoice("momentum", 0.3, {"weight_decay": 1e-4}, decay="steps"),
            OptimizerChoice("adamw", 0.015, {"weight_decay": 0.01}, decay="cosine"),
        ),
        steps=800,
        batch_size=32,
        num_evals=16,
        seeds=4,
        config={"num_classes": KEYWORDS},
        faults=(
            "rate_x30 unshuffled stale_batchnorm fp16_overflow accumulation clip_tight",
            "label_leak labels_shuffled dead_relu dropout_in_eval eval_on_train double_softmax",
        ),
    ),
    Kind(
        "anomaly",
        "blind4",
        Anomalies,
        (OptimizerChoice("adam", 9e-3), OptimizerChoice("nesterov", 0.1, decay="cosine")),
        steps=1200,
        batch_size=32,
        seeds=4,
        log_every=2,
        faults=(
            "rate_x30 nan_input overfitting dead_relu slow_loader",
            "rate_too_small exploding_init missing_zero_grad clip_tight wrong_reduction",
        ),
    ),
    Kind(
        "mixture",
        "blind4",
        Reaching,
        (OptimizerChoice("adam", 9e-3, decay="cosine"), OptimizerChoice("rmsprop", 1e-3)),
        steps=1400,
        batch_size=128,
        clip=5.0,
        seeds=4,
        typed=False,
        faults=(
            "rate_x30 labels_shuffled frozen nan_input rate_zero",
            "rate_x10 wrong_sign missing_step one_batch tiny_init",
        ),
    ),
)
