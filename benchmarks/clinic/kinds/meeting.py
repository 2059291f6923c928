"""Two networks meet: a user's and an item's, an actor's and its critic's."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from benchmarks.clinic.kinds.play import DISCOUNT, Play
from benchmarks.clinic.kinds.tables import parted
from benchmarks.clinic.task import Batch, Kind, OptimizerChoice, Split, Task

ITEMS, PAST, GROUP, HEAT = 400, 8, 64, 0.15


def baskets(count: int) -> Split:
    """The last eight items of a user, and the next; users have two of twenty tastes."""
    tastes = (3 * torch.randn(20, ITEMS)).softmax(1)
    own, share = torch.randint(20, (2, count)), torch.rand(count, 1)
    drawn = [torch.multinomial(tastes[taste], PAST + 1, replacement=True) for taste in own]
    items = torch.where(torch.rand(count, PAST + 1) < share, drawn[0], drawn[1])
    return Split(items[:, :-1], items[:, -1])


class Towers(nn.Module):
    """A user by the items of the past, an item by a vector of its own; both have length one."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.past = nn.EmbeddingBag(ITEMS, width, mode="mean")
        self.user = nn.Sequential(nn.Linear(width, 64), nn.ReLU(), nn.Linear(64, width))
        self.items = nn.Embedding(ITEMS, width)

    def forward(self, past: Tensor) -> Tensor:
        return functional.normalize(self.user(self.past(past)), dim=1)


class Baskets(Task):
    """The item of each user among those of all users of the batch."""

    def __init__(self) -> None:
        self.train, self.held_out = parted(baskets(26_624), 1024)
        self.model: Towers = Towers()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        parts = zip(torch.split(outputs, GROUP), torch.split(targets, GROUP), strict=True)
        return torch.stack([self._group(users, items) for users, items in parts]).mean()

    def _group(self, users: Tensor, items: Tensor) -> Tensor:
        vectors = functional.normalize(self.model.items(items), dim=1)
        same = (items[:, None] == items[None, :]).fill_diagonal_(False)
        likeness = (users @ vectors.T / HEAT).masked_fill(same, -1e4)
        return functional.cross_entropy(likeness, torch.arange(len(items), device=items.device))

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        every = functional.normalize(self.model.items.weight, dim=1)
        best = (outputs @ every.T).topk(20).indices
        return {"recall_at_20": float((best == targets[:, None]).any(1).float().mean())}


CROWD, EPISODE, TICK, KEPT = 32, 30, 0.1, 12_000


class Gliders:
    """Gliders on a plane, each pushed in two directions towards a goal of its own."""

    def __init__(self, count: int, device: torch.device) -> None:
        self.away = 2 * torch.rand(count, 2, device=device) - 1
        self.speed = torch.zeros(count, 2, device=device)

    def state(self) -> Tensor:
        return torch.cat([self.away, self.speed], 1)

    def push(self, force: Tensor) -> Tensor:
        """Push every glider; returns the rewards."""
        force = force.nan_to_num().clamp(-1, 1)
        self.speed = 0.9 * self.speed + 4 * TICK * force
        self.away = (self.away + TICK * self.speed).clamp(-3, 3)
        far: Tensor = self.away.norm(dim=1)
        return -far - 0.05 * force.square().sum(1)


def _network(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        *(nn.Linear(inputs, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU()), nn.Linear(64, outputs)
    )


class Pilot(nn.Module):
    """What to do, and what that is worth."""

    def __init__(self) -> None:
        super().__init__()
        self.actor, self.critic = _network(4, 2), _network(6, 1)

    def forward(self, states: Tensor) -> Tensor:
        return torch.tanh(self.actor(states))

    def worth(self, states: Tensor, actions: Tensor) -> Tensor:
        worth: Tensor = self.critic(torch.cat([states, actions], 1))[:, 0]
        return worth


class Gliding(Play):
    """Deterministic policy gradient with a store of experience and slow copies of both networks."""

    def __init__(self) -> None:
        super().__init__(2)
        self.model: Pilot = Pilot()
        self._slow = copy.deepcopy(self.model).requires_grad_(False)
        self._world, self._age, self._sum = Gliders(CROWD, self.device), 0, 0.0
        self._store = torch.zeros(0, 11)

    def to(self, device: torch.device) -> None:
        super().to(device)
        self._world = Gliders(CROWD, device)

    def before_step(self, step: int, rate: float) -> None:
        with torch.no_grad():
            for slow, now in zip(self._slow.parameters(), self.model.parameters(), strict=True):
                slow.lerp_(now, 0.02)

    def _play(self) -> None:
        state = self._world.state()
        with torch.no_grad():
            action = self.model(state)
        action = (action + 0.3 * torch.randn_like(action)).clamp(-1, 1)
        reward = self._world.push(action)
        later = self._world.state()
        row = torch.cat([state, action, self.reward_scale * reward[:, None], later], 1)
        self._store = torch.cat([self._store, row])[-KEPT:]
        self._age, self._sum = self._age + 1, self._sum + float(reward.mean())
        if self._age >= EPISODE:
            self.returned = self._sum
            self._world, self._age, self._sum = Gliders(CROWD, self.device), 0, 0.0

    def experience(self, count: int) -> Batch:
        self._play()
        while len(self._store) < 8 * CROWD:
            self._play()
        rows = self._store[torch.randint(len(self._store), (count,))]
        return rows[:, :4], rows[:, 4:]

    def outputs(self, inputs: Tensor) -> Any:
        return inputs

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        states, actions, reward, later = outputs, targets[:, :2], targets[:, 2], targets[:, 3:]
        with torch.no_grad():
            aim = reward + DISCOUNT * self._slow.worth(later, self._slow(later))
        critic = functional.mse_loss(self.model.worth(states, actions), aim)
        held = {name: one.detach() for name, one in self.model.critic.named_parameters()}
        chosen = torch.cat([states, self.model(states)], 1)
        worth: Tensor = functional_call(self.model.critic, held, (chosen,))
        return critic - worth.mean()

    def evaluate(self, split: Split) -> dict[str, float]:
        with torch.no_grad():
            world = Gliders(256, self.device)
            total = torch.zeros(256, device=self.device)
            for _ in range(EPISODE):
                total += world.push(self.model(world.state()))
        return {"return": float(total.mean())}


KINDS = (
    Kind(
        "two_towers",
        "blind3",
        Baskets,
        (OptimizerChoice("adam", 3e-3, decay="linear"), OptimizerChoice("adagrad", 0.03)),
        steps=1200,
        batch_size=GROUP,
        num_evals=12,
        faults=(
            "rate_x30 labels_shuffled overfitting one_batch wrong_sign eval_on_train",
            "rate_too_small rate_x10 schedule_unit missing_step",
        ),
    ),
    Kind(
        "gliding",
        "blind3",
        Gliding,
        (OptimizerChoice("adam", 1e-3), OptimizerChoice("rmsprop", 5e-4)),
        steps=1200,
        batch_size=64,
        typed=False,
        faults=(
            "exploding_returns rate_x30 wrong_sign rate_zero tiny_init missing_step",
            "rate_x30 exploding_init frozen schedule_unit",
        ),
    ),
)
