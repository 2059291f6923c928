"""Rows of numbers: classes of customers, prices, a physical law, and series that go on."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.clinic.task import Classification, Regression, Split


def customers(count: int, classes: int) -> Split:
    """Standardised amounts and two groups as one-hot columns; a noisy rule makes the classes."""
    amounts = torch.randn(count, 10)
    groups = torch.randint(4, (2, count))
    columns = torch.cat([amounts, *functional.one_hot(groups, 4).float()], 1)
    hidden = (columns @ torch.randn(18, 16) / 2 + torch.randn(16)).tanh()
    scores = 1.5 * hidden @ torch.randn(16, classes)
    scores = scores - scores.mean(0) + torch.linspace(0.7, -0.7, classes)  # some are rare
    return Split(columns, (scores + 0.5 * torch.randn_like(scores)).argmax(1))


class Census(Classification):
    name = "census"
    num_classes = 2
    lr = 5e-3
    batch_size = 64
    first_layer = "0"
    config: ClassVar = {"num_classes": 2}

    def __init__(self) -> None:
        self.train, self.held_out = customers(12_000, 2).parts(1000)
        self.model = nn.Sequential(
            *(nn.Linear(18, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 2))
        )


class Churn(Classification):
    """Four classes by a network with BatchNorm and dropout."""

    name = "churn"
    num_classes = 4
    optimizer = "momentum"
    lr = 0.03
    has_modes = True
    first_layer = "1"
    typed = False

    def __init__(self) -> None:
        self.train, self.held_out = customers(10_000, 4).parts(1000)
        self.model = nn.Sequential(
            *(nn.Linear(18, 48), nn.BatchNorm1d(48), nn.ReLU(), nn.Dropout(0.2)),
            *(nn.Linear(48, 48), nn.BatchNorm1d(48), nn.ReLU(), nn.Linear(48, 4)),
        )


class Housing(Regression):
    """Prices that depend on where a house is and on its size."""

    name = "housing"
    optimizer = "momentum"
    lr = 0.05
    cosine = True
    first_layer = "0"

    def __init__(self) -> None:
        count = 9000
        place, facts = torch.randn(count, 2), torch.randn(count, 6)
        towns = torch.randn(5, 2)
        near = (-(place[:, None] - towns).square().sum(2)).exp() @ (1 + torch.rand(5))
        price = (
            near + 0.6 * facts[:, 0] + 0.4 * facts[:, 1] * (near > 0.7) + 0.2 * facts[:, 2].abs()
        )
        price = (price - price.mean()) / price.std() + 0.2 * torch.randn(count)
        split = Split(torch.cat([facts, place], 1), price[:, None])
        self.train, self.held_out = split.parts(800)
        self.model = nn.Sequential(
            *(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1))
        )


class Friedman(Regression):
    """Friedman's function of ten columns, five of which matter, by plain SGD."""

    name = "friedman"
    optimizer = "sgd"
    lr = 0.15
    steps = 600
    typed = False

    def __init__(self) -> None:
        x = torch.rand(8000, 10)
        y = 10 * (torch.pi * x[:, 0] * x[:, 1]).sin() + 20 * (x[:, 2] - 0.5).square()
        y = y + 10 * x[:, 3] + 5 * x[:, 4] + torch.randn(8000)
        split = Split((x - 0.5) / 0.29, ((y - y.mean()) / y.std())[:, None])
        self.train, self.held_out = split.parts(800)
        self.model = nn.Sequential(nn.Linear(10, 64), nn.Tanh(), nn.Linear(64, 1))


class Forecaster(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cells = nn.GRU(1, 32, batch_first=True)
        self.head = nn.Linear(32, 4)

    def forward(self, series: Tensor) -> Tensor:
        _, last = self.cells(series.unsqueeze(2))
        out: Tensor = self.head(last[0])
        return out


class Forecast(Regression):
    """The next four values of noisy series with two periods."""

    name = "forecast"
    optimizer = "adam"
    lr = 1e-2
    clip = 1.0

    def __init__(self) -> None:
        count, length = 6000, 28
        t = torch.arange(length).float()
        waves = torch.zeros(count, length)
        for low, high in ((4.0, 6.0), (9.0, 14.0)):
            period = low + (high - low) * torch.rand(count, 1)
            phase = 2 * torch.pi * torch.rand(count, 1)
            waves += (0.5 + torch.rand(count, 1)) * (2 * torch.pi * t / period + phase).sin()
        waves += 0.1 * torch.randn_like(waves)
        self.train, self.held_out = Split(waves[:, :24], waves[:, 24:]).parts(600)
        self.model = Forecaster()


TASKS = (Census, Churn, Housing, Friedman, Forecast)
