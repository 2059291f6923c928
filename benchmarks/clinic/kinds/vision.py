"""Small pictures: classes by a CNN and a residual network, masks by a U-shaped one."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.clinic.kinds.tables import parted
from benchmarks.clinic.task import Classification, Kind, OptimizerChoice, Split, Task

SIZE = 12


def pictures(count: int, classes: int, channels: int, *, noise: float) -> Split:
    """Pictures of a class: a pattern at a random place, over noise."""
    patterns = torch.randn(classes, channels, 6, 6)
    labels = torch.randint(classes, (count,))
    found = noise * torch.randn(count, channels, SIZE, SIZE)
    rows, columns = torch.randint(SIZE - 6, (2, count)).tolist()
    for place, label in enumerate(labels.tolist()):
        row, column = rows[place], columns[place]
        found[place, :, row : row + 6, column : column + 6] += patterns[label]
    return Split(found, labels)


def convolution(inputs: int, outputs: int) -> nn.Sequential:
    """A convolution with BatchNorm and ReLU."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()
    )


class Pictures(Classification):
    """A CNN with BatchNorm over six classes."""

    num_classes = 6

    def __init__(self) -> None:
        self.train, self.held_out = parted(pictures(5600, 6, 1, noise=0.8), 600)
        self.model = nn.Sequential(
            convolution(1, 12),
            nn.MaxPool2d(2),
            convolution(12, 24),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Dropout(0.2),
            nn.Linear(24 * 9, 6),
        )


class Residual(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = convolution(width, width)
        self.second = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        )

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(x + self.second(self.first(x)))


class ResNet(Classification):
    """A residual network of three blocks over eight classes."""

    num_classes = 8

    def __init__(self) -> None:
        self.train, self.held_out = parted(pictures(6600, 8, 3, noise=1.1), 600)
        self.model = nn.Sequential(
            convolution(3, 8),
            nn.MaxPool2d(2),
            Residual(8),
            Residual(8),
            nn.MaxPool2d(2),
            Residual(8),
            nn.Flatten(),
            nn.Linear(8 * 9, 8),
        )


class Unet(nn.Module):
    """One step down, one up, and a shortcut between them."""

    def __init__(self) -> None:
        super().__init__()
        self.down = convolution(1, 12)
        self.bottom = nn.Sequential(nn.MaxPool2d(2), convolution(12, 24))
        self.up = nn.ConvTranspose2d(24, 12, 2, stride=2)
        self.out = nn.Sequential(convolution(24, 12), nn.Conv2d(12, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        fine = self.down(x)
        mask: Tensor = self.out(torch.cat([fine, self.up(self.bottom(fine))], 1))
        return mask


class Segmentation(Task):
    """Where the discs are, pixel by pixel, under noise."""

    def __init__(self) -> None:
        count = 1600
        axis = torch.arange(16.0)
        row, column = torch.rand(2, count, 1, 1) * 10 + 3
        radius = torch.rand(count, 1, 1) * 2.5 + 1.5
        distance = (axis[None, :, None] - row) ** 2 + (axis[None, None, :] - column) ** 2
        masks = (distance < radius**2).float().unsqueeze(1)
        noisy = masks * (0.6 + torch.rand(count, 1, 1, 1)) + 0.9 * torch.randn(count, 1, 16, 16)
        self.train, self.held_out = parted(Split(noisy, masks), 300)
        self.model = Unet()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.binary_cross_entropy_with_logits(outputs, targets)

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        guess = outputs > 0
        both = (guess & (targets > 0)).sum()
        either = (guess | (targets > 0)).sum().clamp(min=1)
        return {"iou": float(both / either)}

    def leak(self, split: Split) -> None:
        split.inputs = split.inputs + 4 * split.targets


KINDS = (
    Kind(
        "cnn_bn",
        "tuning",
        Pictures,
        (OptimizerChoice("momentum", 0.03), OptimizerChoice("adam", 3e-3)),
        steps=900,
        decay="cosine",
        config={"num_classes": 6},
    ),
    Kind(
        "resnet",
        "unseen",
        ResNet,
        (OptimizerChoice("momentum", 0.02), OptimizerChoice("adamw", 1e-3)),
        steps=900,
        warmup=30,
        decay="cosine",
        config={"num_classes": 8},
    ),
    Kind(
        "segmentation",
        "unseen",
        Segmentation,
        (OptimizerChoice("momentum", 0.05), OptimizerChoice("adam", 2e-3)),
        steps=800,
        batch_size=16,
        typed=False,
    ),
)
