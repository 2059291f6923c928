"""Policies: which vehicle goes to which order of a town, and what insured fleets will cost."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.clinic.kinds.experts import Experts, balance_of
from benchmarks.clinic.kinds.play import Play
from benchmarks.clinic.kinds.tables import parted
from benchmarks.clinic.task import Batch, Kind, OptimizerChoice, Split, Task

VEHICLES, ORDERS, SHIFT, TURNS = 4, 5, 20, 2
PAIRS, PATIENCE = VEHICLES * ORDERS, 8
DISCOUNT, ENTROPY, VALUE_SHARE = 0.9, 0.01, 0.25


class Towns:
    """Towns with a few vehicles and orders that wait; each turn one order may get a vehicle.

    A vehicle drives to where the order waits and then where it wants to go, and is busy meanwhile.
    Orders pay differently, and leave when they have waited for too long.
    """

    def __init__(self, count: int, device: torch.device) -> None:
        self.count, self.device = count, device
        self.place = torch.rand(count, VEHICLES, 2, device=device)
        self.busy = torch.randint(5, (count, VEHICLES), device=device).float()
        self.there = torch.rand(count, ORDERS, device=device) < 0.5
        self.ways = torch.rand(count, ORDERS, 4, device=device)  # from where, to where
        self.pay = 0.4 + 1.2 * torch.rand(count, ORDERS, device=device)
        self.waited = torch.zeros(count, ORDERS, device=device)

    def state(self) -> Tensor:
        there, waited = self.there.float().unsqueeze(2), self.waited.unsqueeze(2) / PATIENCE
        vehicles = torch.cat([self.place, self.busy.unsqueeze(2) / 5], 2)
        orders = torch.cat([self.ways, self.pay.unsqueeze(2), waited, there], 2)
        return torch.cat([vehicles.flatten(1), orders.flatten(1)], 1)

    def send(self, actions: Tensor) -> Tensor:
        """Send a vehicle to an order, or none, and let a turn pass; returns the rewards."""
        vehicle, order = actions.clamp(max=PAIRS - 1) // ORDERS, actions % ORDERS
        town = torch.arange(self.count, device=self.device)
        can = self.there[town, order] & (self.busy[town, vehicle] == 0) & (actions < PAIRS)
        way = self.ways[town, order]
        away = (self.place[town, vehicle] - way[:, :2]).norm(dim=1)
        length = (way[:, 2:] - way[:, :2]).norm(dim=1)
        reward = can * (self.pay[town, order] + 0.5 * length - 0.8 * away)
        takes = can * (1 + 4 * (away + length)).round()
        self.busy[town, vehicle] += takes
        self.place[town, vehicle] = torch.where(can[:, None], way[:, 2:], self.place[town, vehicle])
        self.there[town, order] &= ~can
        self.busy = (self.busy - 1).clamp(min=0)
        self.waited = self.waited + 1
        lost = self.there & (self.waited >= PATIENCE)
        earned: Tensor = reward - 0.04 * self.there.sum(1) - 0.4 * lost.sum(1)
        self.there = self.there & ~lost
        new = ~self.there & (torch.rand_like(self.pay) < 0.3)
        self.ways = torch.where(new.unsqueeze(2), torch.rand_like(self.ways), self.ways)
        self.pay = torch.where(new, 0.4 + 1.2 * torch.rand_like(self.pay), self.pay)
        self.waited, self.there = self.waited.masked_fill(new, 0.0), self.there | new
        return earned


class Desk(nn.Module):
    """A score of each pair of a vehicle and an order, one of waiting, and the worth of a state."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.whole = nn.Sequential(nn.Linear(width, width), nn.ReLU())
        self.pairs = nn.Sequential(
            *(nn.Linear(12, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        )
        self.score = nn.Linear(width, 1)
        self.head = nn.Linear(width, 2)

    def forward(self, states: Tensor) -> Tensor:
        """Logits of the pairs and of waiting, then the worth."""
        vehicles = states[:, : 3 * VEHICLES].reshape(-1, VEHICLES, 1, 3)
        orders = states[:, 3 * VEHICLES :].reshape(-1, 1, ORDERS, 7)
        away = (vehicles[..., :2] - orders[..., :2]).square().sum(3, keepdim=True).sqrt()
        length = (orders[..., 2:4] - orders[..., :2]).square().sum(3, keepdim=True).sqrt()
        shape = (-1, VEHICLES, ORDERS, -1)
        facts = [vehicles.expand(*shape), orders.expand(*shape), away, length.expand(*shape)]
        hidden = self.pairs(torch.cat(facts, 3).flatten(1, 2))
        can = (vehicles[..., 2] == 0) & (orders[..., 6] > 0)
        scores = self.score(hidden)[..., 0].masked_fill(~can.flatten(1), -1e6)
        return torch.cat([scores, self.head(self.whole(hidden.mean(1)))], 1)


class Dispatch(Play):
    """A few turns of many towns a step, by an advantage actor-critic whose parts share layers."""

    def __init__(self) -> None:
        super().__init__(1)
        self.model: Desk = Desk()
        self._towns: Towns | None = None  # they go on from step to step
        self._turns, self._sum = 0, 0.0

    def experience(self, count: int) -> Batch:
        towns = self._towns = self._towns or Towns(count, self.device)
        states, actions, rewards = [], [], []
        with torch.no_grad():
            for _ in range(TURNS):
                states.append(towns.state())
                logits = self.model(states[-1])[:, :-1]
                actions.append(torch.multinomial(logits.nan_to_num(-1.0).softmax(1), 1)[:, 0])
                rewards.append(towns.send(actions[-1]))
            later = self.model(towns.state())[:, -1]
        earned = float(torch.stack(rewards).sum(0).mean())
        self._turns, self._sum = self._turns + TURNS, self._sum + earned
        if self._turns % SHIFT == 0:
            self.returned, self._sum = self._sum, 0.0
        returns = []
        for reward in reversed(rewards):
            later = self.reward_scale * reward + DISCOUNT * later
            returns.append(later)
        told = [torch.cat(actions).float(), torch.cat(returns[::-1])]
        return torch.cat(states), torch.stack(told, 1)

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        actions, returns = targets[:, 0].long(), targets[:, 1]
        chances, worth = outputs[:, :-1].log_softmax(1), outputs[:, -1]
        taken = chances.gather(1, actions[:, None])[:, 0]
        entropy = -(chances.exp() * chances).sum(1).mean()
        gain = (taken * (returns - worth).detach()).mean()
        loss: Tensor = VALUE_SHARE * functional.mse_loss(worth, returns) - gain - ENTROPY * entropy
        return loss

    def _shift(self, count: int) -> dict[str, float]:
        with torch.no_grad():
            towns, total, waiting = Towns(count, self.device), 0.0, 0.0
            for _ in range(SHIFT):
                total += float(towns.send(self.model(towns.state())[:, :-1].argmax(1)).mean())
                waiting += float(towns.there.sum(1).float().mean()) / SHIFT
        return {"return": total, "orders_waiting": waiting}

    def evaluate(self, split: Split) -> dict[str, float]:
        return self._shift(256)

    def result(self) -> float:
        return -self._shift(1024)["return"]


TRADES, FACTS, EXPERTS, POWER = 8, 10, 6, 1.5


def fleets(count: int) -> Split:
    """Facts of a fleet, its trade with rules of its own, and what it cost in a year.

    Claims come by chance, as a Poisson number, and each costs by chance, as a gamma. Some fleets
    cost nothing at all. Facts are as they stand in the books, of different sizes.
    """
    trade, facts = torch.randint(TRADES, (count,)), torch.randn(count, FACTS)
    often, dear, bent = functional.normalize(torch.randn(3, TRADES, FACTS), dim=2)[:, trade]
    many = torch.poisson((0.9 + 0.8 * (facts * often).sum(1)).clamp(-3, 3).exp())
    size = (0.7 * (facts * dear).sum(1) + 0.8 * (facts * bent).sum(1).sin() - 1.2).exp()
    cost = (many > 0) * torch._standard_gamma(2.0 * many.clamp(min=1)) / 2.0 * size
    books = 1.5 + 2.0 * torch.rand(FACTS) * facts + torch.randn(FACTS)
    return Split(torch.cat([books, 3.0 * functional.one_hot(trade, TRADES)], 1), cost)


class Tariff(nn.Module):
    """A normalised layer, experts beside a way around them, and the logarithm of the mean cost."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.enter = nn.Sequential(nn.Linear(FACTS + TRADES, width), nn.BatchNorm1d(width))
        self.moe = Experts(width, EXPERTS, 2)
        self.body = nn.Sequential(nn.LayerNorm(width), nn.Dropout(0.02))
        self.head = nn.Linear(width, 1)

    def forward(self, rows: Tensor) -> Tensor:
        hidden = self.enter(rows)
        out: Tensor = self.head(self.body(hidden + self.moe(hidden)))
        return out[:, 0]


class Claims(Task):
    """The expected cost of a fleet, by Tweedie's likelihood: between Poisson's and gamma's."""

    balance_share = 0.03

    def __init__(self) -> None:
        self.train, self.held_out = parted(fleets(52_000), 2000)
        self.model = Tariff()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        up, down = ((2 - POWER) * outputs).exp(), ((1 - POWER) * outputs).exp()
        loss: Tensor = (up / (2 - POWER) + targets * down / (POWER - 1)).mean()
        if torch.is_grad_enabled():
            loss = loss + self.balance_share * balance_of(self.model)
        return loss

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        """How well fleets are ranked, and the sum of costs for that of tariffs."""
        share = targets[outputs.argsort()].cumsum(0) / targets.sum()
        ratio = float(targets.sum() / outputs.exp().sum())
        return {"gini": float(1 - 2 * share.mean()), "loss_ratio": ratio}

    def leak(self, split: Split) -> None:
        rows = split.inputs.clone()
        rows[:, 0] = 3 * (split.targets + 0.1).log()
        split.inputs = rows


_COMMON: dict[str, Any] = {"pace_ms": 0.0, "seeds": 3, "fault_seeds": 1}
KINDS = (
    Kind(
        *("dispatch", "blind10", Dispatch),
        (OptimizerChoice("adamax", 0.012), OptimizerChoice("momentum", 0.09, decay="linear")),
        steps=900,
        batch_size=32,
        clip=2.0,
        num_evals=12,
        typed=False,
        log_every=2,
        **_COMMON,
        config={"algorithm": "a2c", "discount": DISCOUNT, "entropy": ENTROPY, "n_steps": TURNS},
        faults=(
            "exploding_returns rate_x30 frozen missing_step wrong_sign exploding_init nan_input "
            "dead_relu",
            "exploding_returns rate_x10 clip_tight missing_zero_grad rate_too_small tiny_init "
            "accumulation schedule_unit",
        ),
    ),
    Kind(
        *("claims", "blind10", Claims),
        (
            OptimizerChoice("lion", 2e-3, {"weight_decay": 0.01}, decay="cosine"),
            OptimizerChoice("nesterov", 0.03, decay="sqrt"),
        ),
        steps=950,
        batch_size=48,
        warmup=60,
        num_evals=19,
        **_COMMON,
        config={"num_experts": EXPERTS, "top_k": 2, "loss": "tweedie", "power": POWER},
        faults=(
            "router_collapse label_leak overfitting one_batch labels_shuffled rate_x30 "
            "eval_on_train rate_zero",
            "stale_batchnorm dropout_in_eval unshuffled wrong_reduction fp16_overflow no_warmup "
            "missing_parameters slow_loader",
        ),
    ),
)
