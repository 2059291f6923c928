"""Trading: what a customer buys next, and between which bounds a fare will be."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.clinic.kinds.business import Binary
from benchmarks.clinic.kinds.tables import parted, pinball
from benchmarks.clinic.task import Kind, OptimizerChoice, Split, Task

PRODUCTS, PAST, LONGEST, TASTES = 40, 5, 8, 6


def listed(bought: Tensor) -> Tensor:
    """Numbers of the products of a basket from 1 on, at most eight of them; 0 is an empty place."""
    drawn, which = (bought * (1 + torch.rand(bought.shape))).topk(LONGEST, dim=-1)
    return torch.where(drawn > 0, which + 1, 0)


def purchases(count: int) -> Split:
    """The products of a customer's last five baskets, and all of the next one.

    Customers have tastes. Some products are bought every time, others last for some weeks, and some
    call for another one a week later.
    """
    taste = torch.randn(count, TASTES)
    liked = 0.7 * taste @ torch.randn(TASTES, PRODUCTS)
    common, again = torch.randn(PRODUCTS) - 3, 1.5 * torch.randn(PRODUCTS)
    calls = 2.5 * torch.eye(PRODUCTS)[torch.randperm(PRODUCTS)] + again.diag()
    stock, weeks = (torch.rand(count, PRODUCTS) < 0.15).float(), []
    for _ in range(PAST + 1):
        wish = common + liked + stock @ calls
        bought = (torch.rand(count, PRODUCTS) < wish.sigmoid()).float()
        stock = (0.4 * stock + bought).clamp(max=1)
        weeks.append(bought)
    return Split(torch.stack([listed(week) for week in weeks[:-1]], 1), weeks[-1])


class Shopper(nn.Module):
    """The mean of the vectors of each basket's products, and two layers over all baskets."""

    def __init__(self, size: int = 24, width: int = 96, dropout: float = 0.1) -> None:
        super().__init__()
        self.products = nn.Embedding(PRODUCTS + 1, size, padding_idx=0)
        self.body = nn.Sequential(
            *(nn.Linear(PAST * size, width), nn.ReLU(), nn.Dropout(dropout)),
            *(nn.Linear(width, width), nn.ReLU(), nn.Dropout(dropout)),
        )
        self.head = nn.Linear(width, PRODUCTS)

    def forward(self, baskets: Tensor) -> Tensor:
        many = (baskets > 0).sum(2, keepdim=True).clamp(min=1)
        means = self.products(baskets).sum(2) / many
        out: Tensor = self.head(self.body(means.flatten(1)))
        return out


class Baskets(Binary):
    """Which of forty products the next basket has, by a binary cross entropy of each."""

    def __init__(self) -> None:
        self.train, self.held_out = parted(purchases(31_000), 1000)
        self.model = Shopper()

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        said, true = outputs > 0, targets > 0.5
        f1 = 2 * float((said & true).sum()) / max(1.0, float(said.sum() + true.sum()))
        best = targets.gather(1, outputs.topk(5, dim=1).indices)
        return {"micro_f1": f1, "precision_at_5": float(best.mean())}

    def leak(self, split: Split) -> None:
        baskets = split.inputs.clone()
        baskets[:, -1] = listed(split.targets)
        split.inputs = baskets


ROUTES, DAYS, LEVELS = 120, 120, (0.1, 0.5, 0.9)


def tickets(count: int) -> Split:
    """Route, days ahead and weekday of a flight, and its fare in hundreds of dollars.

    Fares rise towards the day of the flight, by steps and by how many travel on business, who pay
    on other weekdays than those on holiday. Late fares vary more, and some seats are sold off.
    """
    route, weekday = torch.randint(ROUTES, (count,)), torch.randint(7, (count,))
    days = (DAYS * torch.rand(count).square()).floor()
    usual = (0.5 + 0.45 * torch.randn(ROUTES)).exp()[route]
    business, soon = torch.rand(ROUTES)[route], (4 + 20 * torch.rand(ROUTES))[route]
    on_work = torch.tensor([0.25, 0.05, 0.0, 0.15, 0.2, -0.25, 0.0])[weekday]
    on_holiday = torch.tensor([-0.05, -0.2, -0.2, -0.1, 0.2, 0.25, 0.2])[weekday]
    own = (0.12 * torch.randn(ROUTES, 7))[route, weekday]
    late = (-days / soon).exp()
    steps = 0.12 * ((days < 21).float() + (days < 14).float() + (days < 7).float())
    level = business * on_work + (1 - business) * on_holiday + own
    level = level + (0.3 + 0.9 * business) * late + steps * (0.5 + business)
    spread = 0.08 + 0.22 * late + 0.1 * (1 - business)
    sold_off = 0.5 * ((days < 10) & (torch.rand(count) < 0.15 * (1 - business)))
    fare = usual * (level - sold_off + spread * torch.randn(count)).exp()
    return Split(torch.stack([route.float(), days, weekday.float()], 1), fare)


class Block(nn.Module):
    """Two layers beside a way around them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(
            *(nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, width, bias=False)),
            *(nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, width)),
        )

    def forward(self, hidden: Tensor) -> Tensor:
        out: Tensor = hidden + self.inner(hidden)
        return out


class Pricer(nn.Module):
    """Vectors of route and weekday beside the days, residual blocks, and quantiles in order."""

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.routes, self.weekdays = nn.Embedding(ROUTES, 12), nn.Embedding(7, 4)
        self.enter = nn.Linear(12 + 4 + 3, width)
        self.blocks = nn.Sequential(Block(width), Block(width), nn.BatchNorm1d(width), nn.ReLU())
        self.head = nn.Linear(width, len(LEVELS))

    def forward(self, rows: Tensor) -> Tensor:
        route, days, weekday = rows.unbind(1)
        route, weekday = route.nan_to_num().long(), weekday.nan_to_num().long()
        ahead = [days / DAYS, (days + 1).log() / math.log(DAYS), (-days / 7).exp()]
        facts = [self.routes(route), self.weekdays(weekday), torch.stack(ahead, 1)]
        hidden = self.blocks(self.enter(torch.cat(facts, 1)))
        middle, below, above = self.head(hidden).unbind(1)
        low, high = middle - functional.softplus(below), middle + functional.softplus(above)
        return torch.stack([low, middle, high], 1)


class Fares(Task):
    """Three quantiles of a fare, by their pinball loss."""

    def __init__(self) -> None:
        self.train, self.held_out = parted(tickets(61_500), 1500)
        self.model = Pricer()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return pinball(outputs, targets, LEVELS).mean()

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        low, middle, high = outputs.unbind(1)
        within = (targets > low) & (targets < high)
        wrong = 100 * (middle - targets).abs().mean()
        return {"mae_dollars": float(wrong), "coverage80": float(within.float().mean())}


KINDS = (
    Kind(
        "baskets",
        "blind10",
        Baskets,
        (
            OptimizerChoice("nadam", 6e-3, decay="linear"),
            OptimizerChoice("momentum", 2.0, {"weight_decay": 1e-6}, decay="cosine"),
        ),
        steps=900,
        batch_size=64,
        num_evals=15,
        typed=False,
        log_every=2,
        pace_ms=0.0,
        seeds=3,
        fault_seeds=1,
        config={"products": PRODUCTS, "past_baskets": PAST, "dropout": 0.1, "loss": "bce"},
        faults=(
            "rate_x30 overfitting label_leak dropout_in_eval eval_on_train missing_step "
            "double_softmax one_batch",
            "rate_too_small dead_relu wrong_reduction tiny_init frozen labels_shuffled clip_tight "
            "schedule_unit",
        ),
    ),
    Kind(
        "fares",
        "blind10",
        Fares,
        (
            OptimizerChoice("lion", 1.5e-3, {"weight_decay": 0.01}, decay="cosine"),
            OptimizerChoice("nesterov", 0.15, {"weight_decay": 1e-5}, decay="steps"),
        ),
        steps=960,
        batch_size=48,
        warmup=60,
        clip=5.0,
        num_evals=24,
        pace_ms=0.0,
        seeds=3,
        fault_seeds=1,
        config={"quantiles": LEVELS, "unit": "100 dollars"},
        faults=(
            "rate_x10 no_warmup stale_batchnorm nan_input wrong_sign exploding_init rate_zero "
            "slow_loader",
            "rate_x30 stale_batchnorm accumulation fp16_overflow missing_zero_grad "
            "missing_parameters unshuffled overfitting",
        ),
    ),
)
