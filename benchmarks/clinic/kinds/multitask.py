"""One trunk with two heads: a class and a value of each row, and the sum of both losses."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.clinic.kinds.tables import parted
from benchmarks.clinic.task import Kind, OptimizerChoice, Split, Task

FEATURES, CLASSES = 24, 6
VALUE_WEIGHT = 0.5


class TwoHeads(nn.Module):
    """A trunk with BatchNorm and dropout; the last column is the value."""

    def __init__(self, width: int = 80) -> None:
        super().__init__()
        self.trunk = nn.Sequential(
            nn.BatchNorm1d(FEATURES),
            nn.Linear(FEATURES, width),
            nn.BatchNorm1d(width),
            nn.ReLU(),
            nn.Dropout(0.1),
            nn.Linear(width, width),
            nn.ReLU(),
        )
        self.label, self.value = nn.Linear(width, CLASSES), nn.Linear(width, 1)

    def forward(self, rows: Tensor) -> Tensor:
        hidden = self.trunk(rows)
        return torch.cat([self.label(hidden), self.value(hidden)], 1)


class MultiTask(Task):
    """Cross entropy and squared error of rows in units of all sizes."""

    num_classes = CLASSES

    def __init__(self) -> None:
        count = 13_000
        hidden = torch.randn(count, FEATURES)
        inner = torch.tanh(hidden @ torch.randn(FEATURES, 16) / 3)
        labels = (inner @ torch.randn(16, CLASSES) + 0.3 * torch.randn(count, CLASSES)).argmax(1)
        values = inner @ torch.randn(16, 1) / 2 + 0.2 * torch.randn(count, 1)
        units = 10 ** (2 * torch.rand(FEATURES) - 0.5)
        rows = units * (hidden + 3 * torch.rand(FEATURES))
        targets = torch.cat([labels.float().unsqueeze(1), values], 1)
        self.train, self.held_out = parted(Split(rows, targets), 1000)
        self.model = TwoHeads()
        self._losses = {"label_loss": 0.0, "value_loss": 0.0}

    def _both(self, outputs: Any, targets: Tensor) -> tuple[Tensor, Tensor]:
        label = functional.cross_entropy(outputs[:, :CLASSES], targets[:, 0].long())
        return label, functional.mse_loss(outputs[:, CLASSES], targets[:, 1])

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        label, value = self._both(outputs, targets)
        if torch.is_grad_enabled():
            self._losses = {
                "label_loss": float(label.detach()),
                "value_loss": float(value.detach()),
            }
        return label + VALUE_WEIGHT * value

    def figures(self) -> dict[str, float]:
        return self._losses

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        label, value = self._both(outputs, targets)
        right = outputs[:, :CLASSES].argmax(1) == targets[:, 0].long()
        return {
            "label_loss": float(label),
            "value_loss": float(value),
            "accuracy": float(right.float().mean()),
        }


KINDS = (
    Kind(
        "multitask",
        "unseen",
        MultiTask,
        (OptimizerChoice("nesterov", 0.03, decay="linear"), OptimizerChoice("nadam", 2e-3)),
        steps=1000,
        batch_size=48,
        precision="bfloat16",
    ),
)
