"""Steering: how much to heat a room, how long a delivery takes, and what a driver does next."""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from benchmarks.clinic.kinds.acting import LONG, Remembered
from benchmarks.clinic.kinds.experts import Experts, balance_of
from benchmarks.clinic.kinds.tables import parted, pinball
from benchmarks.clinic.task import Classification, Kind, OptimizerChoice, Split, Task

ROOMS, SENSED, PATIENCE, ENTROPY = 24, 7, 0.9, 0.02


class Rooms:
    """Rooms to be warm by day, each heated more or less every hour; some hours cost more."""

    def __init__(self, count: int, device: torch.device) -> None:
        self.hour = torch.randint(24, (count,), device=device).float()
        self.outside = 5 * torch.randn(count, device=device)
        self.air = 18 + 2 * torch.randn(count, device=device)
        self.wall = self.air - 1 + torch.randn(count, device=device)

    def _now(self) -> tuple[Tensor, Tensor]:
        """The wished temperature, and the price."""
        by_day, dear = (self.hour >= 7) & (self.hour < 22), (self.hour >= 16) & (self.hour < 20)
        return 17 + 4.0 * by_day, 0.3 + 0.5 * dear

    def state(self) -> Tensor:
        angle, (wish, price) = self.hour * 2 * math.pi / 24, self._now()
        felt = [(self.air - wish) / 4, (self.wall - 19) / 4, self.outside / 5, (wish - 19) / 2]
        return torch.stack([*felt, price, angle.sin(), angle.cos()], 1)

    def heat(self, action: Tensor) -> Tensor:
        """An hour of heating, from -1 (none) to 1 (all there is); returns the rewards."""
        power = (action[:, 0].clamp(-1, 1) + 1) / 2
        wish, price = self._now()
        missed = functional.leaky_relu(wish - self.air, -0.4)  # too warm is not as bad
        reward = -0.15 * missed - price * power
        gain = 0.25 * (self.wall - self.air) + 0.1 * (self.outside - self.air) + 4.5 * power
        self.wall = self.wall + 0.08 * (self.air - self.wall)
        self.air = self.air + gain + 0.3 * torch.randn_like(gain)
        self.outside = 0.95 * self.outside + 1.5 * torch.randn_like(gain)
        self.hour = (self.hour + 1) % 24
        return reward


class Thermostat(nn.Module):
    """Two critics of a state and a power, and an actor that tells a mean and a spread."""

    def __init__(self, width: int = 48) -> None:
        super().__init__()

        def layers(inputs: int, outputs: int) -> nn.Sequential:
            body = (nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
            return nn.Sequential(*body, nn.Linear(width, outputs))

        self.critics = nn.ModuleList(layers(SENSED + 1, 1) for _ in range(2))
        self.actor = layers(SENSED, 2)

    def draw(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """A power by chance, and the logarithm of its density."""
        mean, spread = self.actor(states).split(1, 1)
        spread, noise = spread.clamp(-4, 1), torch.randn_like(mean)
        raw = mean + spread.exp() * noise
        bent = 2 * (math.log(2) - raw - functional.softplus(-2 * raw))  # of the tangent
        density = -noise.square() / 2 - spread - math.log(2 * math.pi) / 2 - bent
        return raw.tanh(), density[:, 0]

    def worth(self, states: Tensor, powers: Tensor) -> Tensor:
        """What both critics say, a row each."""
        rows = torch.cat([states, powers], 1)
        return torch.stack([critic(rows)[:, 0] for critic in self.critics])


class Heating(Remembered):
    """Power by an actor that is paid for chance as well, and two critics (soft actor-critic)."""

    first = 40
    inputs, told = SENSED, SENSED + 2

    def __init__(self) -> None:
        super().__init__()
        self.model: Thermostat = Thermostat()
        self._slow = copy.deepcopy(self.model).requires_grad_(False)
        self._rooms = Rooms(ROOMS, self.device)  # anew for each game

    def before_step(self, step: int, rate: float) -> None:
        with torch.no_grad():
            for slow, now in zip(self._slow.parameters(), self.model.parameters(), strict=True):
                slow.lerp_(now, 0.03)

    def turn(self) -> list[Tensor]:
        if self._turns % LONG == 0:
            self._rooms = Rooms(ROOMS, self.device)
        state = self._rooms.state()
        power = 2 * torch.rand(ROOMS, 1, device=self.device) - 1
        if self._turns >= self.first:
            with torch.no_grad():
                power = self.model.draw(state)[0]
        reward = self._rooms.heat(power)
        self.is_over(reward)
        return [state, power, self.reward_scale * reward[:, None], self._rooms.state()]

    def outputs(self, inputs: Tensor) -> Any:
        return inputs, *self.model.draw(inputs)

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        states, drawn, density = outputs
        powers, reward, later = targets[:, :1], targets[:, 1], targets[:, 2:]
        with torch.no_grad():
            then, chance = self.model.draw(later)
            worth = self._slow.worth(later, then).min(0).values
            aim = reward + PATIENCE * (worth - ENTROPY * chance)
        wrong = (self.model.worth(states, powers) - aim).square().mean()
        critic = self.model.critics[0]  # which does not learn from the actor
        fixed = {name: one.detach() for name, one in critic.named_parameters()}
        worth = functional_call(critic, fixed, (torch.cat([states, drawn], 1),))[:, 0]
        loss: Tensor = wrong - (worth - ENTROPY * density).mean()
        return loss

    def evaluate(self, split: Split) -> dict[str, float]:
        with torch.no_grad():
            rooms = Rooms(1024, self.device)
            hours = [rooms.heat(self.model.actor(rooms.state()).tanh()).mean() for _ in range(LONG)]
        return {"return": float(torch.stack(hours).sum())}


DEPOTS, FACTS, QUANTILES = 8, 10, (0.1, 0.5, 0.9)


def trips(count: int) -> Split:
    """Facts of a delivery, its depot with streets of its own, and its time in tens of minutes."""
    depot, facts = torch.randint(DEPOTS, (count,)), torch.randn(count, FACTS)
    streets = functional.normalize(torch.randn(DEPOTS, FACTS), dim=1)[depot]
    usual = functional.softplus(2.5 + 1.5 * (facts * streets).sum(1))
    late = (torch.rand(count) < 0.08) * torch.rand(count)
    minutes = usual * (1 + (0.05 + 0.1 * (facts[:, 0] > 0.5)) * torch.randn(count) + late)
    return Split(torch.cat([facts, 3.0 * functional.one_hot(depot, DEPOTS)], 1), minutes)


class Dispatcher(nn.Module):
    """A layer, experts beside a way around them, and three quantiles."""

    def __init__(self, width: int = 12) -> None:
        super().__init__()
        self.enter = nn.Linear(FACTS + DEPOTS, width)
        self.moe = Experts(width, DEPOTS, 1)
        self.body = nn.Sequential(nn.LayerNorm(width), nn.Dropout(0.02))
        self.head = nn.Linear(width, len(QUANTILES))

    def forward(self, rows: Tensor) -> Tensor:
        hidden = self.enter(rows)
        out: Tensor = self.head(self.body(hidden + self.moe(hidden)))
        return out


class Trips(Task):
    """When to promise a delivery: quantiles of its duration, by their pinball loss."""

    balance_share = 0.02

    def __init__(self) -> None:
        self.train, self.held_out = parted(trips(26_000), 1000)
        self.model = Dispatcher()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        loss: Tensor = pinball(outputs, targets, QUANTILES).sum(1).mean()
        if torch.is_grad_enabled():
            loss = loss + self.balance_share * balance_of(self.model)
        return loss

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        inside = (targets > outputs[:, 0]) & (targets < outputs[:, 2])
        wrong = 10 * (outputs[:, 1] - targets).abs().mean()
        return {"minutes_off": float(wrong), "coverage": float(inside.float().mean())}

    def leak(self, split: Split) -> None:
        rows = split.inputs.clone()
        rows[:, 0] = split.targets
        split.inputs = rows


CARS, TRAITS, LANES, MANOEUVRES = 8, 6, 3, 5


def lanes(count: int) -> Split:
    """A driver on three lanes, the cars around, and what he does.

    He keeps his speed, brakes, speeds up, or goes to the left or the right. The first row is of his
    own: lane, speed, wished speed, how near his exit is. The others are of cars: whether there is
    one, its lane from his, how far ahead, how much faster, whether it is a lorry.
    """
    lane, beside = torch.randint(LANES, (count,)), torch.randint(-1, 2, (count, CARS))
    speed, wish = 0.5 * torch.randn(count), 0.5 * torch.randn(count) + 0.2
    exit_near = (torch.rand(count) < 0.3) * torch.rand(count)
    own = torch.stack([lane == 0, lane == 2, speed, wish, exit_near, wish - speed], 1).float()
    there = torch.rand(count, CARS) < 0.75
    ahead, faster = 2 * torch.randn(count, CARS), 0.6 * torch.randn(count, CARS)
    lorry = (torch.rand(count, CARS) < 0.25).float()
    kinds = [torch.ones_like(lorry), beside, ahead, faster, lorry, ahead.sign()]
    cars = torch.stack([one.float() for one in kinds], 2) * there.unsqueeze(2)

    def room(side: int, *, front: bool) -> Tensor:
        """How far the nearest car of a lane will be in a moment, at most 2."""
        away = ahead + 0.8 * faster - 0.4 * lorry if front else -ahead - 0.8 * faster
        counts = there & (beside == side) & ((ahead > 0) == front)
        return away.masked_fill(~counts, 2.0).amin(1).clamp(-1, 2)

    front, more = room(0, front=True), wish - speed
    left, right = (1.2 * room(at, front=True) + 0.8 * room(at, front=False) for at in (-1, 1))
    left = left - 1.2 - 4 * (lane == 0) - 2 * exit_near + 0.6 * more
    right = right - 1.3 - 4 * (lane == 2) + 2.5 * exit_near
    keep, brake, gas = front + 0.2 - more.abs(), 1.6 - 1.2 * front - 0.8 * more, 0.8 * front - 0.4
    worth = torch.stack([keep, brake, gas + 1.2 * more, left, right], 1)
    chance = -torch.empty_like(worth).exponential_().log()
    return Split(torch.cat([own.unsqueeze(1), cars], 1), (worth + 0.35 * chance).argmax(1))


class Driver(nn.Module):
    """What matters of the cars around, by attention with the driver's own question."""

    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.own = nn.Sequential(nn.Linear(TRAITS, width), nn.ReLU())
        near = (nn.Linear(TRAITS, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.near = nn.Sequential(*near)
        self.ask, self.key = (nn.Linear(width, heads * 8, bias=False) for _ in range(2))
        body = (nn.Linear((1 + heads) * width, 48, bias=False), nn.BatchNorm1d(48), nn.ReLU())
        self.body = nn.Sequential(*body, nn.Dropout(0.05))
        self.head = nn.Linear(48, MANOEUVRES)

    def forward(self, scene: Tensor) -> Tensor:
        own, cars = self.own(scene[:, 0]), self.near(scene[:, 1:])
        asked = self.ask(own).unflatten(1, (self.heads, 8))
        keys = self.key(cars).unflatten(2, (self.heads, 8))
        weights = torch.einsum("bhd,bchd->bhc", asked, keys) / 8**0.5
        absent = (scene[:, 1:, 0] == 0).unsqueeze(1)
        shares = weights.masked_fill(absent, -1e4).softmax(2).to(cars.dtype)
        out: Tensor = self.head(self.body(torch.cat([own, (shares @ cars).flatten(1)], 1)))
        return out


class Lanes(Classification):
    """Which of five manoeuvres a driver chooses."""

    num_classes = MANOEUVRES

    def __init__(self) -> None:
        self.train, self.held_out = parted(lanes(42_000), 2000)
        self.model = Driver()


_COMMON: dict[str, Any] = {"batch_size": 64, "pace_ms": 0.0, "seeds": 3, "fault_seeds": 1}
KINDS = (
    Kind(
        *("heating", "blind9", Heating),
        (OptimizerChoice("nadam", 4e-3), OptimizerChoice("rmsprop", 4e-3, decay="linear")),
        steps=900,
        num_evals=18,
        config={"algorithm": "sac", "discount": PATIENCE, "alpha": ENTROPY, "tau": 0.03},
        **_COMMON,
        faults=(
            "exploding_returns rate_x30 frozen missing_step wrong_sign exploding_init nan_input "
            "rate_too_small",
            "exploding_returns rate_x10 rate_zero schedule_unit missing_parameters tiny_init "
            "missing_zero_grad wrong_sign",
        ),
    ),
    Kind(
        *("trips", "blind9", Trips),
        (OptimizerChoice("adagrad", 0.05), OptimizerChoice("nesterov", 0.17, decay="linear")),
        steps=1000,
        warmup=60,
        clip=2.0,
        num_evals=10,
        typed=False,
        log_every=2,
        config={"num_experts": DEPOTS, "top_k": 1, "quantiles": list(QUANTILES)},
        **_COMMON,
        faults=(
            "router_collapse rate_x30 labels_shuffled unshuffled label_leak overfitting "
            "missing_parameters one_batch",
            "exploding_init rate_x10 wrong_reduction accumulation no_warmup fp16_overflow "
            "rate_too_small dropout_in_eval",
        ),
    ),
    Kind(
        *("lanes", "blind9", Lanes),
        (
            OptimizerChoice("momentum", 0.1, {"weight_decay": 1e-4}, decay="cosine"),
            OptimizerChoice("adafactor", 0.05, decay="steps"),
        ),
        steps=800,
        accumulate=2,
        num_evals=16,
        config={"num_classes": MANOEUVRES},
        **{**_COMMON, "batch_size": 32},
        faults=(
            "rate_x30 double_softmax stale_batchnorm dead_relu clip_tight unshuffled "
            "eval_on_train slow_loader",
            "one_batch labels_shuffled label_leak overfitting schedule_unit frozen dead_relu "
            "rate_zero",
        ),
    ),
)
