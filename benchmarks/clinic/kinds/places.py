"""Where things are: marks in a picture, the shape of a cloud of points, a picture by its places."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.clinic.kinds.tables import parted
from benchmarks.clinic.task import Classification, Kind, OptimizerChoice, Split, Task

SIDE, MARKS = 16, 3


def marked(count: int) -> Split:
    """Noisy pictures with a spot, a ring and a cross; the targets are their pixels, by number."""
    places = torch.randint(2, SIDE - 2, (2, count, MARKS, 1, 1))
    axis = torch.arange(SIDE)
    down, right = axis.view(-1, 1) - places[0], axis - places[1]
    away = (down**2 + right**2).float().sqrt()
    spot = (-0.7 * away[:, 0] ** 2).exp()
    ring = (-1.5 * (away[:, 1] - 2) ** 2).exp()
    across = (down[:, 2] == 0) | (right[:, 2] == 0)
    cross = across * (away[:, 2] < 2.5)
    light = 1 + 0.6 * torch.rand(count, 1, 1)
    pictures = light * (1.3 * spot + ring + cross) + 0.35 * torch.randn(count, SIDE, SIDE)
    pixels = SIDE * places[0] + places[1]
    return Split(pictures.unsqueeze(1), pixels.flatten(1))


class Hourglass(nn.Module):
    """Convolutions at full size and at half of it, joined; a map for each mark."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.fine = self._layer(1, width)
        self.coarse = nn.Sequential(
            nn.MaxPool2d(2), self._layer(width, 2 * width), self._layer(2 * width, width)
        )
        self.joined = self._layer(2 * width, width)
        self.head = nn.Conv2d(width, MARKS, 1)

    @staticmethod
    def _layer(inputs: int, outputs: int) -> nn.Sequential:
        layer = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        return nn.Sequential(layer, nn.BatchNorm2d(outputs), nn.ReLU())

    def forward(self, pictures: Tensor) -> Tensor:
        fine = self.fine(pictures)
        coarse = functional.interpolate(self.coarse(fine), scale_factor=2)
        maps: Tensor = self.head(self.joined(torch.cat([fine, coarse], 1)))
        return maps.flatten(2)


class Keypoints(Task):
    """A heat map for each mark, as chances of its pixels."""

    def __init__(self) -> None:
        self.train, self.held_out = parted(marked(6400), 400)
        self.model = Hourglass()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.cross_entropy(outputs.transpose(1, 2), targets)

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        found = outputs.argmax(-1)
        down, right = found // SIDE - targets // SIDE, found % SIDE - targets % SIDE
        return {"pixels_off": float((down**2 + right**2).float().sqrt().mean())}


SHAPES, POINTS = 6, 32


def clouds(count: int) -> Split:
    """Points on a ball, a cube, a cylinder, a cone, a ring or a saddle, turned and under noise."""
    labels = torch.randint(SHAPES, (count,))
    turn, high = 2 * torch.pi * torch.rand(count, POINTS), 2 * torch.rand(count, POINTS) - 1
    round_, more = torch.stack([turn.cos(), turn.sin()], -1), torch.rand(count, POINTS, 1)
    flat, level = 2 * torch.rand(count, POINTS, 2) - 1, high.unsqueeze(-1)
    cube = torch.cat([flat, level], -1)
    largest = cube.abs().max(-1, keepdim=True).values
    tube = 0.75 + 0.25 * torch.cos(2 * torch.pi * more)
    made = [
        torch.cat([(1 - level**2).sqrt() * round_, level], -1),
        cube / largest,
        torch.cat([round_, level], -1),
        torch.cat([(1 - level) / 2 * round_, level], -1),
        torch.cat([tube * round_, 0.25 * torch.sin(2 * torch.pi * more)], -1),
        torch.cat([flat, flat[..., :1] * flat[..., 1:]], -1),
    ]
    points = torch.stack(made)[labels, torch.arange(count)]
    axes = torch.linalg.qr(torch.randn(count, 3, 3)).Q
    scale = 0.7 + 0.6 * torch.rand(count, 1, 1)
    points = scale * points @ axes + 0.08 * torch.randn(count, POINTS, 3)
    return Split(points.transpose(1, 2).contiguous(), labels)


class PointNet(nn.Module):
    """The same layers for every point, their largest answers, and layers for the whole."""

    def __init__(self) -> None:
        super().__init__()
        self.points = nn.Sequential(
            *(nn.Conv1d(3, 32, 1), nn.BatchNorm1d(32), nn.ReLU()),
            *(nn.Conv1d(32, 48, 1), nn.BatchNorm1d(48), nn.ReLU()),
        )
        self.whole = nn.Sequential(nn.Linear(48, 32), nn.ReLU(), nn.Dropout(0.1))
        self.head = nn.Linear(32, SHAPES)

    def forward(self, points: Tensor) -> Tensor:
        out: Tensor = self.head(self.whole(self.points(points).max(-1).values))
        return out


class Clouds(Classification):
    """The shape of a cloud, whichever way it is turned."""

    num_classes = SHAPES

    def __init__(self) -> None:
        self.train, self.held_out = parted(clouds(9600), 600)
        self.model = PointNet()


WIDE, WAVES = 80, 32


def painting() -> Split:
    """The colours of a picture's pixels: soft stripes and discs, some of them sharp."""
    axis = torch.linspace(0, 1, WIDE)
    places = torch.cartesian_prod(axis, axis)
    colours = 0.5 * torch.ones(len(places), 3)
    for _ in range(6):
        stripes = (2 * torch.pi * places @ (3 * torch.randn(2)) + 6 * torch.rand(1)).sin()
        colours = colours + 0.12 * stripes[:, None] * torch.randn(3)
    for _ in range(8):
        away = (places - torch.rand(2)).norm(dim=1, keepdim=True) - 0.05 - 0.15 * torch.rand(1)
        inside = (-away * (30 + 60 * torch.rand(1))).sigmoid()
        colours = colours + inside * (torch.rand(3) - colours)
    order = torch.randperm(len(places))
    return Split(places[order], colours[order] + 0.01 * torch.randn(len(places), 3))


class Coordinates(nn.Module):
    """A place as waves of many lengths, then a perceptron."""

    waves: Tensor

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.register_buffer("waves", 3 * 2 * torch.pi * torch.randn(2, WAVES))
        self.layers = nn.Sequential(
            *(nn.Linear(2 * WAVES, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        )
        self.head = nn.Linear(width, 3)

    def forward(self, places: Tensor) -> Tensor:
        turns = places @ self.waves
        out: Tensor = self.head(self.layers(torch.cat([turns.sin(), turns.cos()], 1)))
        return out


class Painting(Task):
    """A picture as a function of the place; a fifth of its pixels is held out."""

    def __init__(self) -> None:
        self.train, self.held_out = parted(painting(), WIDE**2 // 5)
        self.model = Coordinates()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.mse_loss(outputs, targets)

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        error = float(functional.mse_loss(outputs, targets))
        return {"psnr": -10 * math.log10(error) if error > 0 else math.nan}


KINDS = (
    Kind(
        "keypoints",
        "blind3",
        Keypoints,
        (OptimizerChoice("adam", 3e-3), OptimizerChoice("momentum", 0.05, decay="cosine")),
        steps=800,
        batch_size=32,
        num_evals=16,
        faults=(
            "rate_x30 labels_shuffled stale_batchnorm frozen one_batch double_softmax slow_loader",
            "rate_too_small wrong_reduction clip_tight dead_relu",
        ),
    ),
    Kind(
        "clouds",
        "blind3",
        Clouds,
        (
            OptimizerChoice("nesterov", 0.02, {"weight_decay": 1e-4}, decay="cosine"),
            OptimizerChoice("adamw", 2e-3, {"weight_decay": 0.01}, decay="steps"),
        ),
        steps=1000,
        batch_size=32,
        config={"num_classes": SHAPES},
        faults=(
            "rate_x30 stale_batchnorm unshuffled fp16_overflow accumulation rate_zero",
            "label_leak labels_shuffled dropout_in_eval eval_on_train missing_parameters "
            "wrong_sign",
        ),
    ),
    Kind(
        "painting",
        "blind3",
        Painting,
        (OptimizerChoice("adam", 2e-3, decay="cosine"), OptimizerChoice("adamax", 4e-3)),
        steps=1000,
        batch_size=256,
        num_evals=25,
        typed=False,
        faults=(
            "rate_x30 exploding_init tiny_init unshuffled overfitting labels_shuffled",
            "schedule_unit missing_step dead_relu missing_zero_grad",
        ),
    ),
)
