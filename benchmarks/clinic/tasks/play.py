"""Reinforcement learning on a small world: an actor-critic and DQN."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.clinic.task import NOTHING, Batch, Split, Task

HORIZON, DISCOUNT, ACTIONS = 16, 0.9, 3


class World:
    """Carts on lines, each pushed left, right or not at all, to reach a goal and stay there."""

    def __init__(self, count: int) -> None:
        self.place, self.goal = 2 * torch.rand(2, count) - 1
        self.speed = torch.zeros(count)

    def state(self) -> Tensor:
        return torch.stack([self.place, self.speed, self.goal, self.goal - self.place], 1)

    def push(self, actions: Tensor) -> Tensor:
        """Push every cart; returns the rewards."""
        self.speed = 0.8 * self.speed + 0.12 * (actions.float() - 1)
        self.place = (self.place + self.speed).clamp(-2, 2)
        reward: Tensor = -(self.place - self.goal).abs()
        return reward


class Play(Task):
    """What both have in common: the return, measured by playing the best actions."""

    has_data = False
    float_inputs = False
    labelled = False
    optimizer = "adam"
    typed = False
    outputs_count = ACTIONS

    def __init__(self) -> None:
        self.model = nn.Sequential(
            *(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU()),
            nn.Linear(64, self.outputs_count),
        )
        self.train = self.held_out = Split(*NOTHING)
        self.returned = 0.0

    def step_metrics(self) -> dict[str, float]:
        return {"return": self.returned}

    def evaluate(self, inputs: Tensor, targets: Tensor) -> dict[str, float]:
        world, total = World(256), torch.zeros(256)
        for _ in range(HORIZON):
            total += world.push(self.model(world.state())[:, :ACTIONS].argmax(1))
        return {"return": float(total.mean())}

    def result(self) -> float:
        torch.manual_seed(0)
        with torch.no_grad():
            return -self.evaluate(*NOTHING)["return"]


class ActorCritic(Play):
    """A rollout a step, and a learned baseline."""

    name = "actor_critic"
    lr = 5e-3
    outputs_count = ACTIONS + 1

    def play(self) -> Iterator[Batch]:
        while True:
            world = World(16)
            states, actions, rewards = [], [], []
            with torch.no_grad():
                for _ in range(HORIZON):
                    states.append(world.state())
                    chances = self.model(states[-1])[:, :ACTIONS].nan_to_num(-1.0).softmax(1)
                    actions.append(torch.multinomial(chances, 1)[:, 0])
                    rewards.append(world.push(actions[-1]))
            self.returned = float(torch.stack(rewards).sum(0).mean())
            returns, later = [], torch.zeros(16)
            for reward in reversed(rewards):
                later = reward + DISCOUNT * later
                returns.append(later)
            targets = torch.stack([torch.cat(actions).float(), torch.cat(returns[::-1])], 1)
            yield torch.cat(states), targets

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        actions, returns = targets.unbind(1)
        chances, worth = outputs[:, :ACTIONS].log_softmax(1), outputs[:, ACTIONS]
        taken = chances.gather(1, actions.long()[:, None])[:, 0]
        entropy = -(chances.exp() * chances).sum(1).mean()
        gain = (taken * (returns - worth).detach()).mean()
        loss: Tensor = 0.5 * functional.mse_loss(worth, returns) - gain - 0.01 * entropy
        return loss


class Dqn(Play):
    """Values of actions from a memory of transitions, against an older copy of the network."""

    name = "dqn"
    lr = 8e-3
    steps = 600

    def __init__(self) -> None:
        super().__init__()
        self._older = copy.deepcopy(self.model).requires_grad_(False)
        self._world, self._steps, self._sum = World(32), 0, 0.0
        self._memory: list[Tensor] = []

    def _move(self, chance: float) -> None:
        state = self._world.state()
        with torch.no_grad():
            best = self.model(state).argmax(1)
        actions = torch.where(torch.rand(32) < chance, torch.randint(ACTIONS, (32,)), best)
        reward = self._world.push(actions)
        rows = [state, actions[:, None].float(), reward[:, None], self._world.state()]
        self._memory = [*self._memory[-600:], torch.cat(rows, 1)]
        self._sum += float(reward.mean())
        if len(self._memory) % HORIZON == 0:
            self.returned, self._sum, self._world = self._sum, 0.0, World(32)

    def play(self) -> Iterator[Batch]:
        for _ in range(20):
            self._move(1.0)
        while True:
            if self._steps % 50 == 0:
                self._older.load_state_dict(self.model.state_dict())
            self._move(max(0.05, 1 - self._steps / 300))
            self._steps += 1
            picked = torch.randint(len(self._memory), (4,)).tolist()
            rows = torch.cat([self._memory[place] for place in picked])
            yield rows[:, :4], rows[:, 4:]

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        actions, reward, later = targets[:, 0].long(), targets[:, 1], targets[:, 2:]
        with torch.no_grad():
            aim = reward + DISCOUNT * self._older(later).max(1).values
        return functional.mse_loss(outputs.gather(1, actions[:, None])[:, 0], aim)


TASKS = (ActorCritic, Dqn)
