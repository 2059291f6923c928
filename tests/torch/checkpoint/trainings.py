"""A small training with everything that a resume must bring back."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from epochal import Checkpoints, Retention, TrainingState
from epochal.torch.checkpoint.checkpoints import Restored
from epochal.torch.init import seed_everything
from epochal.torch.rng import Rng


class Shuffled:
    """Numbers in an order of its own, and how far it has come."""

    def __init__(self, rng: Rng, size: int = 7) -> None:
        self._rng = rng
        self._size = size
        self.order: list[int] = []

    def next(self) -> Tensor:
        if not self.order:
            self.order = list(range(self._size))
            self._rng.shuffle(self.order)
        generator = torch.Generator().manual_seed(self.order.pop())
        return torch.randn(8, 4, generator=generator)

    def state_dict(self) -> dict[str, Any]:
        return {"order": self.order}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.order = list(state["order"])


class Training:
    """Dropout, batch statistics, momentum, a scaler, and draws from every generator."""

    def __init__(
        self, *, seed: int = 0, scheduler: Callable[[Any], Any] | None = None, optimizer: Any = None
    ) -> None:
        seed_everything(seed)
        self.model: nn.Module = nn.Sequential(
            nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 1)
        )
        kind = optimizer or (lambda params: torch.optim.AdamW(params, lr=0.01))
        self.optimizer = kind(self.model.parameters())
        make = scheduler or (lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.05, total_steps=30))
        self.scheduler = make(self.optimizer)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=64.0, growth_interval=3)  # type: ignore[attr-defined, unused-ignore]
        self.rng = Rng(seed)
        self.data = Shuffled(self.rng)

    def state(self) -> TrainingState:
        return TrainingState(
            self.model,
            optimizer=self.optimizer,
            scheduler=self.scheduler,
            scaler=self.scaler,
            data=self.data,
            rng=self.rng,
        )

    def step(self) -> float:
        self.model.train()
        inputs = self.data.next() + 0.1 * float(np.random.rand()) + 0.1 * random.random()
        self.optimizer.zero_grad()
        loss = self.model(inputs).pow(2).mean()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        if hasattr(self.scheduler, "observe"):
            rate = self.scheduler.observe(float(loss.detach()))
            for group in self.optimizer.param_groups:
                group["lr"] = rate
        else:
            self.scheduler.step()
        return float(loss.detach())

    def steps(self, number: int) -> list[str]:
        """The losses of so many steps, to the last bit."""
        return [self.step().hex() for _ in range(number)]


def save(folder: Path, state: TrainingState, step: int, **options: Any) -> Path:
    """Save once, after a step; checkpoints of other calls stay."""
    with Checkpoints(
        folder, state, signals=(), overwrite=True, keep=Retention(rolling=None)
    ) as checkpoints:
        return checkpoints.save(step, **options)


def restore(folder: Path, state: TrainingState, which: Any = "latest", **options: Any) -> Restored:
    """Go on from a checkpoint that must exist."""
    with Checkpoints(folder, state, signals=()) as checkpoints:
        restored = checkpoints.restore(which, **options)
    assert restored is not None
    return restored
