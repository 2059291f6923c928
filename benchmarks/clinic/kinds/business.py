"""Business: loads of a grid with their doubt, what a shop's fields say together, many customers."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.clinic.kinds.experts import Experts, balance_of
from benchmarks.clinic.kinds.tables import parted, pinball
from benchmarks.clinic.task import Kind, OptimizerChoice, Split, Task

HOURS, AHEAD = 24, 6
LEVELS = (0.1, 0.3, 0.5, 0.7, 0.9)


def loads(count: int) -> Split:
    """A day of loads, the hour, the weekday and the weather to come; then six hours of loads.

    What nobody knows is small at night and large in the evening, and more often up than down.
    """
    start, weekend = 24 * torch.rand(count, 1), (torch.rand(count, 1) < 0.3).float()
    hour = start + torch.arange(float(HOURS + AHEAD))
    day = torch.sin(hour * math.pi / 12 - 2) + 0.5 * torch.sin(hour * math.pi / 6 + 1)
    warm = torch.randn(count, 1) + 0.6 * torch.sin(hour * math.pi / 12 - 2.5)
    size = (0.4 * torch.randn(count, 1)).exp()
    base = size * (1 - 0.4 * weekend) * (1.5 + 0.6 * day) + 0.3 * (warm - 0.5).abs()
    doubt = 0.08 + 0.15 * torch.sigmoid(3 * day)
    load = base + doubt * (torch.empty_like(base).exponential_() - 1)
    clock = torch.cat([(start * math.pi / 12).sin(), (start * math.pi / 12).cos(), weekend], 1)
    rows = torch.cat([load[:, :HOURS] - 1.5, clock, warm[:, HOURS:]], 1)
    return Split(rows, load[:, HOURS:])


class Loads(Task):
    """Five quantiles of each of the next six hours, by the pinball loss."""

    def __init__(self, width: int = 64) -> None:
        self.train, self.held_out = parted(loads(16_800), 800)
        self.model = nn.Sequential(
            *(nn.Linear(HOURS + 3 + AHEAD, width), nn.LayerNorm(width), nn.ReLU()),
            *(nn.Linear(width, width), nn.ReLU(), nn.Dropout(0.02)),
            nn.Linear(width, AHEAD * len(LEVELS)),
        )

    def outputs(self, inputs: Tensor) -> Any:
        return self.model(inputs).unflatten(1, (AHEAD, len(LEVELS)))

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return pinball(outputs, targets, LEVELS).mean()

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        true = targets.unsqueeze(2)
        within = (true > outputs[..., :1]) & (true < outputs[..., -1:])
        return {"coverage80": float(within.float().mean())}


FIELDS, CHOICES, FACTORS = 6, 14, 4


def visits(count: int) -> Split:
    """Rows of six fields, some choices rare; each pair of fields adds to the chance of a sale."""
    common = 1 / torch.arange(1.0, CHOICES + 1).sqrt()
    drawn = torch.multinomial(common.expand(FIELDS, -1), 2 * count, replacement=True).T
    rows = torch.unique(drawn, dim=0)  # none comes twice
    rows = rows[torch.randperm(len(rows))[:count]]
    own = 0.4 * torch.randn(FIELDS, CHOICES)
    worth = own[torch.arange(FIELDS), rows].sum(1) - 0.5
    for one in range(FIELDS):
        for two in range(one + 1, FIELDS):
            left, right = torch.randn(2, CHOICES, 2)
            worth = worth + 0.4 * (left[rows[:, one]] * right[rows[:, two]]).sum(1)
    return Split(rows, (torch.rand(count) < (1.5 * worth).sigmoid()).float())


class FieldAware(nn.Module):
    """A vector of each choice for each other field, and the products of all pairs (FFM)."""

    shift: Tensor
    pairs: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.vectors = nn.Embedding(FIELDS * CHOICES, (FIELDS - 1) * FACTORS)
        self.single = nn.Embedding(FIELDS * CHOICES, 1)
        nn.init.normal_(self.vectors.weight, std=0.2)
        nn.init.zeros_(self.single.weight)
        self.register_buffer("shift", CHOICES * torch.arange(FIELDS))
        self.register_buffer("pairs", torch.triu_indices(FIELDS, FIELDS, 1))
        self.bias = nn.Linear(1, 1)

    def forward(self, rows: Tensor) -> Tensor:
        places = rows + self.shift
        vectors = self.vectors(places).unflatten(2, (FIELDS - 1, FACTORS))
        one, two = self.pairs
        joint = (vectors[:, one, two - 1] * vectors[:, two, one]).sum((1, 2))
        out: Tensor = self.bias((self.single(places).sum((1, 2)) + joint).unsqueeze(1))
        return out[:, 0]


class Binary(Task):
    """Yes or no, by the binary cross entropy, with the area under the curve as a figure."""

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.binary_cross_entropy_with_logits(outputs, targets)

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        ranks = outputs.argsort().argsort().float() + 1
        yes = targets > 0.5
        many, few = float(yes.sum()), float((~yes).sum())
        area = (float(ranks[yes].sum()) - many * (many + 1) / 2) / max(1.0, many * few)
        return {"auc": area}


class Fields(Binary):
    """Whether a visit ends with a sale, by field-aware factors."""

    def __init__(self) -> None:
        self.train, self.held_out = parted(visits(61_500), 1500)
        self.model = FieldAware()


CUSTOMERS, FACTS = 4, 12


def offers(count: int) -> Split:
    """An offer and who sees it; each of four sorts of customers has a taste of its own."""
    sort = torch.randint(CUSTOMERS, (count,))
    about = torch.randn(CUSTOMERS, 4)[sort] + 0.3 * torch.randn(count, 4)
    facts = torch.randn(count, FACTS)
    first = torch.randn(CUSTOMERS, FACTS, 8) / 2
    second = torch.randn(CUSTOMERS, 8)
    taste = torch.tanh(torch.einsum("nd,nde->ne", facts, first[sort]))
    worth = 1.2 * (taste * second[sort]).sum(1) - 0.7
    return Split(torch.cat([about, facts], 1), (torch.rand(count) < worth.sigmoid()).float())


class Gated(nn.Module):
    """A layer, two of four experts for each row beside a way around them, and a yes or no."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Linear(4 + FACTS, width), nn.ReLU(), nn.Dropout(0.05))
        self.moe = Experts(width, CUSTOMERS, 2)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 1)

    def forward(self, rows: Tensor) -> Tensor:
        hidden = self.first(rows)
        out: Tensor = self.head(self.norm(hidden + self.moe(hidden)))
        return out[:, 0]


class Offers(Binary):
    """Whether somebody takes an offer, by experts for sorts of customers."""

    balance_share = 0.02

    def __init__(self) -> None:
        self.train, self.held_out = parted(offers(41_000), 1000)
        self.model = Gated()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        loss = super().loss(outputs, targets)
        if torch.is_grad_enabled():
            loss = loss + self.balance_share * balance_of(self.model)
        return loss

    def leak(self, split: Split) -> None:
        rows = split.inputs.clone()
        rows[:, 4] = 3 * (2 * split.targets - 1)
        split.inputs = rows


KINDS = (
    Kind(
        "loads",
        "blind6",
        Loads,
        (
            OptimizerChoice("nadam", 6e-3, decay="cosine"),
            OptimizerChoice("momentum", 0.9, decay="linear"),
        ),
        steps=900,
        batch_size=64,
        num_evals=18,
        log_every=2,
        pace_ms=0.0,
        seeds=3,
        fault_seeds=1,
        config={"quantiles": list(LEVELS)},
        faults=(
            "rate_x30 dead_relu overfitting labels_shuffled eval_on_train missing_parameters "
            "nan_input schedule_unit",
            "rate_x30 clip_tight accumulation wrong_reduction missing_zero_grad exploding_init "
            "tiny_init rate_zero",
        ),
    ),
    Kind(
        "fields",
        "blind6",
        Fields,
        (OptimizerChoice("adagrad", 0.15), OptimizerChoice("adam", 0.02, decay="linear")),
        steps=800,
        batch_size=128,
        num_evals=10,
        typed=False,
        pace_ms=0.0,
        seeds=3,
        fault_seeds=1,
        faults=(
            "rate_x10 labels_shuffled unshuffled tiny_init wrong_sign missing_zero_grad "
            "rate_too_small one_batch",
            "rate_x30 overfitting eval_on_train missing_parameters exploding_init missing_step "
            "schedule_unit slow_loader",
        ),
    ),
    Kind(
        "offers",
        "blind6",
        Offers,
        (
            OptimizerChoice("adamw", 0.012, {"weight_decay": 0.01, "fused": True}, decay="cosine"),
            OptimizerChoice("nesterov", 0.25, decay="linear"),
        ),
        steps=800,
        batch_size=64,
        num_evals=16,
        pace_ms=0.0,
        seeds=3,
        fault_seeds=1,
        config={"num_experts": CUSTOMERS, "top_k": 2},
        faults=(
            "router_collapse rate_x30 labels_shuffled label_leak overfitting frozen nan_input "
            "rate_zero",
            "router_collapse rate_x30 unshuffled wrong_reduction fp16_overflow dropout_in_eval "
            "missing_step wrong_sign",
        ),
    ),
)
