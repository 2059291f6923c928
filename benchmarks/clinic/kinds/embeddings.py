"""Things that get a vector each: words beside words, users and films, nodes of a graph."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.clinic.kinds.tables import parted
from benchmarks.clinic.task import Classification, Kind, OptimizerChoice, Split, Task

WORDS, TOPICS, NEGATIVES = 400, 12, 5


class SkipGram(nn.Module):
    """A vector of each word, and one of each word as a neighbour."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, width)
        self.neighbours = nn.Embedding(WORDS, width)
        nn.init.uniform_(self.words.weight, -0.5 / width, 0.5 / width)
        nn.init.zeros_(self.neighbours.weight)

    def forward(self, words: Tensor, neighbours: Tensor) -> Tensor:
        likeness: Tensor = (self.words(words).unsqueeze(1) * self.neighbours(neighbours)).sum(-1)
        return likeness


class Word2Vec(Task):
    """Neighbours in a text of topics against words that are drawn by their frequency."""

    def __init__(self) -> None:
        topics = (2.5 * torch.randn(TOPICS, WORDS)).softmax(1)
        topic = torch.randint(TOPICS, (202_000,))
        pairs = torch.multinomial(topics, 2 * 202_000, replacement=True)
        rows = torch.arange(202_000)
        words, neighbours = pairs[topic, 2 * rows], pairs[topic, 2 * rows + 1]
        self.train, self.held_out = parted(Split(words, neighbours), 2000)
        self._frequency = topics.mean(0) ** 0.75
        self.model = SkipGram()

    def outputs(self, inputs: Tensor) -> Any:
        drawn = torch.multinomial(self._frequency, NEGATIVES * len(inputs), replacement=True)
        return inputs, drawn.view(-1, NEGATIVES)

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        words, drawn = outputs
        likeness = self.model(words, torch.cat([targets.unsqueeze(1), drawn], 1))
        sign = torch.ones(NEGATIVES + 1, device=likeness.device)
        sign[1:] = -1
        return -functional.logsigmoid(sign * likeness).sum(1).mean()


USERS, FILMS = 500, 300


class Factors(nn.Module):
    """A rating is the mean, two biases and the product of two vectors."""

    def __init__(self, mean: float, width: int = 6) -> None:
        super().__init__()
        self.users, self.films = nn.Embedding(USERS, width), nn.Embedding(FILMS, width)
        self.user_bias, self.film_bias = nn.Embedding(USERS, 1), nn.Embedding(FILMS, 1)
        self.mean = mean
        for part in (self.users, self.films):
            nn.init.normal_(part.weight, std=0.1)
        for part in (self.user_bias, self.film_bias):
            nn.init.zeros_(part.weight)

    def forward(self, pairs: Tensor) -> Tensor:
        user, film = pairs.unbind(1)
        biases = self.user_bias(user) + self.film_bias(film)
        rating: Tensor = self.mean + biases[:, 0] + (self.users(user) * self.films(film)).sum(1)
        return rating


class Recommender(Task):
    """Ratings from one to five stars."""

    def __init__(self) -> None:
        count = 42_000
        pairs = torch.stack([torch.randint(USERS, (count,)), torch.randint(FILMS, (count,))], 1)
        tastes, styles = torch.randn(USERS, 3), torch.randn(FILMS, 3)
        stars = 3.4 + 0.4 * torch.randn(USERS)[pairs[:, 0]] + 0.5 * torch.randn(FILMS)[pairs[:, 1]]
        stars = stars + 0.55 * (tastes[pairs[:, 0]] * styles[pairs[:, 1]]).sum(1)
        stars = (stars + 0.3 * torch.randn(count)).clamp(1, 5).round()
        self.train, self.held_out = parted(Split(pairs, stars), 2000)
        self.model = Factors(float(self.train.targets.mean()))

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.mse_loss(outputs, targets)

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        return {"rmse": float(functional.mse_loss(outputs, targets).sqrt())}


NODES, GROUPS, FEATURES = 600, 5, 40


class GraphNetwork(nn.Module):
    """Two layers that average over neighbours."""

    features: Tensor
    links: Tensor

    def __init__(self, features: Tensor, links: Tensor) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(FEATURES, 32), nn.Linear(32, GROUPS)
        self.dropout = nn.Dropout(0.4)
        self.register_buffer("features", features)
        self.register_buffer("links", links)

    def forward(self, nodes: Tensor) -> Tensor:
        hidden = torch.relu(self.links @ self.first(self.dropout(self.features)))
        out: Tensor = self.links[nodes] @ self.second(self.dropout(hidden))
        return out


class Graph(Classification):
    """The group of a node, of which its features say little and its neighbours more."""

    num_classes = GROUPS

    def __init__(self) -> None:
        groups = torch.randint(GROUPS, (NODES,))
        same = groups[:, None] == groups[None, :]
        chance = torch.where(same, 0.03, 0.006)
        links = (torch.rand(NODES, NODES) < chance).triu(1).float()
        links = links + links.T + torch.eye(NODES)
        share = links.sum(1).rsqrt()
        features = 0.35 * torch.randn(GROUPS, FEATURES)[groups] + torch.randn(NODES, FEATURES)
        self.train, self.held_out = parted(Split(torch.arange(NODES), groups), 200)
        self.model = GraphNetwork(features, share[:, None] * links * share[None, :])


KINDS = (
    Kind(
        "word2vec",
        "unseen",
        Word2Vec,
        (OptimizerChoice("adagrad", 0.2), OptimizerChoice("sgd", 20.0, decay="linear")),
        steps=1500,
        batch_size=128,
        log_every=5,
        pace_ms=7.0,
    ),
    Kind(
        "recommender",
        "unseen",
        Recommender,
        (
            OptimizerChoice("adam", 0.02, {"weight_decay": 1e-5}, decay="sqrt"),
            OptimizerChoice("sgd", 4.0),
        ),
        steps=1200,
        batch_size=128,
        warmup=30,
        num_evals=12,
        typed=False,
        pace_ms=7.0,
    ),
    Kind(
        "graph",
        "unseen",
        Graph,
        (
            OptimizerChoice("adam", 1e-3, {"weight_decay": 5e-3}),
            OptimizerChoice("nesterov", 0.02, {"weight_decay": 5e-3}),
        ),
        steps=700,
        batch_size=50,
        num_evals=35,
        config={"num_classes": GROUPS},
    ),
)
