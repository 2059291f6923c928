"""Acting: pushing a body to a goal, and driving as a teacher does."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from benchmarks.clinic.kinds.play import Play
from benchmarks.clinic.task import Batch, Kind, OptimizerChoice, Split

CROWD, LONG, DISCOUNT = 24, 20, 0.9


class Remembered(Play):
    """Batches of a memory that grows by a turn of play each step."""

    first = 20  # turns before the first batch
    inputs, told = 4, 7  # columns of a row of the memory
    kept = 12_000

    def __init__(self) -> None:
        super().__init__(1)
        self._memory = torch.zeros(0, self.inputs + self.told)
        self._turns, self._sum = 0, 0.0

    def turn(self) -> list[Tensor]:
        """Play a turn; returns the columns to remember."""
        raise NotImplementedError

    def is_over(self, reward: Tensor) -> bool:
        """Count the rewards of a turn; whether it was the last one of a game."""
        self._turns, self._sum = self._turns + 1, self._sum + float(reward.mean())
        if self._turns % LONG:
            return False
        self.returned, self._sum = self._sum, 0.0
        return True

    def experience(self, count: int) -> Batch:
        for _ in range(1 if len(self._memory) else self.first + 1):
            self._memory = torch.cat([self._memory, torch.cat(self.turn(), 1)])[-self.kept :]
        rows = self._memory[torch.randint(len(self._memory), (count,), device=self.device)]
        return rows[:, : self.inputs], rows[:, self.inputs :]


class Bodies:
    """Bodies in a plane, each pushed in any direction to come to its goal."""

    def __init__(self, count: int, device: torch.device) -> None:
        self.away = 2 * torch.rand(count, 2, device=device) - 1
        self.speed = torch.zeros(count, 2, device=device)

    def state(self) -> Tensor:
        return torch.cat([self.away, self.speed], 1)

    def push(self, force: Tensor) -> Tensor:
        """Push every body; returns the rewards."""
        self.speed = 0.8 * self.speed + 0.12 * force.clamp(-1, 1)
        self.away = (self.away + self.speed).clamp(-2, 2)
        reward: Tensor = -self.away.norm(dim=1) - 0.05 * force.square().sum(1)
        return reward


class Pilot(nn.Module):
    """Two critics of a state and a force, and an actor."""

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.critics = nn.ModuleList(
            nn.Sequential(
                *(nn.Linear(6, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()),
                nn.Linear(width, 1),
            )
            for _ in range(2)
        )
        self.actor = nn.Sequential(
            *(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()),
            nn.Linear(width, 2),
        )

    def act(self, states: Tensor) -> Tensor:
        forces: Tensor = self.actor(states).tanh()
        return forces

    def worth(self, states: Tensor, forces: Tensor) -> Tensor:
        """What both critics say, a row each."""
        both = torch.cat([states, forces], 1)
        return torch.stack([critic(both)[:, 0] for critic in self.critics])


class Reaching(Remembered):
    """Forces by an actor that two critics teach, which learn from a memory (as in TD3)."""

    first = 40

    def __init__(self) -> None:
        super().__init__()
        self.model: Pilot = Pilot()
        self._slow = copy.deepcopy(self.model).requires_grad_(False)
        self._world = Bodies(CROWD, self.device)

    def to(self, device: torch.device) -> None:
        super().to(device)
        self._world = Bodies(CROWD, device)

    def before_step(self, step: int, rate: float) -> None:
        with torch.no_grad():
            for slow, now in zip(self._slow.parameters(), self.model.parameters(), strict=True):
                slow.lerp_(now, 0.03)

    def turn(self) -> list[Tensor]:
        state = self._world.state()
        noise = torch.randn(CROWD, 2, device=self.device)
        with torch.no_grad():
            own = self.model.act(state) + 0.2 * noise
        force = (noise if self._turns < self.first else own).clamp(-1, 1)
        reward = self._world.push(force)
        told = [state, force, self.reward_scale * reward[:, None], self._world.state()]
        if self.is_over(reward):
            self._world = Bodies(CROWD, self.device)
        return told

    def outputs(self, inputs: Tensor) -> Any:
        return inputs, self.model.act(inputs)

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        states, chosen = outputs
        forces, reward, later = targets[:, :2], targets[:, 2], targets[:, 3:]
        with torch.no_grad():
            noise = (0.1 * torch.randn_like(forces)).clamp(-0.3, 0.3)
            next_forces = (self._slow.act(later) + noise).clamp(-1, 1)
            aim = reward + DISCOUNT * self._slow.worth(later, next_forces).min(0).values
        wrong = (self.model.worth(states, forces) - aim).square().mean()
        critic = self.model.critics[0]
        fixed = {name: one.detach() for name, one in critic.named_parameters()}
        worth = functional_call(critic, fixed, (torch.cat([states, chosen], 1),))
        loss: Tensor = wrong - worth.mean()
        return loss

    def evaluate(self, split: Split) -> dict[str, float]:
        with torch.no_grad():
            world = Bodies(256, self.device)
            total = torch.zeros(256, device=self.device)
            for _ in range(LONG):
                total += world.push(self.model.act(world.state()))
        return {"return": float(total.mean())}


class Cars:
    """Cars on a road that bends: how far from its middle, how turned, how fast, and the bends."""

    def __init__(self, count: int, device: torch.device) -> None:
        self.count, self.device = count, device
        self.beside, self.turned = 0.5 * torch.randn(2, count, device=device)
        self.speed = 0.5 + torch.rand(count, device=device)
        self.bend, self.next = 0.5 * torch.randn(2, count, device=device)

    def state(self) -> Tensor:
        return torch.stack([self.beside, self.turned, self.speed, self.bend, self.next], 1)

    def teacher(self) -> Tensor:
        """Steering and gas as a good driver has them."""
        steer = torch.tanh(self.bend - 1.2 * self.beside / (0.5 + self.speed) - 2 * self.turned)
        wanted = 1.8 / (1 + 1.5 * torch.maximum(self.bend.abs(), self.next.abs()))
        return torch.stack([steer, torch.tanh(2 * (wanted - self.speed))], 1)

    def drive(self, moves: Tensor) -> Tensor:
        """A fifth of a second; returns the rewards."""
        steer, gas = moves.clamp(-1, 1).unbind(1)
        self.turned = (self.turned + 0.2 * self.speed * (1.5 * steer - self.bend)).clamp(-1.5, 1.5)
        self.beside = (self.beside + 0.2 * self.speed * self.turned.sin()).clamp(-3, 3)
        self.speed = (self.speed + 0.2 * gas).clamp(0.1, 2)
        self.bend = 0.7 * self.bend + 0.3 * self.next
        self.next = 0.9 * self.next + 0.2 * torch.randn(self.count, device=self.device)
        reward: Tensor = self.speed - self.beside.square()
        return reward


class Driving(Remembered):
    """What a teacher would do where the learner comes to; he drives less and less (DAgger)."""

    inputs, told, kept = 5, 2, 40_000

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.model = nn.Sequential(
            *(nn.Linear(5, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()),
            nn.Linear(width, 2),
        )
        self._cars, self._share = Cars(CROWD, self.device), 1.0

    def to(self, device: torch.device) -> None:
        super().to(device)
        self._cars = Cars(CROWD, device)

    def before_step(self, step: int, rate: float) -> None:
        self._share = max(0.0, 1 - step / 300)

    def turn(self) -> list[Tensor]:
        state, right = self._cars.state(), self._cars.teacher()
        with torch.no_grad():
            own = self.model(state)
        by_teacher = torch.rand(CROWD, 1, device=self.device) < self._share
        reward = self._cars.drive(torch.where(by_teacher, right, own.nan_to_num()))
        if self.is_over(reward):
            self._cars = Cars(CROWD, self.device)
        return [state, right + 0.1 * torch.randn_like(right)]

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.smooth_l1_loss(outputs, targets, beta=0.3)

    def evaluate(self, split: Split) -> dict[str, float]:
        with torch.no_grad():
            cars, total, away = Cars(512, self.device), 0.0, 0.0
            for _ in range(LONG):
                moves = self.model(cars.state())
                away += float((moves - cars.teacher()).abs().mean()) / LONG
                total += float(cars.drive(moves.nan_to_num()).mean())
        return {"teacher_error": away, "return": total}

    def result(self) -> float:
        return self.evaluate(self.held_out)["teacher_error"]


KINDS = (
    Kind(
        "reaching",
        "blind6",
        Reaching,
        (OptimizerChoice("adam", 0.012), OptimizerChoice("rmsprop", 3e-3, decay="linear")),
        steps=800,
        batch_size=64,
        num_evals=16,
        pace_ms=0.0,
        seeds=3,
        fault_seeds=1,
        config={"discount": DISCOUNT},
        faults=(
            "exploding_returns rate_x30 frozen dead_relu wrong_sign missing_step tiny_init "
            "nan_input",
            "exploding_returns rate_x10 exploding_init rate_zero schedule_unit rate_too_small "
            "missing_parameters missing_zero_grad",
        ),
    ),
    Kind(
        "driving",
        "blind6",
        Driving,
        (
            OptimizerChoice("adamw", 8e-3, {"weight_decay": 1e-3}, decay="cosine"),
            OptimizerChoice("momentum", 0.25, decay="linear"),
        ),
        steps=800,
        batch_size=64,
        warmup=80,
        num_evals=20,
        log_every=2,
        pace_ms=0.0,
        seeds=3,
        fault_seeds=1,
        faults=(
            "rate_x30 frozen dead_relu nan_input wrong_sign rate_zero missing_parameters tiny_init",
            "rate_x30 clip_tight fp16_overflow wrong_reduction accumulation exploding_init "
            "missing_step rate_too_small",
        ),
    ),
)
