"""Rows of numbers: a perceptron, linear and logistic regression, prices that are huge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.clinic.task import Classification, Kind, OptimizerChoice, Split, Task


def teacher_classes(count: int, features: int, classes: int, *, noise: float) -> Split:
    """Rows whose class a random network decides; a share of the labels is wrong."""
    teacher = nn.Sequential(nn.Linear(features, 32), nn.Tanh(), nn.Linear(32, classes))
    with torch.no_grad():
        for part in (teacher[0], teacher[2]):
            part.weight.mul_(2.0)  # type: ignore[operator]
        inputs = torch.randn(count, features)
        labels = teacher(inputs).argmax(1)
    wrong = torch.rand(count) < noise
    return Split(inputs, torch.where(wrong, torch.randint(classes, (count,)), labels))


def parted(split: Split, held_out: int) -> tuple[Split, Split]:
    """The samples for training, and the last ones for evaluation."""
    return (
        Split(split.inputs[:-held_out], split.targets[:-held_out]),
        Split(split.inputs[-held_out:], split.targets[-held_out:]),
    )


def pinball(outputs: Tensor, targets: Tensor, levels: Sequence[float]) -> Tensor:
    """The loss of each quantile; the last dimension of the outputs has one for each level."""
    away, level = targets.unsqueeze(-1) - outputs, torch.tensor(levels, device=outputs.device)
    return torch.maximum(level * away, (level - 1) * away)


class Perceptron(Classification):
    """A multi-layer perceptron with dropout over ten classes."""

    num_classes = 10

    def __init__(self) -> None:
        self.train, self.held_out = parted(teacher_classes(40_000, 32, 10, noise=0.05), 1000)
        self.model = nn.Sequential(
            nn.Linear(32, 128),
            nn.ReLU(),
            nn.Dropout(0.1),
            nn.Linear(128, 128),
            nn.ReLU(),
            nn.Linear(128, 10),
        )


class Regression(Task):
    """Mean squared error."""

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.mse_loss(outputs, targets)

    def leak(self, split: Split) -> None:
        inputs = split.inputs.clone()
        scale = self.train.targets.std()
        inputs[:, :1] = 3 * (split.targets - self.train.targets.mean()) / scale
        split.inputs = inputs


class Line(Regression):
    """Linear regression over 16 features."""

    def __init__(self) -> None:
        inputs = torch.randn(3000, 16)
        weights = torch.randn(16, 1)
        targets = inputs @ weights + 0.7 + 0.3 * torch.randn(3000, 1)
        self.train, self.held_out = parted(Split(inputs, targets), 1000)
        self.model = nn.Linear(16, 1)


class Logistic(Classification):
    """Logistic regression over four classes that overlap."""

    num_classes = 4

    def __init__(self) -> None:
        centres = 0.45 * torch.randn(4, 20)
        labels = torch.randint(4, (4000,))
        inputs = centres[labels] + torch.randn(4000, 20)
        self.train, self.held_out = parted(Split(inputs, labels), 1000)
        self.model = nn.Linear(20, 4)


class Prices(Regression):
    """Prices of houses in plain money: a loss of billions."""

    def __init__(self) -> None:
        inputs = torch.randn(4000, 12)
        weights = torch.randn(12, 1)
        value = inputs @ weights + (inputs[:, :1] * inputs[:, 1:2]) + 0.3 * torch.randn(4000, 1)
        targets = 250_000 + 60_000 * value
        self.train, self.held_out = parted(Split(inputs, targets), 1000)
        self.model = nn.Sequential(
            nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)
        )

    def outputs(self, inputs: Tensor) -> Any:
        return 100_000 * self.model(inputs)


KINDS = (
    Kind(
        "mlp",
        "tuning",
        Perceptron,
        (OptimizerChoice("momentum", 0.03), OptimizerChoice("adamw", 1e-3)),
        batch_size=64,
        config={"num_classes": 10},
    ),
    Kind(
        "linear",
        "tuning",
        Line,
        (OptimizerChoice("sgd", 0.02), OptimizerChoice("adam", 0.02)),
        steps=1200,
        typed=False,
        pace_ms=4.0,
    ),
    Kind(
        "logistic",
        "unseen",
        Logistic,
        (OptimizerChoice("sgd", 0.1), OptimizerChoice("adam", 0.01)),
        steps=1200,
        typed=False,
        pace_ms=4.0,
        config={"num_classes": 4},
    ),
    Kind(
        "tabular",
        "tuning",
        Prices,
        (OptimizerChoice("adam", 2e-3), OptimizerChoice("rmsprop", 1e-3)),
        batch_size=64,
        typed=False,
    ),
)
