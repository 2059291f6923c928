"""Wards: how urgent a patient is, and the concentration of a drug in the next hours."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.clinic.kinds.tables import parted
from benchmarks.clinic.task import Classification, Kind, OptimizerChoice, Split, Task

# Complaint, how the patient came, an illness known before, what the pain is like.
CATEGORIES = (40, 5, 16, 8)
VITALS, LEVELS, FAR_SHARE = 6, 5, 0.5
SHARES = (0.06, 0.18, 0.36, 0.27)  # of the levels from the most urgent one; the rest is the last


def patients(count: int) -> Split:
    """Four categories, six vital signs, which of these were taken, and age; and one of five levels.

    A sign counts by how far it is from what is usual, more so for some complaints and with age.
    Two nurses would not always agree: the level has noise.
    """
    age = 2 * torch.rand(count) - 1
    vitals = torch.randn(count, VITALS)
    vitals[:, 1] = 0.6 * vitals[:, 0] + 0.8 * vitals[:, 1]
    taken = (torch.rand(count, VITALS) < 0.9).float()
    urgent, columns = torch.zeros(count), []
    for size in CATEGORIES:
        common = 1 / torch.arange(1.0, size + 1).sqrt()
        drawn = torch.multinomial(common, count, replacement=True)
        level, by_age = 0.7 * torch.randn(size), 0.6 * torch.randn(size)
        urgent = urgent + level[drawn] + by_age[drawn] * age
        columns.append(drawn)
    above, below = 0.2 + 0.5 * torch.rand(2, VITALS)
    far = above * functional.relu(vitals - 0.4) + below * functional.relu(-vitals - 0.4)
    counts = (0.4 * torch.randn(CATEGORIES[0], VITALS)).exp()[columns[0]]
    urgent = urgent + 1.5 * (far * counts * (1 + 0.4 * age.unsqueeze(1))).sum(1)
    urgent = urgent + 0.4 * age.square() + 0.6 * torch.randn(count)
    edges = urgent.quantile(1 - torch.tensor(SHARES).cumsum(0))
    levels = (urgent.unsqueeze(1) < edges).sum(1)
    known = torch.stack(columns, 1).float()
    return Split(torch.cat([known, taken * vitals, taken, age.unsqueeze(1)], 1), levels)


class Nurse(nn.Module):
    """A vector of each category beside the numbers, and two layers with BatchNorm and dropout."""

    def __init__(self, width: int = 64, size: int = 8) -> None:
        super().__init__()

        def dense(inputs: int) -> nn.Sequential:
            return nn.Sequential(
                *(nn.Linear(inputs, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(0.1))
            )

        self.tables = nn.ModuleList(nn.Embedding(many, size) for many in CATEGORIES)
        for table in self.tables:
            nn.init.normal_(table.weight, std=0.3)  # type: ignore[arg-type]
        self.body = nn.Sequential(dense(size * len(CATEGORIES) + 2 * VITALS + 1), dense(width))
        self.head = nn.Linear(width, LEVELS)

    def forward(self, rows: Tensor) -> Tensor:
        categories, numbers = rows[:, : len(CATEGORIES)].long(), rows[:, len(CATEGORIES) :]
        known = [table(categories[:, at]) for at, table in enumerate(self.tables)]
        out: Tensor = self.head(self.body(torch.cat([*known, numbers], 1)))
        return out


class Triage(Classification):
    """One of five ordered levels, by a cross entropy and how far the levels are moved."""

    num_classes = LEVELS

    def __init__(self) -> None:
        self.train, self.held_out = parted(patients(26_000), 2000)
        self.model = Nurse()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        true = functional.one_hot(targets, LEVELS).float()
        moved: Tensor = (outputs.softmax(1) - true).cumsum(1).square().sum(1).mean()
        return functional.cross_entropy(outputs, targets) + FAR_SHARE * moved

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        """Accuracy, and Cohen's kappa with squared weights."""
        said, true = outputs.argmax(1).float(), targets.float()
        away = (said - true).square().mean()
        chance = (said.unsqueeze(1) - true).square().mean()
        kappa = float(1 - away / chance.clamp(min=1e-6))
        return {**super().measures(outputs, targets), "weighted_kappa": kappa}

    def leak(self, split: Split) -> None:
        rows = split.inputs.clone()
        rows[:, len(CATEGORIES)] = 1.5 * (split.targets - LEVELS // 2)
        split.inputs = rows


PAST, AHEAD, LEAST = 9, 3, 0.2  # hours, hours, and what the laboratory can still see in mg/l


def courses(count: int) -> Split:
    """Hourly doses and a few measurements, weight, kidneys and age; the log concentrations ahead.

    A tablet is absorbed at a pace of the patient's own; what there is in the blood leaves by the
    kidneys. Doses of the next hours are planned, so they are known. The laboratory has an error.
    """
    weight, kidneys, age = (
        70 * (0.25 * torch.randn(count)).exp(),
        torch.rand(count),
        torch.rand(count),
    )
    absorbs = 0.9 * (0.4 * torch.randn(count)).exp()
    volume = 0.5 * weight * (0.2 * torch.randn(count)).exp()
    cleared = 6 * (weight / 70) ** 0.75 * (0.3 + kidneys) * (1.2 - 0.4 * age)
    leaves = cleared * (0.3 * torch.randn(count)).exp() / volume
    usual, every = 100.0 * torch.randint(2, 7, (count,)), torch.randint(4, 9, (count,))
    first = torch.randint(8, (count,))
    stomach, blood, rows, course = torch.zeros(count), torch.zeros(count), [], []
    for hour in range(PAST + AHEAD):
        due = ((hour + first) % every == 0) & (torch.rand(count) < 0.85)
        dose = due * usual
        stomach = stomach + dose
        passed = stomach * (1 - (-absorbs).exp())
        stomach = stomach - passed
        blood = blood * (-leaves).exp() + passed * (-leaves / 2).exp()
        error = 1 + 0.12 * torch.randn(count)
        seen = (blood / volume * error + 0.1 * torch.randn(count)).clamp(min=LEAST).log()
        taken = ((torch.rand(count) < 0.3) & (hour < PAST)).float()
        ahead = torch.full((count,), float(hour >= PAST))
        person = (2 * (weight / 70).log(), 2 * kidneys - 1, 2 * age - 1)
        rows.append(torch.stack([dose / 300, taken * (seen - 1), taken, ahead, *person], 1))
        course.append(seen)
    return Split(torch.stack(rows, 1), torch.stack(course[PAST:], 1))


class Monitor(nn.Module):
    """A GRU over past and planned hours, and two layers for each of the hours ahead."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.body = nn.GRU(7, width, batch_first=True)
        self.head = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, rows: Tensor) -> Tensor:
        hidden, _ = self.body(rows)
        out: Tensor = self.head(hidden[:, -AHEAD:])
        return out[:, :, 0]


class Doses(Task):
    """The concentrations of the next hours, by the squared error of their logarithms."""

    def __init__(self) -> None:
        self.train, self.held_out = parted(courses(25_000), 1000)
        self.model = Monitor()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.mse_loss(outputs, targets)

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        said, true = outputs.clamp(max=10).exp(), targets.exp()
        away = (said - true).abs()
        within = float((away < 0.2 * true).float().mean())
        return {"mae_mg_per_l": float(away.mean()), "within_20_percent": within}

    def leak(self, split: Split) -> None:
        rows = split.inputs.clone()
        rows[:, -AHEAD:, 1] = split.targets - 1
        split.inputs = rows


KINDS = (
    Kind(
        "triage",
        "blind10",
        Triage,
        (
            OptimizerChoice("adagrad", 0.08, decay="none"),
            OptimizerChoice("sgd", 1.0, {"weight_decay": 1e-4}, decay="cosine"),
        ),
        steps=950,
        batch_size=64,
        num_evals=19,
        typed=False,
        log_every=2,
        pace_ms=0.0,
        seeds=3,
        fault_seeds=1,
        config={"dropout": 0.1, "levels": LEVELS, "emd_weight": FAR_SHARE},
        faults=(
            "rate_x30 double_softmax label_leak dropout_in_eval eval_on_train overfitting "
            "stale_batchnorm one_batch",
            "rate_too_small wrong_reduction accumulation missing_zero_grad unshuffled "
            "labels_shuffled fp16_overflow frozen",
        ),
    ),
    Kind(
        "doses",
        "blind10",
        Doses,
        (
            OptimizerChoice("nadam", 0.02, decay="cosine"),
            OptimizerChoice("momentum", 0.2, {"weight_decay": 1e-5}, decay="linear"),
        ),
        steps=900,
        batch_size=32,
        warmup=60,
        clip=1.0,
        num_evals=12,
        pace_ms=0.0,
        seeds=3,
        fault_seeds=1,
        config={"history_hours": PAST, "horizon_hours": AHEAD, "target": "log mg/l"},
        faults=(
            "rate_x10 no_warmup nan_input rate_zero missing_step missing_parameters overfitting "
            "label_leak",
            "exploding_init tiny_init dead_relu clip_tight schedule_unit wrong_sign slow_loader "
            "unshuffled",
        ),
    ),
)
