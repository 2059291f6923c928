"""Views of things: how something is turned, what a plate says, and the colours of grey pictures."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.clinic.kinds.pictures import SIDE, layer
from benchmarks.clinic.kinds.tables import parted
from benchmarks.clinic.task import Kind, OptimizerChoice, Split, Task


def poses(count: int) -> Split:
    """A hammer somewhere in a noisy picture, light or dark, and the sine and cosine of its turn."""
    place = torch.arange(float(SIDE)) - (SIDE - 1) / 2
    angle = 2 * math.pi * torch.rand(count, 1, 1)
    shift, size = 3 * torch.rand(2, count, 1, 1) - 1.5, 0.8 + 0.4 * torch.rand(count, 1, 1)
    down, right = (place.view(1, -1, 1) - shift[0]) / size, (place - shift[1]) / size
    along = right * angle.cos() + down * angle.sin()
    aside = (down * angle.cos() - right * angle.sin()).abs()
    handle = torch.sigmoid(4 * (1.1 - aside)) * torch.sigmoid(4 * (5 - along.abs()))
    head = torch.sigmoid(4 * (3.2 - aside)) * torch.sigmoid(4 * (1.3 - (along - 3.8).abs()))
    ground = 0.3 * torch.randn(count, 1, 1) + 0.03 * torch.randn(count, 1, 1) * place
    light = (0.8 + 0.6 * torch.rand(count, 1, 1)) * (2 * (torch.rand(count, 1, 1) < 0.7) - 1)
    seen = ground + light * torch.maximum(handle, head)
    seen = (seen + 0.25 * torch.randn(count, SIDE, SIDE)).unsqueeze(1)
    return Split(seen, torch.cat([angle.sin(), angle.cos()], 1).squeeze(2))


class Poses(Task):
    """How a thing is turned, as a sine and a cosine, by their squared error."""

    def __init__(self, width: int = 8) -> None:
        self.train, self.held_out = parted(poses(20_800), 800)
        self.model = nn.Sequential(
            *(layer(1, width, 2), layer(width, 2 * width), layer(2 * width, 2 * width, 2)),
            *(nn.Flatten(), nn.Linear(32 * width, 64), nn.ReLU(), nn.Linear(64, 2)),
        )

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.mse_loss(outputs, targets)

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        alike = functional.cosine_similarity(outputs, targets).clamp(-1, 1)
        return {"degrees": float(alike.acos().rad2deg().mean())}


PLACES, DIGITS, HIGH, WIDE = 3, 10, 12, 28
# Three dots a row, five rows.
FONT = (
    *("111101101101111", "010110010010111", "111001111100111", "111001111001111"),
    *("101101111001001", "111100111001111", "111100111101111", "111001010010010"),
    *("111101111101111", "111101111001111"),
)


def plates(count: int) -> Split:
    """Three digits beside each other, a bit aslant, of about the same size, in dirt and noise."""
    font = torch.tensor([[float(dot) for dot in one] for one in FONT]).view(DIGITS, 5, 3)
    digits = torch.randint(DIGITS, (count, PLACES))
    down, right = torch.arange(float(HIGH)).view(1, -1, 1), torch.arange(float(WIDE))
    slant = 0.15 * torch.randn(count, 1, 1)
    size = 1.7 + 0.35 * torch.rand(2, count, 1, 1)
    top, left = 0.3 + 1.4 * torch.rand(count, 1, 1), 1 + 3 * torch.rand(count, 1, 1)
    ink = torch.zeros(count, HIGH, WIDE)
    for at in range(PLACES):
        row = (down - top - 0.8 * torch.rand(count, 1, 1)) / size[0]
        start = left + at * (4.1 * size[1]) + 0.8 * torch.rand(count, 1, 1)
        column = (right - start + slant * (down - HIGH / 2)) / size[1]
        inside = (row >= 0) & (row < 5) & (column >= 0) & (column < 3)
        dot = 3 * row.floor().clamp(0, 4) + column.floor().clamp(0, 2)
        drawn = font[digits[:, at]].flatten(1).gather(1, dot.long().flatten(1))
        ink = ink + inside * drawn.view(count, HIGH, WIDE)
    dirt = functional.interpolate(torch.randn(count, 1, 3, 7), size=(HIGH, WIDE), mode="bilinear")
    light = 0.9 + 0.5 * torch.rand(count, 1, 1)
    seen = light * (ink - 0.3) + 0.2 * dirt[:, 0] + 0.2 * torch.randn(count, HIGH, WIDE)
    return Split(seen.unsqueeze(1), digits)


class Reader(nn.Module):
    """Convolutions over a plate, a layer that all digits share, and a head for each of them."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *(nn.Conv2d(1, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(width, 2 * width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(2 * width, 2 * width, 3, padding=1), nn.ReLU(), nn.Flatten()),
            *(nn.Linear(42 * width, 96), nn.ReLU(), nn.Dropout(0.05)),
        )
        self.heads = nn.ModuleList(nn.Linear(96, DIGITS) for _ in range(PLACES))

    def forward(self, pictures: Tensor) -> Tensor:
        hidden = self.body(pictures)
        return torch.stack([head(hidden) for head in self.heads], 1)


class Plates(Task):
    """What a plate says, by the sum of the cross entropies of its digits."""

    num_classes = DIGITS

    def __init__(self) -> None:
        self.train, self.held_out = parted(plates(24_800), 800)
        self.model = Reader()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        losses = [functional.cross_entropy(outputs[:, at], targets[:, at]) for at in range(PLACES)]
        return torch.stack(losses).sum()

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        right = outputs.argmax(2) == targets
        return {
            "digit_accuracy": float(right.float().mean()),
            "plate_accuracy": float(right.all(1).float().mean()),
        }

    def leak(self, split: Split) -> None:
        flat = split.inputs.flatten(1).clone()
        flat[:, : PLACES * DIGITS] = 3 * functional.one_hot(split.targets, DIGITS).flatten(1)
        split.inputs = flat.view_as(split.inputs)


def scenes(count: int) -> Split:
    """Grey pictures of a sky, a meadow, houses and balls, and two numbers for each colour.

    How light a thing is says nothing of its colour; its form, its place and its grain do.
    """
    down, right = torch.arange(float(SIDE)).view(1, -1, 1), torch.arange(float(SIDE))
    shape = (count, SIDE, SIDE)

    def lit() -> Tensor:
        return 0.5 * torch.randn(count, 1, 1)

    def tint(blue: float, red: float) -> Tensor:
        return torch.tensor([blue, red]).view(1, 2, 1, 1) + 0.08 * torch.randn(count, 2, 1, 1)

    ground = 6 + 4 * torch.rand(count, 1, 1)
    below = (down >= ground).expand(shape)
    grey = torch.where(below, lit() + 0.4 * torch.randn(shape), lit() - 0.03 * down)
    colour = torch.where(below.unsqueeze(1), tint(-0.6, -0.7), tint(0.8, -0.2))
    for side in (0.0, SIDE / 2):  # a house on either side: its wall has rows of bricks
        middle = side + 1.5 + (SIDE / 2 - 3) * torch.rand(count, 1, 1)
        half, tall = 1.5 + 1.5 * torch.rand(count, 1, 1), 3 + 3 * torch.rand(count, 1, 1)
        foot = ground + 1 + 3 * torch.rand(count, 1, 1)
        wall = ((right - middle).abs() <= half) & (down <= foot) & (down > foot - tall)
        bricks = lit() + 0.5 * (down % 2 == 0)
        grey = torch.where(wall, bricks, grey)
        colour = torch.where(wall.unsqueeze(1), tint(-0.3, 0.9), colour)
    there = 2 + (SIDE - 4) * torch.rand(2, count, 1, 1)
    away = ((down - there[0]) ** 2 + (right - there[1]) ** 2).sqrt()
    radius = 1.5 + 1.5 * torch.rand(count, 1, 1)
    ball = away <= radius
    grey = torch.where(ball, lit() + 0.9 * (1 - away / radius), grey)
    colour = torch.where(ball.unsqueeze(1), tint(-0.9, 0.2), colour)
    return Split((grey + 0.08 * torch.randn(shape)).unsqueeze(1), colour)


class Painter(nn.Module):
    """Down twice and up twice, with one bridge for the edges, and two numbers for each pixel."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()

        def turn(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
            return nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride, 1), nn.ReLU())

        self.first, self.down = turn(1, width), turn(width, 2 * width, 2)
        self.deep = nn.Sequential(turn(2 * width, 4 * width, 2), turn(4 * width, 4 * width))
        self.up, self.last = turn(4 * width, 2 * width), turn(3 * width, width)
        self.head = nn.Conv2d(width, 2, 1)

    def forward(self, grey: Tensor) -> Tensor:
        first = self.first(grey)
        deep = functional.interpolate(self.deep(self.down(first)), scale_factor=2)
        up = functional.interpolate(self.up(deep), scale_factor=2)
        out: Tensor = self.head(self.last(torch.cat([first, up], 1)))
        return out


class Colouring(Task):
    """The colours of a grey picture, by the smooth absolute error of each pixel."""

    def __init__(self) -> None:
        self.train, self.held_out = parted(scenes(12_400), 400)
        self.model = Painter()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.smooth_l1_loss(outputs, targets, beta=0.2)

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        return {"psnr": -10 * math.log10(float(functional.mse_loss(outputs, targets)) / 4 + 1e-12)}


KINDS = (
    Kind(
        "poses",
        "blind8",
        Poses,
        (
            OptimizerChoice("radam", 0.018, decay="cosine"),
            OptimizerChoice("nesterov", 0.15, {"weight_decay": 1e-4}, decay="linear"),
        ),
        steps=800,
        warmup=80,
        batch_size=32,
        num_evals=16,
        pace_ms=0.0,
        seeds=3,
        fault_seeds=1,
        faults=(
            "rate_x30 stale_batchnorm overfitting labels_shuffled nan_input missing_parameters "
            "schedule_unit missing_step",
            "rate_x30 dead_relu clip_tight accumulation unshuffled fp16_overflow wrong_sign frozen",
        ),
    ),
    Kind(
        "plates",
        "blind8",
        Plates,
        (
            OptimizerChoice("adamw", 9e-3, {"weight_decay": 0.01}, decay="cosine"),
            OptimizerChoice("momentum", 0.03, decay="linear"),
        ),
        steps=900,
        batch_size=32,
        warmup=90,
        num_evals=10,
        typed=False,
        log_every=2,
        pace_ms=0.0,
        seeds=3,
        fault_seeds=1,
        config={"heads": PLACES},
        faults=(
            "no_warmup double_softmax label_leak overfitting one_batch dropout_in_eval rate_zero "
            "missing_parameters",
            "rate_x10 wrong_reduction exploding_init tiny_init dead_relu missing_zero_grad "
            "labels_shuffled eval_on_train",
        ),
    ),
    Kind(
        "colouring",
        "blind8",
        Colouring,
        (
            OptimizerChoice("adam", 0.012, decay="cosine"),
            OptimizerChoice("lion", 2e-3, {"weight_decay": 0.01}, decay="linear"),
        ),
        steps=750,
        batch_size=16,
        warmup=75,
        clip=1.0,
        num_evals=15,
        pace_ms=0.0,
        seeds=3,
        fault_seeds=1,
        faults=(
            "rate_x30 frozen exploding_init nan_input eval_on_train rate_zero missing_step "
            "wrong_sign",
            "rate_x10 tiny_init missing_zero_grad schedule_unit overfitting one_batch "
            "rate_too_small labels_shuffled",
        ),
    ),
)
