"""An actor with continuous actions and its critic, on pendulums that stand on their heads."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.clinic.kinds.play import DISCOUNT, Play
from benchmarks.clinic.task import Batch, Kind, OptimizerChoice, Split

ROLLOUT, EPISODE, TICK_S, STRONGEST = 6, 48, 0.05, 7.0


class Pendulums:
    """Many pendulums near the top, each held there by a torque."""

    def __init__(self, count: int, device: torch.device) -> None:
        self.angle = 1.6 * torch.rand(count, device=device) - 0.8
        self.speed = torch.zeros(count, device=device)

    def state(self) -> Tensor:
        rows = [self.angle.cos(), self.angle.sin(), self.speed / 4, self.angle / 2]
        return torch.stack(rows, 1)

    def push(self, torques: Tensor) -> Tensor:
        """Turn every pendulum; returns the rewards."""
        force = STRONGEST * torques.nan_to_num().clamp(-1, 1)
        self.speed = (self.speed + TICK_S * (15 * self.angle.sin() + 3 * force)).clamp(-8, 8)
        self.angle = (self.angle + TICK_S * self.speed).clamp(-torch.pi, torch.pi)
        return -(self.angle**2 + 0.05 * self.speed**2 + 0.01 * force**2) / 4


class Actor(nn.Module):
    """The mean action and the value by two networks, and how far actions are spread."""

    def __init__(self) -> None:
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(4, 48), nn.Tanh(), nn.Linear(48, 1))
        self.critic = nn.Sequential(nn.Linear(4, 48), nn.Tanh(), nn.Linear(48, 1))
        self.spread = nn.Parameter(torch.tensor(-0.7))

    def forward(self, states: Tensor) -> Tensor:
        spread = self.spread.expand(len(states), 1)
        return torch.cat([self.actor(states), spread, self.critic(states)], 1)


class ActorCritic(Play):
    """A few ticks of many pendulums a step, with the critic's value of where they end."""

    def __init__(self) -> None:
        super().__init__(3)
        self.model = Actor()
        self._world, self._age, self._sum = Pendulums(32, self.device), 0, 0.0

    def to(self, device: torch.device) -> None:
        super().to(device)
        self._world = Pendulums(32, device)

    def experience(self, count: int) -> Batch:
        states, actions, rewards = [], [], []
        with torch.no_grad():
            for _ in range(ROLLOUT):
                state = self._world.state()
                mean, spread, _ = self.model(state).unbind(1)
                action = mean + spread.exp() * torch.randn_like(mean)
                reward = self._world.push(action)
                states.append(state)
                actions.append(action)
                rewards.append(self.reward_scale * reward)
                self._age, self._sum = self._age + 1, self._sum + float(reward.mean())
            later = self.model(self._world.state())[:, 2]
        returns = []
        for reward in reversed(rewards):
            later = reward + DISCOUNT * later
            returns.append(later)
        if self._age >= EPISODE:
            self.returned = self._sum
            self._world, self._age, self._sum = Pendulums(32, self.device), 0, 0.0
        told = torch.stack([torch.cat(actions), torch.cat(returns[::-1])], 1)
        return torch.cat(states), told

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        mean, spread, value = outputs.unbind(1)
        actions, returns = targets.unbind(1)
        chance = -0.5 * ((actions - mean) / spread.exp()) ** 2 - spread
        advantage = (returns - value).detach()
        critic = (returns - value).square().mean()
        loss: Tensor = -(chance * advantage).mean() + 0.5 * critic - 0.001 * spread.mean()
        return loss

    def evaluate(self, split: Split) -> dict[str, float]:
        with torch.no_grad():
            world = Pendulums(256, self.device)
            total = torch.zeros(256, device=self.device)
            for _ in range(EPISODE):
                total += world.push(self.model(world.state())[:, 0])
        return {"return": float(total.mean())}


KINDS = (
    Kind(
        "actor_critic",
        "unseen",
        ActorCritic,
        (OptimizerChoice("adam", 7e-4), OptimizerChoice("rmsprop", 5e-4, decay="linear")),
        steps=900,
        batch_size=192,
        clip=0.5,
        typed=False,
    ),
)
