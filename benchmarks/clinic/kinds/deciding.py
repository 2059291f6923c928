"""Decisions: what to order, what to show first, where a thing belongs."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.clinic.kinds.play import Play
from benchmarks.clinic.kinds.tables import parted
from benchmarks.clinic.task import Batch, Classification, Kind, OptimizerChoice, Split, Task

SHOPS, ORDERS, SHELF, DAYS, PATIENCE, STATE = 24, 5, 12, 28, 0.9, 4


class Shops:
    """Many shops: each day some is ordered, what was ordered before comes, and some is sold."""

    def __init__(self, count: int, device: torch.device) -> None:
        self.stock = torch.randint(SHELF, (count,), device=device).float()
        self.coming = torch.zeros(count, device=device)
        self.day = torch.randint(7, (count,), device=device)

    def state(self) -> Tensor:
        angle = self.day * 6.283 / 7
        return torch.stack([self.stock / SHELF, self.coming / ORDERS, angle.sin(), angle.cos()], 1)

    def trade(self, orders: Tensor) -> Tensor:
        """One day; returns what each shop earned."""
        wanted = torch.poisson(2 + 1.5 * (self.day * 6.283 / 7).sin())
        there = (self.stock + self.coming).clamp(max=SHELF)
        sold = torch.minimum(there, wanted)
        self.stock, self.coming = there - sold, orders.float()
        self.day = (self.day + 1) % 7
        return 0.5 * sold - 0.1 * self.stock - 0.3 * (wanted - sold) - 0.1 * orders


class Dueling(nn.Module):
    """What a state is worth, and what each order adds to that."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *(nn.Linear(STATE, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        )
        self.worth, self.gain = nn.Linear(width, 1), nn.Linear(width, ORDERS)

    def forward(self, states: Tensor) -> Tensor:
        hidden = self.body(states)
        gain = self.gain(hidden)
        out: Tensor = self.worth(hidden) + gain - gain.mean(1, keepdim=True)
        return out


class Ordering(Play):
    """Worth of orders; one network picks the next order and its slow copy tells its worth."""

    def __init__(self) -> None:
        super().__init__(1)
        self.model = Dueling()
        self._slow = copy.deepcopy(self.model).requires_grad_(False)
        self._shops, self._memory = Shops(SHOPS, self.device), torch.zeros(0, 2 * STATE + 2)
        self._recent, self._chance = 0.0, 1.0

    def to(self, device: torch.device) -> None:
        super().to(device)
        self._shops = Shops(SHOPS, device)

    def best_action(self, state: Tensor) -> Tensor:
        best: Tensor = self.model(state).argmax(1)
        return best

    def before_step(self, step: int, rate: float) -> None:
        self._chance = max(0.1, 1 - step / 300)
        with torch.no_grad():
            for slow, now in zip(self._slow.parameters(), self.model.parameters(), strict=True):
                slow.lerp_(now, 0.03)

    def _play(self, chance: float) -> None:
        state = self._shops.state()
        with torch.no_grad():
            best = self.best_action(state)
        drawn = torch.randint(ORDERS, (SHOPS,), device=self.device)
        by_chance = torch.rand(SHOPS, device=self.device) < chance
        orders = torch.where(by_chance, drawn, best)
        earned = self._shops.trade(orders)
        told = [state, orders[:, None].float(), self.reward_scale * earned[:, None]]
        rows = torch.cat([*told, self._shops.state()], 1)
        self._memory = torch.cat([self._memory, rows])[-400 * SHOPS :]
        self._recent = 0.98 * self._recent + 0.02 * float(earned.mean())
        self.returned = DAYS * self._recent

    def experience(self, count: int) -> Batch:
        while len(self._memory) < 20 * SHOPS:
            self._play(1.0)
        self._play(self._chance)
        rows = self._memory[torch.randint(len(self._memory), (count,), device=self.device)]
        return rows[:, :STATE], rows[:, STATE:]

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        order, earned, later = targets[:, :1].long(), targets[:, 1], targets[:, 2:]
        with torch.no_grad():
            best = self.best_action(later)[:, None]
            aim = earned + PATIENCE * self._slow(later).gather(1, best)[:, 0]
        return functional.smooth_l1_loss(outputs.gather(1, order)[:, 0], aim)

    def evaluate(self, split: Split) -> dict[str, float]:
        with torch.no_grad():
            shops = Shops(512, self.device)
            total = torch.zeros(512, device=self.device)
            for _ in range(DAYS):
                total += shops.trade(self.best_action(shops.state()))
        return {"return": float(total.mean())}


PAGES, TRAITS = 10, 16


def searches(count: int) -> Split:
    """Ten pages of each search, with traits of page and search, and how well each fits, 0 to 4."""
    traits = torch.randn(count, PAGES, TRAITS)
    traits[..., TRAITS // 2 :] += torch.randn(count, 1, TRAITS // 2)
    teacher = nn.Sequential(nn.Linear(TRAITS, 24), nn.Tanh(), nn.Linear(24, 1))
    with torch.no_grad():
        fit = teacher(2.5 * traits)[..., 0]
    fit = (fit - fit.mean(1, keepdim=True)) / fit.std() + 0.3 * torch.randn(count, PAGES)
    cuts = torch.tensor([-0.5, 0.2, 0.8, 1.4])
    return Split(traits, (fit.unsqueeze(2) > cuts).sum(2).float())


class Ranker(nn.Module):
    """The same layers for every page; one score."""

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *(nn.Linear(TRAITS, width), nn.ReLU(), nn.Dropout(0.1)),
            *(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()),
        )
        self.head = nn.Linear(width, 1)

    def forward(self, traits: Tensor) -> Tensor:
        out: Tensor = self.head(self.body(traits))[..., 0]
        return out


class Searches(Task):
    """Chances of the first page by score, against those by how well each fits (ListNet)."""

    def __init__(self) -> None:
        self.train, self.held_out = parted(searches(12_500), 500)
        self.model = Ranker()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.cross_entropy(outputs, targets.softmax(1))

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        weight = 1 / torch.arange(2.0, PAGES + 2, device=targets.device).log2()
        gains = 2**targets - 1
        found = (gains.gather(1, outputs.argsort(1, descending=True)) * weight).sum(1)
        best = (gains.sort(1, descending=True).values * weight).sum(1)
        return {"ndcg": float((found / best.clamp(min=1e-6)).mean())}


GROUPS, LEAVES, FACTS = 4, 20, 24


def wares(count: int) -> Split:
    """Wares of twenty sorts in four groups; some sorts are ten times as frequent as others."""
    middle = 1.1 * torch.randn(GROUPS, 1, FACTS) + 0.8 * torch.randn(
        GROUPS, LEAVES // GROUPS, FACTS
    )
    share = torch.logspace(0, -1, LEAVES)[torch.randperm(LEAVES)]
    sort = torch.multinomial(share, count, replacement=True)
    return Split(middle.flatten(0, 1)[sort] + 1.1 * torch.randn(count, FACTS), sort)


class Wares(Classification):
    """The sort of a ware, rare ones with more weight, and its group by the sum of its sorts."""

    num_classes = LEAVES

    def __init__(self, width: int = 64) -> None:
        self.train, self.held_out = parted(wares(17_000), 1000)
        counts = torch.bincount(self.train.targets, minlength=LEAVES).float()
        self._weight = (counts.mean() / counts).sqrt()
        self.model = nn.Sequential(
            *(nn.Linear(FACTS, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(0.2)),
            *(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, LEAVES)),
        )

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        each = LEAVES // GROUPS
        groups = outputs.log_softmax(1).unflatten(1, (GROUPS, each)).logsumexp(2)
        coarse = functional.nll_loss(groups, targets // each)
        return functional.cross_entropy(outputs, targets, weight=self._weight) + 0.5 * coarse

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        right = (outputs.argmax(1) == targets).float()
        each = [right[targets == sort].mean() for sort in set(targets.tolist())]
        return {"accuracy": float(right.mean()), "recall": float(torch.stack(each).mean())}


KINDS = (
    Kind(
        "shops",
        "blind7",
        Ordering,
        (OptimizerChoice("adam", 2e-3), OptimizerChoice("rmsprop", 1e-3, decay="linear")),
        steps=900,
        batch_size=64,
        clip=10.0,
        num_evals=18,
        pace_ms=0.0,
        seeds=3,
        fault_seeds=1,
        faults=(
            "exploding_returns rate_x30 frozen missing_step wrong_sign rate_zero tiny_init "
            "missing_zero_grad",
            "exploding_returns rate_x10 dead_relu exploding_init missing_parameters nan_input "
            "schedule_unit rate_too_small",
        ),
    ),
    Kind(
        "searches",
        "blind7",
        Searches,
        (OptimizerChoice("sgd", 1.0, decay="linear"), OptimizerChoice("adam", 5e-3, decay="steps")),
        steps=800,
        batch_size=32,
        num_evals=16,
        typed=False,
        log_every=2,
        pace_ms=0.0,
        seeds=3,
        fault_seeds=1,
        faults=(
            "rate_x30 wrong_reduction fp16_overflow clip_tight double_softmax labels_shuffled "
            "tiny_init rate_too_small",
            "rate_x30 dead_relu dropout_in_eval overfitting labels_shuffled rate_zero "
            "schedule_unit eval_on_train",
        ),
    ),
    Kind(
        "wares",
        "blind7",
        Wares,
        (
            OptimizerChoice("momentum", 0.05, {"weight_decay": 1e-4}, decay="cosine"),
            OptimizerChoice("radam", 5e-3),
        ),
        steps=800,
        batch_size=48,
        num_evals=40,
        pace_ms=0.0,
        seeds=3,
        fault_seeds=1,
        config={"num_classes": LEAVES},
        faults=(
            "rate_x30 unshuffled double_softmax wrong_reduction accumulation fp16_overflow "
            "label_leak stale_batchnorm",
            "rate_x30 label_leak unshuffled labels_shuffled overfitting dropout_in_eval frozen "
            "nan_input",
        ),
    ),
)
