"""Curves, codes and motion: a function from a few points, bits, bodies that move, a maze."""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.clinic.kinds.experts import Experts, balance_of
from benchmarks.clinic.kinds.play import DISCOUNT, Play
from benchmarks.clinic.kinds.restoring import FINE, scenes
from benchmarks.clinic.kinds.tables import parted
from benchmarks.clinic.task import Batch, Kind, OptimizerChoice, Split, Task

POINTS = 10


def curves(count: int) -> Split:
    """Waves: ten places and their values, then ten places whose values are asked."""
    places = 4 * torch.rand(count, 2 * POINTS) - 2
    size, lift = 0.5 + torch.rand(count, 1), 0.3 * torch.randn(count, 1)
    speed, phase = 0.8 + 0.6 * torch.rand(count, 1), 6.283 * torch.rand(count, 1)
    values = size * torch.sin(speed * places + phase) + lift
    values = values + 0.05 * torch.randn_like(values)
    return Split(torch.cat([places, values[:, :POINTS]], 1), values[:, POINTS:])


class Process(nn.Module):
    """All points that are known, as a mean of what each says; then a density at every place."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.point = nn.Sequential(
            *(nn.Linear(2, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()),
            nn.Linear(width, width),
        )
        self.place = nn.Sequential(
            *(nn.Linear(width + 1, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        )
        self.head = nn.Linear(width, 2)

    def forward(self, rows: Tensor) -> Tensor:
        known, asked, values = rows.view(len(rows), 3, POINTS).unbind(1)
        whole = self.point(torch.stack([known, values], 2)).mean(1, keepdim=True)
        both = torch.cat([whole.expand(-1, POINTS, -1), asked.unsqueeze(2)], 2)
        out: Tensor = self.head(self.place(both))
        return out


class Curves(Task):
    """The density of values of a function that is known at ten points (a neural process)."""

    def __init__(self) -> None:
        self.train, self.held_out = parted(curves(8600), 600)
        self.model = Process()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        middle, width = outputs[..., 0], 0.03 + functional.softplus(outputs[..., 1])
        away = (targets - middle) / width
        loss: Tensor = (0.5 * away.square() + width.log() + 0.5 * math.log(2 * math.pi)).mean()
        return loss

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        return {"mean_error": float((outputs[..., 0] - targets).abs().mean())}


CODES, WORTH = 8, 60.0


class Codec(nn.Module):
    """A picture to whole numbers and back, and how likely each number is.

    In training noise of the same width takes the place of rounding.
    """

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            *(nn.Conv2d(1, width, 4, stride=2, padding=1), nn.LeakyReLU(0.1)),
            nn.Conv2d(width, CODES, 4, stride=2, padding=1),
        )
        self.middle = nn.Parameter(torch.zeros(CODES, 1, 1))
        self.spread = nn.Parameter(torch.zeros(CODES, 1, 1))
        self.decoder = nn.Sequential(
            *(nn.Conv2d(CODES, 4 * width, 3, padding=1), nn.PixelShuffle(2), nn.LeakyReLU(0.1)),
            *(nn.Conv2d(width, 4, 3, padding=1), nn.PixelShuffle(2)),
        )

    def forward(self, pictures: Tensor) -> tuple[Tensor, Tensor]:
        exact = self.encoder(pictures - 0.5)
        noise = torch.rand_like(exact) - 0.5 if self.training else exact.round() - exact
        codes = exact + noise
        scale, away = functional.softplus(self.spread) + 0.05, (codes - self.middle).abs()
        chance = ((0.5 - away) / scale).sigmoid() - ((-0.5 - away) / scale).sigmoid()
        bits = -chance.clamp(min=1e-6).log2().sum((1, 2, 3)) / FINE**2
        return self.decoder(codes) + 0.5, bits


class Codes(Task):
    """Bits of a code and the error of its picture, one against the other (learned compression)."""

    def __init__(self) -> None:
        found = scenes(4400)
        self.train, self.held_out = parted(Split(found, found), 400)
        self.model = Codec()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        found, bits = outputs
        loss: Tensor = bits.mean() + WORTH * functional.mse_loss(found, targets)
        return loss

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        return {"bits_per_pixel": float(outputs[1].mean())}


BODIES, STATE, FORCE = 4, 6, 2


def bodies(count: int) -> Split:
    """Where a body is and what pushes it, and by how much it moves; four bodies, four laws."""
    body = torch.randint(BODIES, (count,))
    rows = torch.randn(count, STATE + FORCE)
    first = torch.randn(BODIES, STATE + FORCE, 12) / 2
    second = torch.randn(BODIES, 12, STATE) / 3
    bent = torch.tanh(torch.einsum("nd,nde->ne", rows, first[body]))
    move = torch.einsum("nd,nde->ne", bent, second[body])
    move = move + 0.05 * torch.randn_like(move) * torch.empty(count, 1).exponential_()
    return Split(torch.cat([rows, functional.one_hot(body, BODIES).float()], 1), move)


class Body(nn.Module):
    """A layer, experts beside a way around them, and what is to move."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Linear(STATE + FORCE + BODIES, width), nn.ReLU())
        self.moe = Experts(width, BODIES, 1)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, STATE)

    def forward(self, rows: Tensor) -> Tensor:
        hidden = self.first(rows)
        out: Tensor = self.head(self.norm(hidden + self.moe(hidden)))
        return out


class Bodies(Task):
    """A model of motion for planning: how a body moves, by Huber's loss."""

    balance_share = 0.02

    def __init__(self) -> None:
        self.train, self.held_out = parted(bodies(12_600), 600)
        self.model = Body()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        loss = functional.huber_loss(outputs, targets, delta=0.5)
        if torch.is_grad_enabled():
            loss = loss + self.balance_share * balance_of(self.model)
        return loss

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        return {"r2": float(1 - (outputs - targets).square().mean() / targets.var())}


GRID, MOVES, QUANTILES, CROWD, LONG = 5, 4, 8, 24, 16


class Maze:
    """Many walkers on a grid with a wall across it that has a gap; each has a goal."""

    def __init__(self, count: int, device: torch.device) -> None:
        self.place = torch.randint(GRID, (count, 2), device=device)
        self.goal = torch.randint(GRID, (count, 2), device=device)
        self._steps = torch.tensor([[0, 1], [1, 0], [0, -1], [-1, 0]], device=device)

    def state(self) -> Tensor:
        both = functional.one_hot(torch.cat([self.place, self.goal], 1), GRID)
        return both.flatten(1).float()

    def walk(self, moves: Tensor) -> tuple[Tensor, Tensor]:
        """Take a step each; returns the rewards and who has arrived. These start elsewhere."""
        to = (self.place + self._steps[moves]).clamp(0, GRID - 1)
        middle = GRID // 2
        crosses = (to[:, 0] == middle) != (self.place[:, 0] == middle)
        blocked = crosses & (to[:, 1] != middle) & (self.place[:, 1] != middle)
        self.place = torch.where(blocked[:, None], self.place, to)
        there = (self.place == self.goal).all(1)
        again = torch.randint(GRID, (2, len(moves), 2), device=moves.device)
        self.place = torch.where(there[:, None], again[0], self.place)
        self.goal = torch.where(there[:, None], again[1], self.goal)
        return there.float() - 0.05, there


class Walking(Play):
    """Quantiles of what each move will return, from a memory, against a slow copy (QR-DQN)."""

    def __init__(self, width: int = 64) -> None:
        super().__init__(1)
        self.model = nn.Sequential(
            *(nn.Linear(4 * GRID, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()),
            nn.Linear(width, MOVES * QUANTILES),
        )
        self._slow = copy.deepcopy(self.model).requires_grad_(False)
        self._maze, self._memory = Maze(CROWD, self.device), torch.zeros(0, 8 * GRID + 3)
        self._recent, self._chance = 0.0, 1.0

    def to(self, device: torch.device) -> None:
        super().to(device)
        self._maze = Maze(CROWD, device)

    def _quantiles(self, model: nn.Module, states: Tensor) -> Tensor:
        found: Tensor = model(states).unflatten(1, (MOVES, QUANTILES))
        return found

    def best_action(self, state: Tensor) -> Tensor:
        return self._quantiles(self.model, state).mean(2).argmax(1)

    def before_step(self, step: int, rate: float) -> None:
        self._chance = max(0.1, 1 - step / 300)
        with torch.no_grad():
            for slow, now in zip(self._slow.parameters(), self.model.parameters(), strict=True):
                slow.lerp_(now, 0.05)

    def _play(self, chance: float) -> None:
        state = self._maze.state()
        with torch.no_grad():
            best = self.best_action(state)
        drawn = torch.randint(MOVES, (CROWD,), device=self.device)
        by_chance = torch.rand(CROWD, device=self.device) < chance
        moves = torch.where(by_chance, drawn, best)
        reward, there = self._maze.walk(moves)
        later = self._maze.state()  # of who has arrived nothing follows
        told = [state, moves[:, None].float(), self.reward_scale * reward[:, None]]
        rows = torch.cat([*told, 1 - there[:, None].float(), later], 1)
        self._memory = torch.cat([self._memory, rows])[-300 * CROWD :]
        self._recent = 0.98 * self._recent + 0.02 * float(reward.mean())
        self.returned = LONG * self._recent

    def experience(self, count: int) -> Batch:
        while len(self._memory) < 20 * CROWD:
            self._play(1.0)
        self._play(self._chance)
        rows = self._memory[torch.randint(len(self._memory), (count,), device=self.device)]
        return rows[:, : 4 * GRID], rows[:, 4 * GRID :]

    def outputs(self, inputs: Tensor) -> Any:
        return self._quantiles(self.model, inputs)

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        move, reward, goes_on, later = (
            targets[:, 0],
            targets[:, 1:2],
            targets[:, 2:3],
            targets[:, 3:],
        )
        rows = torch.arange(len(targets), device=targets.device)
        with torch.no_grad():
            worth = self._quantiles(self._slow, later)
            best = worth[rows, worth.mean(2).argmax(1)]
            aim = reward + DISCOUNT * goes_on * best
        said = outputs[rows, move.long()]
        away = aim.unsqueeze(1) - said.unsqueeze(2)
        level = (torch.arange(QUANTILES, device=said.device) + 0.5) / QUANTILES
        share = (level.view(1, -1, 1) - (away.detach() < 0).float()).abs()
        size = functional.huber_loss(away, torch.zeros_like(away), reduction="none")
        loss: Tensor = (share * size).sum(1).mean()
        return loss

    def evaluate(self, split: Split) -> dict[str, float]:
        with torch.no_grad():
            maze = Maze(256, self.device)
            total = torch.zeros(256, device=self.device)
            for _ in range(LONG):
                total += maze.walk(self.best_action(maze.state()))[0]
        return {"return": float(total.mean())}


KINDS = (
    Kind(
        "curves",
        "blind5",
        Curves,
        (
            OptimizerChoice("adam", 9e-3, decay="cosine"),
            OptimizerChoice("lion", 1.5e-3, decay="linear"),
        ),
        steps=1000,
        batch_size=32,
        num_evals=20,
        pace_ms=0.0,
        seeds=2,
        fault_seeds=1,
        faults=(
            "rate_x30 labels_shuffled one_batch tiny_init missing_zero_grad nan_input "
            "dead_relu overfitting",
            "rate_x10 exploding_init frozen rate_zero wrong_sign missing_step "
            "rate_too_small labels_shuffled",
        ),
    ),
    Kind(
        "codes",
        "blind5",
        Codes,
        (OptimizerChoice("adam", 0.015, decay="steps"), OptimizerChoice("nadam", 3e-3)),
        steps=750,
        batch_size=16,
        num_evals=15,
        pace_ms=0.0,
        seeds=2,
        fault_seeds=1,
        faults=(
            "rate_x30 tiny_init overfitting slow_loader nan_input rate_zero wrong_sign "
            "missing_step",
            "rate_x10 rate_x30 exploding_init missing_zero_grad missing_parameters "
            "schedule_unit rate_too_small one_batch",
        ),
    ),
    Kind(
        "bodies",
        "blind5",
        Bodies,
        (
            OptimizerChoice("adamw", 6e-3, {"weight_decay": 0.01, "fused": True}, decay="cosine"),
            OptimizerChoice("momentum", 0.3),
        ),
        steps=800,
        batch_size=48,
        num_evals=16,
        pace_ms=0.0,
        seeds=2,
        fault_seeds=1,
        config={"num_experts": BODIES, "top_k": 1},
        faults=(
            "router_collapse rate_x30 labels_shuffled overfitting frozen tiny_init "
            "one_batch rate_zero",
            "router_collapse rate_x30 clip_tight fp16_overflow wrong_reduction accumulation "
            "exploding_init wrong_sign rate_too_small nan_input",
        ),
    ),
    Kind(
        "maze",
        "blind5",
        Walking,
        (OptimizerChoice("adam", 2e-3), OptimizerChoice("rmsprop", 1.8e-3)),
        steps=1000,
        batch_size=64,
        num_evals=20,
        pace_ms=0.0,
        seeds=2,
        fault_seeds=1,
        faults=(
            "exploding_returns rate_x30 frozen missing_step missing_zero_grad dead_relu "
            "wrong_sign rate_zero",
            "exploding_returns rate_x10 tiny_init exploding_init nan_input schedule_unit "
            "missing_parameters wrong_sign rate_too_small",
        ),
    ),
)
