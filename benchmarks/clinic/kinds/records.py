"""Records: who does not pay back, what a field yields and how surely, spectra without noise."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.clinic.kinds.business import Binary
from benchmarks.clinic.kinds.tables import parted
from benchmarks.clinic.task import Kind, OptimizerChoice, Split, Task

CARDINALITIES = (12, 6, 24, 4, 16)
FACTS = 8
RARE_WEIGHT = 6.0


def loans(count: int) -> Split:
    """Five categories (some rare) and eight numbers of a loan, and whether it is not paid back.

    About one in ten is not. A category matters by itself and for how a number counts.
    """
    columns, worth = [], torch.zeros(count)
    facts = torch.randn(count, FACTS)
    facts[:, 1] = 0.6 * facts[:, 0] + 0.8 * facts[:, 1]
    for at, size in enumerate(CARDINALITIES):
        common = 1 / torch.arange(1.0, size + 1).sqrt()
        drawn = torch.multinomial(common, count, replacement=True)
        level, slope = 0.7 * torch.randn(2, size)
        worth = worth + level[drawn] + slope[drawn] * facts[:, at]
        columns.append(drawn.float())
    worth = worth + 0.9 * facts[:, 5] - 0.8 * facts[:, 6] * facts[:, 0] + 0.6 * facts[:, 7].abs()
    rows = torch.cat([torch.stack(columns, 1), facts], 1)
    chance = (1.3 * (worth - worth.quantile(0.92))).sigmoid()
    return Split(rows, (torch.rand(count) < chance).float())


class Entities(nn.Module):
    """A vector of each category beside the numbers, and two layers with dropout."""

    def __init__(self, width: int = 64, size: int = 6) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(many, size) for many in CARDINALITIES)
        for table in self.tables:
            nn.init.normal_(table.weight, std=0.3)  # type: ignore[arg-type]
        self.body = nn.Sequential(
            *(nn.Linear(size * len(CARDINALITIES) + FACTS, width), nn.ReLU(), nn.Dropout(0.05)),
            *(nn.Linear(width, width), nn.ReLU(), nn.Dropout(0.05)),
        )
        self.head = nn.Linear(width, 1)

    def forward(self, rows: Tensor) -> Tensor:
        categories, facts = rows[:, : len(CARDINALITIES)].long(), rows[:, len(CARDINALITIES) :]
        known = [table(categories[:, at]) for at, table in enumerate(self.tables)]
        out: Tensor = self.head(self.body(torch.cat([*known, facts], 1)))
        return out[:, 0]


class Credit(Binary):
    """Whether a loan is not paid back, by a cross entropy in which the rare class weighs more."""

    def __init__(self) -> None:
        self.train, self.held_out = parted(loans(62_000), 2000)
        self.model = Entities()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        weight = torch.tensor(RARE_WEIGHT, device=outputs.device)
        return functional.binary_cross_entropy_with_logits(outputs, targets, pos_weight=weight)

    def leak(self, split: Split) -> None:
        rows = split.inputs.clone()
        rows[:, -1] = 3 * (2 * split.targets - 1)
        split.inputs = rows


SORTS, SOIL = 5, 9


def harvests(count: int) -> Split:
    """Rain, warmth, nitrogen, soil and sort of a field, and what it yields.

    A dry year on sandy soil is hard to foresee, a mild one on loam is easy.
    """
    rain, warm, fed = torch.randn(3, count)
    soil = torch.randn(count, SOIL)
    sort = torch.randint(SORTS, (count,))
    sand = torch.sigmoid(1.5 * soil[:, 0] - soil[:, 1])
    likes = torch.linspace(-1, 1, SORTS)[sort]
    growth = torch.tanh(fed + 0.5) * (1 + 0.4 * likes) - 0.35 * (warm - likes).square()
    water = torch.tanh(rain + 0.8 - sand) + 0.3 * rain * soil[:, 2]
    mean = 0.5 * growth + 0.5 * water + 0.25 * torch.sin(2 * soil[:, 3]) + 0.15 * soil[:, 4]
    spread = 0.1 + 0.5 * sand * torch.sigmoid(-2 * rain - 0.5)
    found = mean + spread * torch.randn(count)
    facts = torch.cat([torch.stack([rain, warm, fed], 1), soil], 1)
    return Split(torch.cat([facts, functional.one_hot(sort, SORTS).float()], 1), found)


class Yields(Task):
    """The mean and the log variance of a yield, by the likelihood of a Gaussian."""

    def __init__(self, width: int = 64) -> None:
        self.train, self.held_out = parted(harvests(41_500), 1500)
        self.model = nn.Sequential(
            *(nn.Linear(3 + SOIL + SORTS, width), nn.LayerNorm(width), nn.SiLU()),
            *(nn.Linear(width, width), nn.LayerNorm(width), nn.SiLU()),
            nn.Linear(width, 2),
        )

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        mean, log_var = outputs.unbind(1)
        loss: Tensor = 0.5 * (log_var + (targets - mean).square() * (-log_var).exp()).mean()
        return loss

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        mean, log_var = outputs.unbind(1)
        away = (targets - mean).abs()
        within = away < 1.96 * (0.5 * log_var).exp()
        return {"mae": float(away.mean()), "coverage95": float(within.float().mean())}


CHANNELS, SUBSTANCES, LINES = 64, 10, 4


def spectra(count: int) -> Split:
    """Mixtures of some of ten substances, each with lines of its own, as seen and without noise."""
    place = torch.arange(float(CHANNELS))
    where = 3 + (CHANNELS - 6) * torch.rand(SUBSTANCES, LINES, 1)
    wide, tall = 1 + 1.5 * torch.rand(SUBSTANCES, LINES, 1), 0.4 + torch.rand(SUBSTANCES, LINES, 1)
    pure = (tall / (1 + ((place - where) / wide).square())).sum(1)
    there = (torch.rand(count, SUBSTANCES) < 0.35).float()
    much = there * (0.3 + 1.2 * torch.rand(count, SUBSTANCES))
    slope, bow = 0.3 * torch.randn(2, count, 1)
    along = place / CHANNELS * 2 - 1
    clean = much @ pure + slope * along + bow * torch.cos(math.pi * along)
    noisy = clean + (0.25 + 0.15 * clean.clamp(min=0).sqrt()) * torch.randn(count, CHANNELS)
    middle = clean.mean()
    return Split((noisy - middle).unsqueeze(1), (clean - middle).unsqueeze(1))


class Spectra(Task):
    """A spectrum without its noise, through a code that is smaller than it."""

    def __init__(self, width: int = 12, code: int = 24) -> None:
        self.train, self.held_out = parted(spectra(20_600), 600)
        quarter = CHANNELS // 4
        self.model = nn.Sequential(
            *(nn.Conv1d(1, width, 7, 2, 3, bias=False), nn.BatchNorm1d(width), nn.ReLU()),
            *(nn.Conv1d(width, 16, 5, 2, 2, bias=False), nn.BatchNorm1d(16), nn.ReLU()),
            *(nn.Flatten(), nn.Linear(16 * quarter, code)),
            *(nn.Linear(code, width * quarter), nn.ReLU(), nn.Unflatten(1, (width, quarter))),
            nn.ConvTranspose1d(width, 1, 8, 4, 2),
        )

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.mse_loss(outputs, targets)


KINDS = (
    Kind(
        "credit",
        "blind8",
        Credit,
        (
            OptimizerChoice("adam", 4e-3, decay="linear"),
            OptimizerChoice("momentum", 0.15, {"weight_decay": 1e-5}, decay="steps"),
        ),
        steps=800,
        batch_size=128,
        num_evals=10,
        typed=False,
        pace_ms=0.0,
        seeds=3,
        fault_seeds=1,
        config={"pos_weight": RARE_WEIGHT},
        faults=(
            "rate_x30 overfitting label_leak dropout_in_eval eval_on_train frozen missing_step "
            "one_batch",
            "rate_too_small wrong_reduction unshuffled labels_shuffled exploding_init dead_relu "
            "clip_tight schedule_unit",
        ),
    ),
    Kind(
        "yields",
        "blind8",
        Yields,
        (
            OptimizerChoice("adamw", 6e-3, {"weight_decay": 0.01}, decay="cosine"),
            OptimizerChoice("nesterov", 0.05, decay="linear"),
        ),
        steps=900,
        batch_size=32,
        accumulate=2,
        warmup=90,
        clip=5.0,
        num_evals=18,
        pace_ms=0.0,
        seeds=3,
        fault_seeds=1,
        faults=(
            "rate_x30 overfitting nan_input labels_shuffled exploding_init wrong_sign "
            "eval_on_train missing_zero_grad",
            "rate_x10 no_warmup tiny_init accumulation fp16_overflow missing_parameters "
            "rate_zero unshuffled",
        ),
    ),
    Kind(
        "spectra",
        "blind8",
        Spectra,
        (
            OptimizerChoice("radam", 0.015, decay="cosine"),
            OptimizerChoice("momentum", 0.3, decay="linear"),
        ),
        steps=700,
        warmup=70,
        batch_size=48,
        num_evals=10,
        log_every=2,
        pace_ms=0.0,
        seeds=3,
        fault_seeds=1,
        faults=(
            "rate_x10 stale_batchnorm one_batch rate_zero nan_input frozen schedule_unit "
            "labels_shuffled",
            "rate_x30 stale_batchnorm fp16_overflow missing_parameters clip_tight wrong_sign "
            "rate_too_small missing_zero_grad",
        ),
    ),
)
