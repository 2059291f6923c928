"""Pictures of discs and boxes: noise to take away, things to count, changes, views that agree."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.clinic.kinds.tables import parted
from benchmarks.clinic.task import Kind, OptimizerChoice, Split, Task

SIDE = 16


def ground(count: int) -> Tensor:
    """A slope of light in each of three colours."""
    axis = torch.linspace(-1, 1, SIDE)
    tilt, base = 0.3 * torch.randn(2, count, 3, 1, 1), 0.4 * torch.randn(count, 3, 1, 1)
    return base + tilt[0] * axis.view(1, 1, -1, 1) + tilt[1] * axis.view(1, 1, 1, -1)


def thing(count: int, size: tuple[float, float] = (1.5, 3.5)) -> Tensor:
    """Where one disc or box is, as a mask for each picture."""
    places = torch.arange(float(SIDE))
    middle = 2 + (SIDE - 5) * torch.rand(2, count, 1, 1)
    half = size[0] + (size[1] - size[0]) * torch.rand(2, count, 1, 1)
    down = (places.view(1, -1, 1) - middle[0]).abs()
    right = (places.view(1, 1, -1) - middle[1]).abs()
    box = (down <= half[0]) & (right <= half[1])
    disc = down**2 + right**2 <= half[0] ** 2
    return torch.where(torch.rand(count, 1, 1) < 0.5, box, disc).unsqueeze(1)


def scenes(count: int, things: int) -> Tensor:
    """Coloured things on a ground, each in front of those before it."""
    found = ground(count)
    for _ in range(things):
        found = torch.where(thing(count), torch.randn(count, 3, 1, 1), found)
    return found


def layer(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
    )


class Unet(nn.Module):
    """Convolutions at three sizes, with bridges; the answer is the noise that is taken away."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.first, self.down = layer(3, width), layer(width, 2 * width, 2)
        self.deep = nn.Sequential(layer(2 * width, 2 * width, 2), layer(2 * width, 2 * width))
        self.up, self.last = layer(4 * width, width), layer(2 * width, width)
        self.head = nn.Conv2d(width, 3, 1)

    def forward(self, pictures: Tensor) -> Tensor:
        first = self.first(pictures)
        down = self.down(first)
        deep = functional.interpolate(self.deep(down), scale_factor=2)
        up = functional.interpolate(self.up(torch.cat([down, deep], 1)), scale_factor=2)
        noise: Tensor = self.head(self.last(torch.cat([first, up], 1)))
        return pictures - noise


class Denoising(Task):
    """Pictures without the noise of a camera, by their mean squared error."""

    def __init__(self) -> None:
        clean = scenes(4300, 4)
        grain = (0.2 + 0.5 * torch.rand(len(clean), 1, 1, 1)) * torch.randn_like(clean)
        self.train, self.held_out = parted(Split(clean + grain, clean), 300)
        self.model = Unet()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.mse_loss(outputs, targets)

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        error = float(functional.mse_loss(outputs, targets))
        return {"psnr": -10 * math.log10(error) if error > 0 else math.nan}


MOST = 9


def crowds(count: int) -> Split:
    """Up to nine small things; the target is how many there are."""
    wanted = torch.randint(MOST + 1, (count,))
    pictures = ground(count).mean(1, keepdim=True)
    for number in range(MOST):
        there = thing(count, (0.6, 1.6)) & (wanted > number).view(-1, 1, 1, 1)
        light = 0.8 + torch.rand(count, 1, 1, 1)
        pictures = torch.where(there, pictures + light, pictures)
    return Split(pictures + 0.15 * torch.randn_like(pictures), wanted.float())


class Counter(nn.Module):
    """A convolution network whose maps are added up: the logarithm of a count."""

    def __init__(self) -> None:
        super().__init__()
        self.maps = nn.Sequential(
            *(nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(12, 24, 3, padding=1), nn.ReLU(), nn.Conv2d(24, 24, 3, padding=1)),
        )
        self.whole = nn.Sequential(nn.ReLU(), nn.Dropout(0.1), nn.Linear(24, 32), nn.ReLU())
        self.head = nn.Linear(32, 1)

    def forward(self, pictures: Tensor) -> Tensor:
        out: Tensor = self.head(self.whole(self.maps(pictures).mean((2, 3))))
        return out[:, 0]


class Counting(Task):
    """How many things there are, as the mean of a Poisson distribution."""

    def __init__(self) -> None:
        self.train, self.held_out = parted(crowds(8500), 500)
        self.model = Counter()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.poisson_nll_loss(outputs, targets)

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        return {"mean_error": float((outputs.exp() - targets).abs().mean())}


def pairs(count: int) -> Split:
    """A place at two times, in another light; in most of them something came or went."""
    before = scenes(count, 3)
    new = thing(count) & (torch.rand(count, 1, 1, 1) < 0.8)
    after = torch.where(new, before + 1.2 * torch.randn(count, 3, 1, 1), before)
    light = 1 + 0.3 * torch.randn(2, count, 1, 1, 1)
    both = torch.cat([light[0] * before, light[1] * after], 1)
    return Split(both + 0.25 * torch.randn_like(both), new[:, 0].float())


class Twins(nn.Module):
    """The same layers for both times; a map of their difference."""

    def __init__(self, width: int = 12) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *(nn.Conv2d(3, width, 3, padding=1), nn.GroupNorm(3, width), nn.ReLU()),
            *(nn.Conv2d(width, width, 3, padding=1), nn.GroupNorm(3, width), nn.ReLU()),
        )
        self.compare = nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.ReLU())
        self.head = nn.Conv2d(width, 1, 1)

    def forward(self, both: Tensor) -> Tensor:
        found = self.body(both.reshape(-1, 3, SIDE, SIDE)).view(len(both), 2, -1, SIDE, SIDE)
        before, after = found.unbind(1)
        out: Tensor = self.head(self.compare((after - before).abs()))
        return out[:, 0]


class Changes(Task):
    """Which pixels have changed: few of them, so that theirs weigh more."""

    def __init__(self) -> None:
        self.train, self.held_out = parted(pairs(4300), 300)
        self.model = Twins()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        weight = 1 + 3 * targets
        return functional.binary_cross_entropy_with_logits(outputs, targets, weight)

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        found, true = outputs > 0, targets > 0.5
        return {"iou": float((found & true).sum() / (found | true).sum().clamp(min=1))}


SORTS, VIEW = 10, 12


def sorts(count: int) -> Split:
    """Ten patterns; each picture has one of them, moved, in any light, beside a thing."""
    patterns = functional.interpolate(torch.randn(SORTS, 3, 4, 4), (SIDE, SIDE), mode="bicubic")
    labels = torch.randint(SORTS, (count,))
    light = 0.5 + torch.rand(count, 3, 1, 1)
    pictures = torch.where(thing(count), torch.randn(count, 3, 1, 1), light * patterns[labels])
    return Split(pictures + 0.8 * torch.randn_like(pictures), labels)


class Agreeing(nn.Module):
    """An encoder, a projection of what it finds, and a guess of the other view's projection."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            *(layer(3, 12), layer(12, 24, 2), layer(24, width, 2)),
            *(nn.AdaptiveAvgPool2d(1), nn.Flatten()),
        )
        self.project = nn.Sequential(
            *(nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU()),
            *(nn.Linear(width, width), nn.BatchNorm1d(width, affine=False)),
        )
        self.guess = nn.Sequential(
            *(nn.Linear(width, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, width))
        )

    def forward(self, pictures: Tensor) -> tuple[Tensor, Tensor]:
        projected = self.project(self.encoder(pictures))
        return self.guess(projected), projected.detach()


class Views(Task):
    """Two views of a picture agree, without others beside them (SimSiam)."""

    def __init__(self) -> None:
        self.train, self.held_out = parted(sorts(6800), 800)
        self.model: Agreeing = Agreeing()

    def _view(self, pictures: Tensor) -> Tensor:
        """A crop at some place, maybe mirrored, in another light and under noise."""
        count, device = len(pictures), pictures.device
        start = torch.randint(SIDE - VIEW + 1, (2, count, 1), device=device)
        places = torch.arange(VIEW, device=device)
        row, column = start[0] + places, start[1] + places
        column = torch.where(torch.rand(count, 1, device=device) < 0.5, column, column.flip(1))
        at = torch.arange(count, device=device).view(-1, 1, 1)
        cut = pictures.permute(0, 2, 3, 1)[at, row[:, :, None], column[:, None, :]]
        light = 0.6 + 0.8 * torch.rand(count, 1, 1, 3, device=device)
        return (light * cut + 0.2 * torch.randn_like(cut)).permute(0, 3, 1, 2)

    def outputs(self, inputs: Tensor) -> Any:
        return *self.model(self._view(inputs)), *self.model(self._view(inputs))

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        guess, own, other_guess, other = outputs
        both = functional.cosine_similarity(guess, other) + functional.cosine_similarity(
            other_guess, own
        )
        return -both.mean() / 2

    def evaluate(self, split: Split) -> dict[str, float]:
        figures = super().evaluate(split)
        with torch.no_grad():
            found = functional.normalize(self.model.encoder(split.inputs.to(self.device)), dim=1)
            labels = split.targets.to(self.device)
            near = (found @ found.T).fill_diagonal_(-2).topk(5).indices
            votes = functional.one_hot(labels[near], SORTS).sum(1)
            figures["knn_accuracy"] = float((votes.argmax(1) == labels).float().mean())
        return figures

    def result(self) -> float:
        self.model.eval()
        return 1 - self.evaluate(self.held_out)["knn_accuracy"]


KINDS = (
    Kind(
        "denoise",
        "blind4",
        Denoising,
        (
            OptimizerChoice("adam", 0.012, decay="cosine"),
            OptimizerChoice("momentum", 0.3, decay="linear"),
        ),
        steps=800,
        batch_size=16,
        num_evals=16,
        seeds=4,
        faults=(
            "rate_x30 stale_batchnorm labels_shuffled tiny_init one_batch nan_input",
            "rate_too_small clip_tight wrong_sign frozen accumulation",
        ),
    ),
    Kind(
        "counting",
        "blind4",
        Counting,
        (
            OptimizerChoice("adamw", 3e-3, {"weight_decay": 0.01}, decay="linear"),
            OptimizerChoice("nesterov", 0.0067),
        ),
        steps=1000,
        batch_size=32,
        seeds=4,
        faults=(
            "dead_relu dropout_in_eval overfitting missing_step eval_on_train nan_input",
            "rate_x30 exploding_init wrong_reduction rate_zero missing_zero_grad fp16_overflow",
        ),
    ),
    Kind(
        "changes",
        "blind4",
        Changes,
        (OptimizerChoice("adam", 0.012), OptimizerChoice("rmsprop", 0.018, decay="cosine")),
        steps=800,
        batch_size=16,
        num_evals=16,
        typed=False,
        seeds=4,
        faults=(
            "missing_parameters labels_shuffled overfitting rate_zero missing_zero_grad",
            "rate_x30 schedule_unit wrong_sign exploding_init slow_loader",
        ),
    ),
    Kind(
        "simsiam",
        "blind4",
        Views,
        (
            OptimizerChoice("momentum", 0.15, {"weight_decay": 1e-4}, decay="cosine"),
            OptimizerChoice("adamw", 6e-3, {"weight_decay": 0.01}),
        ),
        steps=800,
        batch_size=32,
        warmup=80,
        num_evals=16,
        seeds=4,
        faults=(
            "wrong_sign stale_batchnorm rate_too_small one_batch missing_step",
            "rate_x30 nan_input exploding_init overfitting",
        ),
    ),
)
