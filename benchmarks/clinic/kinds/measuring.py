"""Measurements: how long a machine still runs, which soil a profile is, pictures of a few rays."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.clinic.kinds.tables import parted
from benchmarks.clinic.task import Classification, Kind, OptimizerChoice, Split, Task

SENSORS, WINDOW, LONGEST, CYCLES = 8, 32, 240.0, 20.0


def machines(count: int) -> Split:
    """The last cycles of a machine by eight sensors, and how many cycles it will still run.

    Wear grows the faster the nearer the end is, at a pace of the machine's own. Sensors follow the
    wear and the load, which changes from time to time, and each machine is built a bit otherwise.
    """
    left = LONGEST * torch.rand(count, 1)
    pace = 50 + 70 * torch.rand(count, 1)
    wear = (-(left + torch.arange(float(WINDOW)).flip(0)) / pace).exp().unsqueeze(1)
    loads = functional.interpolate(torch.randn(count, 1, 5), size=WINDOW, mode="nearest")
    by_wear = 0.8 + torch.rand(SENSORS, 1)
    by_wear = by_wear * (2 * torch.rand(SENSORS, 1) - 1).sign()
    by_load, bent = torch.randn(2, SENSORS, 1)
    built = 0.15 * torch.randn(count, SENSORS, 1)
    seen = by_wear * wear * (1 + 0.3 * bent * loads) + 0.5 * by_load * loads + built
    seen = seen + 0.12 * torch.randn(count, SENSORS, WINDOW)
    middle, spread = seen.mean((0, 2), keepdim=True), seen.std((0, 2), keepdim=True)
    return Split((seen - middle) / spread, left[:, 0])


class Lifetimes(Task):
    """The cycles that a machine still runs, by Huber's loss in cycles."""

    def __init__(self, width: int = 16) -> None:
        self.train, self.held_out = parted(machines(31_000), 1000)
        self.model = nn.Sequential(
            *(nn.Conv1d(SENSORS, width, 5, 2, 2), nn.ReLU()),
            *(nn.Conv1d(width, 2 * width, 5, 2, 2), nn.ReLU(), nn.Flatten()),
            *(nn.Linear(2 * width * WINDOW // 4, 64), nn.ReLU(), nn.Linear(64, 1)),
        )

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.huber_loss(outputs[:, 0], targets, delta=CYCLES)

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        away = outputs[:, 0] - targets
        rmse = float(away.square().mean().sqrt())
        return {"mae_cycles": float(away.abs().mean()), "rmse_cycles": rmse}

    def leak(self, split: Split) -> None:
        windows = split.inputs.clone()
        windows[:, 0] = split.targets.unsqueeze(1) / LONGEST * 4 - 2
        split.inputs = windows


SOILS, HORIZONS, ASSAYS = 9, 7, 8
SMOOTHING, CARELESS = 0.1, 0.05


def profiles(count: int) -> Split:
    """Three to seven horizons of a soil: depth, eight assays, and whether there is such a horizon.

    Every soil has a course of each assay over the depth. Sites differ as a whole, laboratories
    measure with noise, and one profile in twenty was named carelessly.
    """
    soil = torch.randint(SOILS, (count,))
    many = torch.randint(3, HORIZONS + 1, (count, 1))
    there = torch.arange(HORIZONS) < many
    depth = (there * (0.3 + torch.rand(count, HORIZONS))).cumsum(1)
    depth = 2 * depth / depth[:, -1:] - 1
    level, slope, bump = torch.randn(3, SOILS, ASSAYS)
    at, deep = 1.6 * torch.rand(SOILS, ASSAYS) - 0.8, depth.unsqueeze(2)
    course = 0.35 * level[soil].unsqueeze(1) + 0.5 * slope[soil].unsqueeze(1) * deep
    peak = (-((deep - at[soil].unsqueeze(1)) / 0.35).square()).exp()
    assays = course + bump[soil].unsqueeze(1) * peak + 0.7 * torch.randn(count, 1, ASSAYS)
    assays = assays + 0.8 * torch.randn(count, HORIZONS, ASSAYS)
    rows = torch.cat([deep, assays, torch.ones_like(deep)], 2) * there.unsqueeze(2)
    named = torch.where(torch.rand(count) < CARELESS, torch.randint(SOILS, (count,)), soil)
    return Split(rows, named)


class Horizons(nn.Module):
    """Each horizon by itself, then the mean and the highest of them, then the whole profile."""

    def __init__(self, width: int = 40) -> None:
        super().__init__()

        def dense(inputs: int) -> nn.Sequential:
            return nn.Sequential(
                *(nn.Linear(inputs, width), nn.LayerNorm(width), nn.ReLU(), nn.Dropout(0.1))
            )

        self.each = nn.Sequential(dense(ASSAYS + 2), dense(width))
        self.whole = dense(2 * width)
        self.head = nn.Linear(width, SOILS)

    def forward(self, rows: Tensor) -> Tensor:
        there = rows[:, :, -1:]
        hidden = self.each(rows) * there
        together = torch.cat([hidden.sum(1) / there.sum(1).clamp(min=1), hidden.amax(1)], 1)
        out: Tensor = self.head(self.whole(together))
        return out


class Soils(Classification):
    """Which soil a profile is, by a cross entropy with smoothed labels."""

    num_classes = SOILS

    def __init__(self) -> None:
        self.train, self.held_out = parted(profiles(41_000), 1000)
        self.model = Horizons()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.cross_entropy(outputs, targets, label_smoothing=SMOOTHING)

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        said, true = (functional.one_hot(one, SOILS) for one in (outputs.argmax(1), targets))
        f1 = 2 * (said * true).sum(0) / (said.sum(0) + true.sum(0)).clamp(min=1)
        return {**super().measures(outputs, targets), "macro_f1": float(f1.mean())}


GRID, ANGLES, BEAMS, BODIES = 12, 5, 17, 3


def beams() -> Tensor:
    """How much each pixel counts for each ray: parallel rays, from a few angles."""
    place = torch.arange(float(GRID)) - (GRID - 1) / 2
    down, right = (one.flatten() for one in torch.meshgrid(place, place, indexing="ij"))
    angle = (math.pi * torch.arange(float(ANGLES)) / ANGLES).view(-1, 1, 1)
    aside = right * angle.cos() + down * angle.sin()
    ray = (torch.arange(float(BEAMS)) - (BEAMS - 1) / 2).view(1, -1, 1)
    return (1 - (aside - ray).abs()).clamp(min=0).flatten(0, 1)


def scans(count: int) -> Split:
    """What a few rays lose in a plate with three denser or lighter bodies, and the plate."""
    place = torch.arange(float(GRID)) - (GRID - 1) / 2
    down, right = place.view(1, -1, 1), place
    plate = torch.zeros(count, GRID, GRID)
    for _ in range(BODIES):
        middle, size = 7 * torch.rand(2, count, 1, 1) - 3.5, 1.2 + 2.3 * torch.rand(2, count, 1, 1)
        turn = math.pi * torch.rand(count, 1, 1)
        along = (right - middle[1]) * turn.cos() + (down - middle[0]) * turn.sin()
        aside = (down - middle[0]) * turn.cos() - (right - middle[1]) * turn.sin()
        inside = torch.sigmoid(5 * (1 - (along / size[0]).square() - (aside / size[1]).square()))
        plate = plate + (1.2 * torch.rand(count, 1, 1) - 0.3) * inside
    lost = plate.flatten(1) @ beams().T
    seen = lost + (0.2 + 0.05 * lost.abs()) * torch.randn_like(lost)
    return Split(seen / seen.std(), plate.unsqueeze(1))


class Tomograph(nn.Module):
    """A layer from rays to a first picture, which convolutions correct."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()

        def turn(inputs: int, outputs: int) -> nn.Sequential:
            kernel = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
            return nn.Sequential(kernel, nn.BatchNorm2d(outputs), nn.ReLU())

        self.first = nn.Sequential(
            nn.Linear(ANGLES * BEAMS, 2 * GRID * GRID), nn.Unflatten(1, (2, GRID, GRID))
        )
        self.body = nn.Sequential(turn(2, width), turn(width, width))
        self.head = nn.Conv2d(width + 2, 1, 3, padding=1)

    def forward(self, rays: Tensor) -> Tensor:
        first = self.first(rays)
        out: Tensor = self.head(torch.cat([first, self.body(first)], 1))
        return out


class Tomography(Task):
    """A plate from a few rays, by Charbonnier's smooth absolute error of each pixel."""

    def __init__(self) -> None:
        self.train, self.held_out = parted(scans(20_500), 500)
        self.model = Tomograph()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        loss: Tensor = ((outputs - targets).square() + 1e-3).sqrt().mean()
        return loss

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        return {"psnr": -10 * math.log10(float(functional.mse_loss(outputs, targets)) + 1e-12)}


KINDS = (
    Kind(
        "lifetimes",
        "blind9",
        Lifetimes,
        (
            OptimizerChoice("nadam", 0.014, decay="steps"),
            OptimizerChoice("momentum", 3e-4, {"weight_decay": 1e-4}, decay="cosine"),
        ),
        steps=1000,
        batch_size=32,
        num_evals=20,
        pace_ms=0.0,
        seeds=3,
        fault_seeds=1,
        config={"loss": "huber", "delta": CYCLES, "unit": "cycles"},
        faults=(
            "rate_x30 label_leak overfitting nan_input frozen rate_zero eval_on_train memory_leak",
            "rate_x10 exploding_init tiny_init dead_relu wrong_reduction fp16_overflow "
            "unshuffled missing_zero_grad",
        ),
    ),
    Kind(
        "soils",
        "blind9",
        Soils,
        (
            OptimizerChoice("adamw", 0.01, {"weight_decay": 0.02}, decay="linear"),
            OptimizerChoice("sgd", 0.3, decay="cosine"),
        ),
        steps=900,
        batch_size=16,
        accumulate=2,
        warmup=60,
        num_evals=12,
        typed=False,
        log_every=3,
        pace_ms=0.0,
        seeds=3,
        fault_seeds=1,
        config={"label_smoothing": SMOOTHING, "dropout": 0.1},
        faults=(
            "rate_x30 no_warmup double_softmax label_leak dropout_in_eval overfitting one_batch "
            "schedule_unit",
            "rate_too_small clip_tight accumulation labels_shuffled missing_parameters "
            "dropout_in_eval unshuffled slow_loader",
        ),
    ),
    Kind(
        "tomography",
        "blind9",
        Tomography,
        (
            OptimizerChoice("rmsprop", 5e-3, decay="cosine"),
            OptimizerChoice("nesterov", 0.2, {"weight_decay": 1e-5}, decay="sqrt"),
        ),
        steps=800,
        batch_size=16,
        warmup=40,
        num_evals=10,
        log_every=2,
        pace_ms=0.0,
        seeds=3,
        fault_seeds=1,
        config={"angles": ANGLES, "rays": BEAMS},
        faults=(
            "rate_x30 stale_batchnorm eval_on_train no_warmup nan_input missing_step wrong_sign "
            "missing_zero_grad",
            "rate_x10 stale_batchnorm one_batch labels_shuffled frozen fp16_overflow "
            "missing_parameters schedule_unit",
        ),
    ),
)
