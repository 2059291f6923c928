"""Seeing: how far away things are, birds that look alike, and boxes around what there is."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.clinic.kinds.pictures import SIDE, layer
from benchmarks.clinic.kinds.tables import parted
from benchmarks.clinic.task import Classification, Kind, OptimizerChoice, Split, Task


def roads(count: int) -> Split:
    """Things that stand on the ground in a haze, and the logarithm of how far each pixel is."""
    rows, columns = torch.arange(float(SIDE)).view(1, -1, 1), torch.arange(float(SIDE))
    horizon = 3 + 4 * torch.rand(count, 1, 1)
    below = (rows - horizon).clamp(min=0.6)
    far = (8 / below).clamp(max=12).expand(count, SIDE, SIDE)
    colour = 0.5 * torch.randn(count, 3, 1, 1).expand(count, 3, SIDE, SIDE)
    for away in (9.0, 5.0, 2.5):  # the near ones in front
        near = away * (0.8 + 0.6 * torch.rand(count, 1, 1))
        foot, size = horizon + 8 / near, (5 + 5 * torch.rand(2, count, 1, 1)) / near
        across = (columns - SIDE * torch.rand(count, 1, 1)).abs() <= size[0]
        there = across & (rows <= foot) & (rows >= foot - 2 * size[1])
        far = torch.where(there, near, far)
        colour = torch.where(there.unsqueeze(1), 0.8 * torch.randn(count, 3, 1, 1), colour)
    clear = (-far / 5).exp().unsqueeze(1)
    seen = clear * colour + (1 - clear) * (1 + 0.2 * torch.randn(count, 3, 1, 1))
    return Split(seen + 0.1 * torch.randn_like(seen), far.log().unsqueeze(1))


class DepthNet(nn.Module):
    """Convolutions at three sizes with bridges, and one number for each pixel."""

    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.first, self.down = layer(3, width), layer(width, 2 * width, 2)
        self.deep = nn.Sequential(layer(2 * width, 4 * width, 2), layer(4 * width, 2 * width))
        self.up, self.last = layer(4 * width, width), layer(2 * width, width)
        self.head = nn.Conv2d(width, 1, 1)

    def forward(self, pictures: Tensor) -> Tensor:
        first = self.first(pictures)
        down = self.down(first)
        deep = functional.interpolate(self.deep(down), scale_factor=2)
        up = functional.interpolate(self.up(torch.cat([down, deep], 1)), scale_factor=2)
        out: Tensor = self.head(self.last(torch.cat([first, up], 1)))
        return out


class Depth(Task):
    """Depth of each pixel: the error of its logarithm, and of how that changes to the next one."""

    def __init__(self) -> None:
        self.train, self.held_out = parted(roads(4400), 400)
        self.model = DepthNet()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        away = outputs - targets
        edges = away.diff(dim=2).abs().mean() + away.diff(dim=3).abs().mean()
        loss: Tensor = away.abs().mean() + 0.5 * edges
        return loss

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        away = (outputs - targets).abs()
        return {
            "rmse_log": float(away.square().mean().sqrt()),
            "delta1": float((away < 0.223).float().mean()),
        }


SPECIES, SMOOTHING = 12, 0.1


def birds(count: int) -> Split:
    """Birds of twelve species: three colours of the head, stripes or none, a long tail or none."""
    labels = torch.randint(SPECIES, (count,))
    head, striped, long = labels % 3, labels // 3 % 2, labels // 6
    place = torch.arange(float(SIDE))
    middle = 6.5 + 3 * torch.rand(2, count, 1, 1)
    side = torch.where(torch.rand(count, 1, 1) < 0.5, 1.0, -1.0)
    down, right = place.view(1, -1, 1) - middle[0], side * (place.view(1, 1, -1) - middle[1])
    body = (down / 2.5) ** 2 + (right / 3.5) ** 2 <= 1
    crown = (down + 2.5) ** 2 + (right - 3) ** 2 <= 3.2
    ends = torch.where(long == 1, -7.0, -4.5).view(-1, 1, 1)
    tail = (down.abs() <= 0.8) & (right < -3) & (right >= ends)
    stripes = body & (right.floor() % 2 == 0) & (striped == 1).view(-1, 1, 1)
    light = (1 + 0.2 * torch.randn(count, 1, 1, 1)) * torch.ones(1, 3, 1, 1)
    colours = torch.tensor([[1.0, -0.5, -0.5], [-0.5, 1.0, -0.5], [-0.5, -0.5, 1.0]])[head]
    found = 0.4 * torch.randn(count, 3, 1, 1).expand(count, 3, SIDE, SIDE)
    found = torch.where((body | tail).unsqueeze(1), 0.9 * light, found)
    found = torch.where(stripes.unsqueeze(1), -0.6 * light, found)
    found = torch.where(crown.unsqueeze(1), light * colours.view(count, 3, 1, 1), found)
    return Split(found + 0.35 * torch.randn_like(found), labels)


class Birds(Classification):
    """Species by smoothed labels, of two pictures mixed into one in training (mixup)."""

    num_classes = SPECIES

    def __init__(self, width: int = 12) -> None:
        self.train, self.held_out = parted(birds(8600), 600)
        self.model = nn.Sequential(
            *(layer(3, width, 2), layer(width, 2 * width), nn.MaxPool2d(2)),
            *(layer(2 * width, 2 * width), nn.AdaptiveAvgPool2d(2), nn.Flatten()),
            *(nn.Dropout(0.1), nn.Linear(8 * width, SPECIES)),
        )
        self._others, self._share = torch.zeros(0, dtype=torch.long), 1.0

    def outputs(self, inputs: Tensor) -> Any:
        if not torch.is_grad_enabled():
            return self.model(inputs)
        self._others = torch.randperm(len(inputs), device=inputs.device)
        drawn = float(torch.distributions.Beta(0.2, 0.2).sample())
        self._share = max(drawn, 1 - drawn)
        return self.model(self._share * inputs + (1 - self._share) * inputs[self._others])

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        if not torch.is_grad_enabled():
            return functional.cross_entropy(outputs, targets)
        wanted = (targets, targets[self._others])
        own, other = (
            functional.cross_entropy(outputs, one, label_smoothing=SMOOTHING) for one in wanted
        )
        return self._share * own + (1 - self._share) * other


CELLS, SORTS = 4, 3


def crowds(count: int) -> Split:
    """One to three things, and for each of sixteen cells: whether one has its middle there.

    If so: where in the cell, how high and wide it is, and of which sort: a box, a frame, a cross.
    """
    size, place = SIDE // CELLS, torch.arange(float(SIDE))
    pictures = 0.3 * torch.randn(count, 1, 1).expand(count, SIDE, SIDE)
    told = torch.zeros(count, CELLS * CELLS, 6)
    cells = torch.rand(count, CELLS * CELLS).argsort(1)[:, :3]
    number = torch.randint(1, 4, (count,))
    for thing in range(3):
        there, cell = number > thing, cells[:, thing]
        within, half = torch.rand(2, count), 1.6 + 1.4 * torch.rand(2, count)
        middle = size * (torch.stack([cell // CELLS, cell % CELLS]) + within) - 0.5
        sort = torch.randint(SORTS, (count,))
        down = ((place.view(1, -1, 1) - middle[0].view(-1, 1, 1)) / half[0].view(-1, 1, 1)).abs()
        right = ((place.view(1, 1, -1) - middle[1].view(-1, 1, 1)) / half[1].view(-1, 1, 1)).abs()
        box = (down <= 1) & (right <= 1)
        frame = box & ((down > 0.5) | (right > 0.5))
        cross = box & ((down <= 0.4) | (right <= 0.4))
        shapes = torch.stack([box, frame, cross])[sort, torch.arange(count)]
        light = 1 + 0.5 * torch.rand(count, 1, 1)
        pictures = torch.where(shapes & there.view(-1, 1, 1), light, pictures)
        row = torch.cat([torch.ones(1, count), within, half.log(), sort.unsqueeze(0).float()]).T
        told[torch.arange(count)[there], cell[there]] = row[there]
    return Split((pictures + 0.15 * torch.randn_like(pictures)).unsqueeze(1), told)


class Boxes(Task):
    """Boxes in one look: is there one, where and how large is it, what is it (as in YOLO)."""

    def __init__(self, width: int = 12) -> None:
        self.train, self.held_out = parted(crowds(10_400), 400)
        self.model = nn.Sequential(
            *(layer(1, width, 2), layer(width, 2 * width), layer(2 * width, 3 * width, 2)),
            *(layer(3 * width, 3 * width), nn.Dropout2d(0.05)),
            nn.Conv2d(3 * width, 5 + SORTS, 1),
        )

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        found, there = outputs.flatten(2).mT, targets[..., 0] > 0.5
        sure = functional.binary_cross_entropy_with_logits(found[..., 0], targets[..., 0])
        place = (found[there][:, 1:3].sigmoid() - targets[there][:, 1:3]).abs().mean()
        size = (found[there][:, 3:5] - targets[there][:, 3:5]).abs().mean()
        sort = functional.cross_entropy(found[there][:, 5:], targets[there][:, 5].long())
        loss: Tensor = 4 * sure + 2 * (place + size) + sort
        return loss

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        found, there = outputs.flatten(2).mT, targets[..., 0] > 0.5
        said = found[..., 0] > 0
        right = found[there][:, 5:].argmax(1) == targets[there][:, 5].long()
        return {
            "precision": float((said & there).sum() / said.sum().clamp(min=1)),
            "recall": float((said & there).sum() / there.sum()),
            "class_accuracy": float(right.float().mean()),
        }


KINDS = (
    Kind(
        "depth",
        "blind6",
        Depth,
        (
            OptimizerChoice("adamw", 0.012, {"weight_decay": 0.01, "fused": True}, decay="cosine"),
            OptimizerChoice("momentum", 0.15, {"weight_decay": 1e-4}, decay="linear"),
        ),
        steps=800,
        batch_size=8,
        warmup=80,
        num_evals=16,
        pace_ms=0.0,
        seeds=3,
        fault_seeds=1,
        faults=(
            "rate_x30 stale_batchnorm overfitting one_batch missing_parameters missing_zero_grad "
            "nan_input rate_zero",
            "rate_x30 clip_tight fp16_overflow wrong_sign stale_batchnorm labels_shuffled "
            "schedule_unit rate_too_small",
        ),
    ),
    Kind(
        "birds",
        "blind6",
        Birds,
        (
            OptimizerChoice("nesterov", 0.2, {"weight_decay": 5e-4}, decay="cosine"),
            OptimizerChoice("radam", 0.09, decay="steps"),
        ),
        steps=900,
        batch_size=24,
        warmup=90,
        num_evals=15,
        log_every=4,
        pace_ms=0.0,
        seeds=3,
        fault_seeds=1,
        config={"num_classes": SPECIES, "label_smoothing": SMOOTHING},
        faults=(
            "rate_x30 clip_tight label_leak unshuffled labels_shuffled wrong_reduction "
            "accumulation stale_batchnorm dropout_in_eval",
            "rate_x30 double_softmax label_leak frozen eval_on_train overfitting tiny_init "
            "missing_step slow_loader",
        ),
    ),
    Kind(
        "boxes",
        "blind6",
        Boxes,
        (
            OptimizerChoice("momentum", 0.02, {"weight_decay": 5e-4}, decay="cosine"),
            OptimizerChoice("adam", 8e-3, decay="linear"),
        ),
        steps=800,
        batch_size=16,
        warmup=80,
        clip=10.0,
        num_evals=10,
        pace_ms=0.0,
        seeds=3,
        fault_seeds=1,
        config={"grid": CELLS, "num_sorts": SORTS},
        faults=(
            "rate_x30 no_warmup wrong_reduction accumulation fp16_overflow rate_zero wrong_sign "
            "labels_shuffled",
            "rate_x30 dead_relu exploding_init overfitting nan_input missing_zero_grad "
            "missing_parameters rate_too_small",
        ),
    ),
)
