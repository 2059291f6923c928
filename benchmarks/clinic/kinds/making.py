"""Models that make or know things without labels: strokes, two views of motion, pixels in turn."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.clinic.kinds.tables import parted
from benchmarks.clinic.task import Kind, OptimizerChoice, Split, Task

SIGNS, DOTS = 6, 10
DRAWN = 2 * DOTS


def strokes(count: int) -> Split:
    """Ten dots along a stroke, one after the other, and which of six signs it is."""
    along = torch.linspace(0, 1, DOTS)
    sign = torch.randint(SIGNS, (count,))
    turns = torch.tensor([0.0, 0.5, 1.0, 1.0, 0.5, 0.25])[sign, None]
    grow = torch.tensor([0.0, 0.0, 0.0, 0.8, -0.6, 1.2])[sign, None]
    wave = torch.tensor([0.6, 0.0, 0.0, 0.0, 0.5, -0.5])[sign, None]
    lean = 0.25 * torch.randn(count, 1)
    angle = 6.283 * turns * along + lean
    reach = 1 + grow * (along - 0.5) + wave * torch.sin(6.283 * along)
    straight = (turns == 0).float()
    right = straight * (2 * along - 1) + (1 - straight) * reach * angle.cos()
    down = straight * wave * torch.sin(6.283 * along + lean) + (1 - straight) * reach * angle.sin()
    size = 0.8 + 0.4 * torch.rand(count, 1)
    dots = size * torch.cat([right, down], 1) + 0.05 * torch.randn(count, DRAWN)
    return Split(torch.cat([dots, functional.one_hot(sign, SIGNS).float()], 1), dots)


class Velocity(nn.Module):
    """The way from noise to a stroke, at any time between them, for one sign or for any."""

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.first = nn.Linear(DRAWN + SIGNS + 7, width)
        self.middle = nn.Sequential(
            *(nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
        )
        self.head = nn.Sequential(nn.SiLU(), nn.Linear(width, DRAWN))

    def forward(self, dots: Tensor, sign: Tensor, time: Tensor) -> Tensor:
        waves = time * torch.tensor([3.142, 6.283, 12.566], device=time.device)
        hidden = self.first(torch.cat([dots, sign, time, waves.sin(), waves.cos()], 1))
        out: Tensor = self.head(hidden + self.middle(hidden))
        return out


class Strokes(Task):
    """A straight way from noise to data (rectified flow); a tenth of the signs is left out.

    An evaluation has the same noise every time.
    """

    def __init__(self) -> None:
        self.train, self.held_out = parted(strokes(21_000), 1000)
        self.model = Velocity()

    def outputs(self, inputs: Tensor) -> Any:
        chance = None
        if not torch.is_grad_enabled():
            chance = torch.Generator(inputs.device).manual_seed(7)
        dots, sign = inputs[:, :DRAWN], inputs[:, DRAWN:]
        noise = torch.randn(dots.shape, device=dots.device, generator=chance)
        time, told = torch.rand(2, len(dots), 1, device=dots.device, generator=chance)
        if chance is None:
            sign = sign * (told > 0.1)
        between = time * dots + (1 - time) * noise
        return self.model(between, sign, time), dots - noise

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.mse_loss(*outputs)


DOINGS, TICKS, AXES, LATENT = 8, 24, 3, 24
CROWD = 48


def doings(count: int) -> Split:
    """Three axes of somebody's motion: what is done has its rhythm, each person a way of it."""
    ticks = torch.arange(float(TICKS))
    doing = torch.randint(DOINGS, (count,))
    speed, size = 0.25 + 0.9 * torch.rand(DOINGS, 2), 0.4 + torch.rand(DOINGS, 2, AXES)
    phase = 6.283 * torch.rand(count, 2, 1, 1)
    own = 1 + 0.3 * torch.randn(count, 2, AXES, 1)
    angle = speed[doing, :, None, None] * ticks + phase
    lasting = 0.8 * torch.randn(DOINGS, AXES, 1)[doing] + 0.4 * torch.randn(count, AXES, 1)
    return Split((own * size[doing].unsqueeze(3) * angle.sin()).sum(1) + lasting, doing)


class Motion(nn.Module):
    """Convolutions over time, their mean, and a projection in which views are compared."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *(nn.Conv1d(AXES, width, 5, 2, 2, bias=False), nn.BatchNorm1d(width), nn.ReLU()),
            nn.Conv1d(width, 2 * width, 3, padding=1, bias=False),
            *(nn.BatchNorm1d(2 * width), nn.ReLU(), nn.AdaptiveAvgPool1d(3), nn.Flatten()),
        )
        self.projection = nn.Sequential(
            *(nn.Linear(6 * width, 64, bias=False), nn.BatchNorm1d(64), nn.ReLU()),
            nn.Linear(64, LATENT),
        )

    def forward(self, motion: Tensor) -> Tensor:
        out: Tensor = self.projection(self.body(motion))
        return out


class Twins(Task):
    """Two views of a motion are told alike, by numbers that say different things (Barlow Twins).

    An evaluation has batches of the same size, for which the loss is meant.
    """

    def __init__(self) -> None:
        self.train, self.held_out = parted(doings(8720), 720)
        self.model = Motion()

    def _view(self, motion: Tensor) -> Tensor:
        size = 1 + 0.15 * torch.randn(len(motion), AXES, 1, device=motion.device)
        start = torch.randint(TICKS, (len(motion), 1, 1), device=motion.device)
        hidden = ((torch.arange(TICKS, device=motion.device) - start) % TICKS) < 4
        seen = size * motion + 0.15 * torch.randn_like(motion)
        return seen.masked_fill(hidden, 0.0)

    def outputs(self, inputs: Tensor) -> Any:
        return self.model(torch.cat([self._view(inputs), self._view(inputs)])).chunk(2)

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        one, other = ((part - part.mean(0)) / (part.std(0) + 1e-4) for part in outputs)
        alike = one.T @ other / len(one)
        same = alike.diagonal()
        rest = alike.square().sum() - same.square().sum()
        loss: Tensor = ((1 - same).square().sum() + 0.02 * rest) / LATENT
        return loss

    def evaluate(self, split: Split) -> dict[str, float]:
        with torch.no_grad():
            parts = torch.split(split.inputs.to(self.device), CROWD)
            losses = [self.loss(self.outputs(part), split.targets) for part in parts]
        return {"loss": float(torch.stack(losses).mean())}


CELLS = 10


def tiles(count: int) -> Tensor:
    """Black and white tiles: a frame or stripes, and a disc that turns what is under it."""
    axis = torch.arange(float(CELLS))
    down, right = axis.view(1, -1, 1), axis.view(1, 1, -1)
    stripes = torch.rand(count, 1, 1) < 0.5
    wide, begin = torch.randint(1, 4, (count, 1, 1)), torch.randint(6, (count, 1, 1))
    across = torch.where(torch.rand(count, 1, 1) < 0.5, down, right)
    striped = (across + begin) % (2 * wide) < wide
    low, high = torch.randint(0, 4, (2, count, 1, 1)), torch.randint(6, CELLS, (2, count, 1, 1))
    inside = (down >= low[0]) & (down <= high[0]) & (right >= low[1]) & (right <= high[1])
    there = 1 + (CELLS - 2) * torch.rand(2, count, 1, 1)
    disc = (down - there[0]) ** 2 + (right - there[1]) ** 2 <= 5
    found = torch.where(stripes, striped, inside) ^ disc
    return (found ^ (torch.rand(count, CELLS, CELLS) < 0.02)).float().unsqueeze(1)


class Before(nn.Conv2d):
    """A convolution that sees the pixels above and to the left, and its own if it may."""

    mask: Tensor

    def __init__(self, inputs: int, outputs: int, size: int, *, own: bool) -> None:
        super().__init__(inputs, outputs, size, padding=size // 2)
        mask = torch.ones(size * size)
        mask[size * size // 2 + own :] = 0
        self.register_buffer("mask", mask.view(size, size))

    def forward(self, maps: Tensor) -> Tensor:
        return functional.conv2d(
            maps, self.weight * self.mask, self.bias, padding=self.kernel_size[0] // 2
        )


class Pixels(Task):
    """The chance of each pixel by those before it (PixelCNN)."""

    def __init__(self, width: int = 16) -> None:
        found = torch.unique(tiles(9400), dim=0)  # none is there twice
        found = found[torch.randperm(len(found))]
        self.train, self.held_out = parted(Split(found, found), 400)
        self.model = nn.Sequential(
            *(Before(1, width, 7, own=False), nn.ReLU()),
            *(Before(width, width, 3, own=True), nn.ReLU()),
            *(Before(width, width, 3, own=True), nn.ReLU()),
            *(nn.Conv2d(width, width, 1), nn.ReLU(), nn.Conv2d(width, 1, 1)),
        )

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.binary_cross_entropy_with_logits(outputs, targets)


KINDS = (
    Kind(
        "strokes",
        "blind7",
        Strokes,
        (
            OptimizerChoice("adamw", 9e-3, {"weight_decay": 0.01}, decay="cosine"),
            OptimizerChoice("nesterov", 1.2, decay="linear"),
        ),
        steps=900,
        batch_size=64,
        num_evals=9,
        log_every=5,
        pace_ms=0.0,
        seeds=3,
        fault_seeds=1,
        faults=(
            "rate_x30 overfitting frozen exploding_init missing_zero_grad slow_loader "
            "rate_zero missing_step",
            "rate_x30 clip_tight nan_input wrong_sign tiny_init fp16_overflow "
            "schedule_unit one_batch",
        ),
    ),
    Kind(
        "twins",
        "blind7",
        Twins,
        (
            OptimizerChoice("momentum", 1.8, {"weight_decay": 1e-4}, decay="cosine"),
            OptimizerChoice("adam", 6e-3),
        ),
        steps=700,
        batch_size=CROWD,
        warmup=70,
        num_evals=14,
        pace_ms=0.0,
        seeds=3,
        fault_seeds=1,
        faults=(
            "rate_x30 stale_batchnorm clip_tight nan_input wrong_sign accumulation "
            "rate_too_small fp16_overflow",
            "rate_x30 stale_batchnorm overfitting one_batch missing_parameters rate_zero "
            "missing_step frozen",
        ),
    ),
    Kind(
        "pixels",
        "blind7",
        Pixels,
        (
            OptimizerChoice("adamax", 0.075, decay="steps"),
            OptimizerChoice("rmsprop", 6e-3, decay="linear"),
        ),
        steps=750,
        batch_size=16,
        warmup=75,
        num_evals=15,
        typed=False,
        pace_ms=0.0,
        seeds=3,
        fault_seeds=1,
        faults=(
            "rate_x30 dead_relu overfitting tiny_init memory_leak wrong_sign "
            "missing_parameters schedule_unit",
            "rate_x10 exploding_init nan_input one_batch missing_zero_grad rate_too_small "
            "missing_step eval_on_train",
        ),
    ),
)
