"""Finding what belongs together: documents for queries, and films for people."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.clinic.task import Split, Task


class Towers(nn.Module):
    """A tower for queries, and one for documents; both give directions."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.queries = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, width))
        self.documents = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, width))

    def forward(self, queries: Tensor) -> Tensor:
        return functional.normalize(self.queries(queries), dim=1)

    def embed(self, documents: Tensor) -> Tensor:
        return functional.normalize(self.documents(documents), dim=1)


class TwoTower(Task):
    """The document of each query among those of its batch."""

    name = "two_tower"
    lr = 6e-3
    batch_size = 64
    first_layer = "queries.0"

    def __init__(self) -> None:
        topics = torch.randn(8600, 12)
        queries = (topics @ torch.randn(12, 20) / 3).tanh() + 0.2 * torch.randn(8600, 20)
        documents = (topics @ torch.randn(12, 32) / 3).tanh() + 0.2 * torch.randn(8600, 32)
        self.train, self.held_out = Split(2 * queries, 2 * documents).parts(600)
        self.model: Towers = Towers()

    def _scores(self, queries: Tensor, documents: Tensor) -> Tensor:
        return queries @ self.model.embed(documents).T / 0.1

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.cross_entropy(self._scores(outputs, targets), torch.arange(len(outputs)))

    def metrics(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        best = self._scores(outputs, targets).argmax(1)
        return {"recall": float((best == torch.arange(len(outputs))).float().mean())}


class Factors(nn.Module):
    """A vector and a bias for each person and film."""

    def __init__(self, people: int, films: int, width: int = 8) -> None:
        super().__init__()
        self.people, self.films = nn.Embedding(people, width), nn.Embedding(films, width)
        self.biases = nn.Embedding(people + films, 1)
        self.num_people = people
        for part in (self.people, self.films):
            nn.init.normal_(part.weight, std=0.3)
        nn.init.zeros_(self.biases.weight)
        self.head = nn.Linear(width, 1)

    def forward(self, pairs: Tensor) -> Tensor:
        person, film = pairs.unbind(1)
        bias = self.biases(person) + self.biases(film + self.num_people)
        out: Tensor = self.head(self.people(person) * self.films(film)) + bias
        return out


class Recommender(Task):
    """Ratings of films, of which people have seen a few."""

    name = "recommender"
    optimizer = "adagrad"
    lr = 0.15
    steps = 600
    batch_size = 128
    float_inputs = False
    typed = False

    def __init__(self) -> None:
        people, films, count = 300, 150, 30_000
        tastes, styles = torch.randn(people, 3), torch.randn(films, 3)
        kindness, quality = 0.5 * torch.randn(people), 0.8 * torch.randn(films)
        pairs = torch.stack([torch.randint(people, (count,)), torch.randint(films, (count,))], 1)
        person, film = pairs.unbind(1)
        rating = (tastes[person] * styles[film]).sum(1) / 2 + kindness[person] + quality[film]
        rating = rating + 0.3 * torch.randn(count)
        self.train, self.held_out = Split(pairs, rating[:, None]).parts(2000)
        self.model = Factors(people, films)

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.mse_loss(outputs, targets)


TASKS = (TwoTower, Recommender)
