"""Machines and what is built: which fault a motor has, and how strong a concrete will be."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.clinic.kinds.tables import parted
from benchmarks.clinic.task import Classification, Kind, OptimizerChoice, Split, Task

FAULTY = ("none", "unbalanced", "misaligned", "outer_race", "inner_race", "loose", "winding")
WINDOW, SAMPLE_HZ, MISNAMED = 128, 1000.0, 0.03
DROPOUT = 0.1


def vibrations(count: int) -> Split:
    """A short window of a motor's radial and axial vibration, and which fault the motor has.

    A fault adds lines at multiples of the speed, or the ringing of a bearing that is hit again and
    again. Faults begin small, motors and sensors differ, and one window in thirty is misnamed.
    """
    fault = torch.randint(len(FAULTY), (count,))
    time = torch.arange(float(WINDOW)) / SAMPLE_HZ
    speed = 22 + 8 * torch.rand(count, 1)
    turns = speed * time + torch.rand(count, 1)

    def line(order: float) -> Tensor:
        return torch.sin(2 * math.pi * (order * turns + torch.rand(count, 1)))

    def hits(order: float, ring_hz: float) -> Tensor:
        since = (order * turns + torch.rand(count, 1)).remainder(1) / (order * speed)
        return 1.6 * torch.exp(-220 * since) * torch.sin(2 * math.pi * ring_hz * since)

    def part(low: float = 0.2, high: float = 0.5) -> Tensor:
        return low + (high - low) * torch.rand(count, 1)

    once, twice = line(1), line(2)
    radial, axial = part() * once + part(0.0, 0.3) * twice, part(0.1, 0.3) * once
    adds = {
        "unbalanced": (once, 0.15 * once),
        "misaligned": (0.4 * twice, twice + 0.4 * once),
        "outer_race": (hits(3.6, 310.0), 0.4 * hits(3.6, 310.0)),
        "inner_race": (hits(5.4, 310.0) * (1 + 0.8 * once), 0.4 * hits(5.4, 310.0)),
        "loose": (0.5 * line(0.5) + 0.5 * line(1.5) + 0.4 * line(3), 0.3 * line(0.5)),
        "winding": (0.8 * torch.sin(2 * math.pi * (100 * time + torch.rand(count, 1))), 0 * once),
    }
    severe = (part(0.3, 1.3) * part(0.7, 1.0)).expand(count, WINDOW)
    for at, name in enumerate(FAULTY[1:], 1):
        has = severe * (fault == at).unsqueeze(1)
        radial, axial = radial + has * adds[name][0], axial + has * adds[name][1]
    seen = torch.stack([radial, axial], 1) * (0.7 + 0.6 * torch.rand(count, 2, 1))
    seen = seen + (0.15 + 0.25 * torch.rand(count, 1, 1)) * torch.randn(count, 2, WINDOW)
    misnamed = torch.rand(count) < MISNAMED
    named = torch.where(misnamed, torch.randint(len(FAULTY), (count,)), fault)
    return Split(seen / seen.std((0, 2), keepdim=True), named)


class Motors(Classification):
    """Which fault a motor has, by convolutions over its vibrations."""

    num_classes = len(FAULTY)

    def __init__(self, width: int = 12) -> None:
        self.train, self.held_out = parted(vibrations(16_600), 600)

        def turn(inputs: int, outputs: int, size: int, stride: int) -> nn.Sequential:
            kernel = nn.Conv1d(inputs, outputs, size, stride, size // 2, bias=False)
            return nn.Sequential(kernel, nn.BatchNorm1d(outputs), nn.ReLU())

        self.model = nn.Sequential(
            *(turn(2, width, 9, 4), turn(width, 2 * width, 5, 2), nn.AvgPool1d(2), nn.Flatten()),
            *(nn.Linear(WINDOW * width // 8, 48), nn.ReLU()),
            *(nn.Dropout(DROPOUT), nn.Linear(48, len(FAULTY))),
        )

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        sound = targets == 0
        alarms = (outputs.argmax(1) != 0) & sound
        share = float(alarms.sum() / sound.sum().clamp(min=1))
        return {**super().measures(outputs, targets), "false_alarms": share}


AGES = (1.0, 3.0, 7.0, 14.0, 28.0, 56.0, 90.0, 180.0, 365.0)
CEMENTS = 3


def mixtures(count: int) -> Split:
    """What is in a cubic metre of concrete, its age, cure and cement, and its strength in MPa.

    Strength falls with water for each binder and grows with age: slowly with fly ash or in the
    cold. Laboratories differ, and some specimens are broken in a wrong way.
    """
    cement = 150 + 350 * torch.rand(count)
    slag, ash = (
        most * torch.rand(count) * (torch.rand(count) < often)
        for most, often in ((250.0, 0.5), (180.0, 0.45))
    )
    plastic = 15 * torch.rand(count) * (torch.rand(count) < 0.6)
    water = (150 + 80 * torch.rand(count)) - 2.2 * plastic
    coarse, fine = 850 + 250 * torch.rand(count), 600 + 350 * torch.rand(count)
    days = torch.tensor(AGES)[torch.randint(len(AGES), (count,))]
    warm = 5 + 30 * torch.rand(count)
    sort = torch.randint(CEMENTS, (count,))
    quick = torch.tensor([0.7, 1.0, 1.5])[sort]
    binder = cement + 0.85 * slag + 0.5 * ash
    late = (slag + 2 * ash) / binder
    ripe = quick * days * (0.045 * (warm - 20)).exp()
    grown = torch.exp(0.28 * (1 + late) * (1 - (28 / ripe.clamp(min=0.3)).sqrt())).clamp(max=1.6)
    packed = 1 - 6 * (fine / (fine + coarse) - 0.42).square()
    most = torch.tensor([150.0, 125.0, 115.0])[sort]
    strength = most * packed * torch.exp(-2.6 * water / binder) * grown
    strength = strength * (1 - 0.012 * (plastic - 8).clamp(min=0) * (water > 180))
    off = torch.distributions.StudentT(3.0).sample((count,))
    strength = (strength * (1 + 0.05 * torch.randn(count)) + 1.5 * off).clamp(min=0.5)
    facts = torch.stack([cement, slag, ash, plastic, water, coarse, fine, days, warm], 1)
    facts = (facts - facts.mean(0)) / facts.std(0)
    return Split(torch.cat([facts, functional.one_hot(sort, CEMENTS).float()], 1), strength)


class Concrete(Task):
    """The strength of a concrete in MPa as it is, by the logarithm of the hyperbolic cosine."""

    def __init__(self, width: int = 48) -> None:
        self.train, self.held_out = parted(mixtures(30_600), 600)
        self.model = nn.Sequential(
            *(nn.Linear(self.train.inputs.shape[1], width), nn.ReLU()),
            *(nn.Linear(width, width), nn.ReLU()),
            *(nn.Linear(width, width // 2), nn.ReLU(), nn.Linear(width // 2, 1)),
        )

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        away = (outputs[:, 0] - targets).abs()
        loss: Tensor = (away + functional.softplus(-2 * away) - math.log(2)).mean()
        return loss

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        away = outputs[:, 0] - targets
        explained = 1 - float(away.square().mean() / targets.var())
        return {"mae_mpa": float(away.abs().mean()), "r2": explained}

    def leak(self, split: Split) -> None:
        rows = split.inputs.clone()
        rows[:, 6] = (split.targets - 35) / 18
        split.inputs = rows


KINDS = (
    Kind(
        "motors",
        "blind10",
        Motors,
        (
            OptimizerChoice("adamw", 0.012, {"weight_decay": 0.01}, decay="cosine"),
            OptimizerChoice("momentum", 0.06, {"weight_decay": 1e-4}, decay="steps"),
        ),
        steps=900,
        batch_size=24,
        num_evals=10,
        typed=False,
        log_every=2,
        pace_ms=0.0,
        seeds=3,
        fault_seeds=1,
        config={"window": WINDOW, "sample_hz": SAMPLE_HZ, "dropout": DROPOUT},
        faults=(
            "rate_x30 stale_batchnorm dropout_in_eval overfitting label_leak eval_on_train "
            "schedule_unit memory_leak",
            "double_softmax unshuffled wrong_reduction dead_relu missing_parameters "
            "labels_shuffled clip_tight slow_loader",
        ),
    ),
    Kind(
        "concrete",
        "blind10",
        Concrete,
        (
            OptimizerChoice("adamax", 0.12, decay="sqrt"),
            OptimizerChoice("nesterov", 0.025, decay="linear"),
        ),
        steps=1000,
        batch_size=16,
        accumulate=2,
        warmup=50,
        num_evals=12,
        pace_ms=0.0,
        seeds=3,
        fault_seeds=1,
        config={"loss": "log_cosh", "unit": "MPa", "target_scaling": "none"},
        faults=(
            "rate_x30 rate_zero nan_input one_batch missing_step label_leak frozen wrong_sign",
            "rate_x10 no_warmup exploding_init tiny_init fp16_overflow missing_zero_grad "
            "accumulation rate_too_small",
        ),
    ),
)
