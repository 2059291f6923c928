"""Trainings that call nothing of Epochal but ``init`` and ``log``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from epochal.run.run import Run
from tests.doubles.journals import of_kind


class Body(nn.Module):
    """A body and a head; behind ``detach`` the body gets no gradient."""

    def __init__(self, *, is_detached: bool = False) -> None:
        super().__init__()
        self.is_detached = is_detached
        self.body, self.head = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        inner = torch.relu(self.body(inputs))
        result: torch.Tensor = self.head(inner.detach() if self.is_detached else inner)
        return result


def samples(count: int, seed: int = 0) -> TensorDataset:
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(count, 4, generator=generator)
    return TensorDataset(inputs, torch.randint(3, (count,), generator=generator))


def loader_of(count: int, *, seed: int = 0, shuffle: bool = True) -> DataLoader[Any]:
    return DataLoader(samples(count, seed), batch_size=8, shuffle=shuffle)


def train(
    run: Run,
    model: nn.Module,
    batches: Iterable[Any],
    *,
    optimizer: torch.optim.Optimizer | None = None,
    passes: int = 1,
    reset: bool = True,
    before_step: Callable[[], object] = lambda: None,
) -> None:
    if optimizer is None:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for inputs, labels in batches:
        if reset:
            optimizer.zero_grad()
        for _ in range(passes):
            loss = nn.functional.cross_entropy(model(inputs), labels)
            loss.backward()  # type: ignore[no-untyped-call]
        before_step()
        optimizer.step()
        run.log({"loss": loss})


@torch.no_grad()
def evaluate(model: nn.Module, batches: Iterable[Any]) -> float:
    return sum(float(nn.functional.cross_entropy(model(x), y)) for x, y in batches)


def events(run: Run, name: str) -> list[dict[str, Any]]:
    run.finish()
    written = of_kind(run.dir, "event")
    assert [one["reason"] for one in written if one["name"] == "internal-error"] == []
    return [one for one in written if one["name"] == name]
