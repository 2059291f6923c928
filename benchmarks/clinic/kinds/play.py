"""Reinforcement learning on a small world: PPO, a policy gradient with a baseline, and DQN."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.clinic.task import Batch, Kind, Loader, OptimizerChoice, Split, Task

HORIZON, DISCOUNT, ACTIONS = 24, 0.95, 3


class World:
    """Many carts on lines, each pushed left, right or not at all, to reach a goal and stay."""

    def __init__(self, count: int, device: torch.device) -> None:
        self.place = 2 * torch.rand(count, device=device) - 1
        self.speed = torch.zeros(count, device=device)
        self.goal = 2 * torch.rand(count, device=device) - 1

    def state(self) -> Tensor:
        return torch.stack([self.place, self.speed, self.goal, self.goal - self.place], 1)

    def push(self, actions: Tensor) -> Tensor:
        """Push every cart; returns the rewards."""
        self.speed = 0.8 * self.speed + 0.12 * (actions.float() - 1)
        self.place = (self.place + self.speed).clamp(-2, 2)
        return -(self.place - self.goal).abs()


def network(outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, outputs)
    )


class Play(Task):
    """What the three have in common: rewards, and a measure by play without chance."""

    has_data = False

    def __init__(self, outputs: int) -> None:
        self.model = network(outputs)
        self.train = self.held_out = Split(torch.zeros(1, 4), torch.zeros(1))
        self.reward_scale = 1.0
        self.returned = 0.0

    def loader(self, batch_size: int, seed: int, rank: int, world: int) -> Loader:
        return Experience(self, batch_size)

    def figures(self) -> dict[str, float]:
        return {"return": self.returned}

    def best_action(self, state: Tensor) -> Tensor:
        best: Tensor = self.model(state)[:, :ACTIONS].argmax(1)
        return best

    def evaluate(self, split: Split) -> dict[str, float]:
        with torch.no_grad():
            world = World(256, self.device)
            total = torch.zeros(256, device=self.device)
            for _ in range(HORIZON):
                total += world.push(self.best_action(world.state()))
        return {"return": float(total.mean())}

    def result(self) -> float:
        return -self.evaluate(self.held_out)["return"]

    def experience(self, count: int) -> Batch:
        """The next batch: states, and what the loss needs of each."""
        raise NotImplementedError

    def rollout(self, count: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Play once; states, actions, their logarithmic chances and the returns."""
        world = World(count, self.device)
        states, actions, chances, rewards = [], [], [], []
        with torch.no_grad():
            for _ in range(HORIZON):
                state = world.state()
                logits = self.model(state)[:, :ACTIONS].log_softmax(1)
                finite = logits.nan_to_num(-1.0).exp()
                action = torch.multinomial(finite, 1).squeeze(1)
                states.append(state)
                actions.append(action)
                chances.append(logits.gather(1, action[:, None]).squeeze(1))
                rewards.append(world.push(action))
        self.returned = float(torch.stack(rewards).sum(0).mean())
        returns, later = [], torch.zeros(count, device=self.device)
        for reward in reversed(rewards):
            later = self.reward_scale * reward + DISCOUNT * later
            returns.append(later)
        return (torch.cat(states), torch.cat(actions), torch.cat(chances), torch.cat(returns[::-1]))


class Experience(Loader):
    """Batches that come from playing."""

    def __init__(self, task: Play, batch_size: int) -> None:
        super().__init__(task.train, batch_size, 0)
        self._task = task

    def take(self) -> Batch:
        self.num_batches += 1
        return self._task.experience(self.batch_size)


class Ppo(Play):
    """Clipped policy steps over eight parts of a rollout, twice, with a value head."""

    def __init__(self) -> None:
        super().__init__(ACTIONS + 1)
        self._queue: list[Batch] = []

    def experience(self, count: int) -> Batch:
        if not self._queue:
            states, actions, chances, returns = self.rollout(32)
            with torch.no_grad():
                advantage = returns - self.model(states)[:, ACTIONS]
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-6)
            told = torch.stack([actions.float(), chances, advantage, returns], 1)
            for _ in range(2):
                order = torch.randperm(len(states), device=self.device)
                parts = [order[at : at + count] for at in range(0, len(order), count)]
                self._queue += [(states[part], told[part]) for part in parts]
        return self._queue.pop()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        actions, before, advantage, returns = targets.unbind(1)
        chances = outputs[:, :ACTIONS].log_softmax(1)
        ratio = (chances.gather(1, actions.long()[:, None]).squeeze(1) - before).exp()
        gain = torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
        value = functional.mse_loss(outputs[:, ACTIONS], returns)
        entropy = -(chances.exp() * chances).sum(1).mean()
        loss: Tensor = -gain.mean() + 0.5 * value - 0.01 * entropy
        return loss


class PolicyGradient(Play):
    """A rollout a step, and a learned baseline."""

    def __init__(self) -> None:
        super().__init__(ACTIONS + 1)

    def experience(self, count: int) -> Batch:
        states, actions, _, returns = self.rollout(count)
        return states, torch.stack([actions.float(), returns], 1)

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        actions, returns = targets.unbind(1)
        chances = outputs[:, :ACTIONS].log_softmax(1)
        taken = chances.gather(1, actions.long()[:, None]).squeeze(1)
        baseline = outputs[:, ACTIONS]
        advantage = (returns - baseline).detach()
        entropy = -(chances.exp() * chances).sum(1).mean()
        value = functional.mse_loss(baseline, returns)
        loss: Tensor = -(taken * advantage).mean() + 0.5 * value - 0.01 * entropy
        return loss


class Dqn(Play):
    """Values of actions from a memory of transitions, against an older copy of the network."""

    def __init__(self) -> None:
        super().__init__(ACTIONS)
        self._older = copy.deepcopy(self.model).requires_grad_(False)
        self._world, self._age, self._sum = World(32, self.device), 0, 0.0
        self._memory: list[Tensor] = []
        self._chance = 1.0

    def to(self, device: torch.device) -> None:
        super().to(device)
        self._world = World(32, device)

    def before_step(self, step: int, rate: float) -> None:
        if step % 50 == 0:
            self._older.load_state_dict(self.model.state_dict())
        self._chance = max(0.05, 1 - step / 400)

    def _play(self, chance: float) -> None:
        state = self._world.state()
        with torch.no_grad():
            best = self.best_action(state)
        by_chance = torch.rand(32, device=self.device) < chance
        drawn = torch.randint(ACTIONS, (32,), device=self.device)
        actions = torch.where(by_chance, drawn, best)
        reward = self._world.push(actions)
        later = self._world.state()
        rows = [state, actions[:, None].float(), self.reward_scale * reward[:, None], later]
        self._memory.append(torch.cat(rows, 1))
        self._memory = self._memory[-600:]
        self._age, self._sum = self._age + 1, self._sum + float(reward.mean())
        if self._age == HORIZON:
            self.returned = self._sum
            self._world, self._age, self._sum = World(32, self.device), 0, 0.0

    def experience(self, count: int) -> Batch:
        while len(self._memory) < 20:
            self._play(1.0)
        self._play(self._chance)
        picked = torch.randint(len(self._memory), (4,)).tolist()
        rows = torch.cat([self._memory[place] for place in picked])
        return rows[:, :4], rows[:, 4:]

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        actions, reward, later = targets[:, 0].long(), targets[:, 1], targets[:, 2:]
        with torch.no_grad():
            aim = reward + DISCOUNT * self._older(later).max(1).values
        guess = outputs.gather(1, actions[:, None]).squeeze(1)
        return functional.mse_loss(guess, aim)


KINDS = (
    Kind(
        "ppo",
        "tuning",
        Ppo,
        (OptimizerChoice("adam", 1e-3), OptimizerChoice("rmsprop", 5e-4)),
        batch_size=96,
        typed=False,
    ),
    Kind(
        "policy_gradient",
        "unseen",
        PolicyGradient,
        (OptimizerChoice("adam", 2e-3), OptimizerChoice("rmsprop", 1e-3)),
        batch_size=16,
        steps=800,
        typed=False,
    ),
    Kind(
        "dqn",
        "unseen",
        Dqn,
        (OptimizerChoice("adam", 1e-3), OptimizerChoice("rmsprop", 5e-4)),
        steps=1200,
        typed=False,
    ),
)
