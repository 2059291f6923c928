"""Choices of users: whether they click, and which offer pays when nobody knows beforehand."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.clinic.kinds.play import Play
from benchmarks.clinic.kinds.tables import parted
from benchmarks.clinic.task import Batch, Kind, OptimizerChoice, Split, Task

SIZES = (7, 12, 30, 60)  # of the categories; 0 is one that is not known
NUMBERS, MISSING = 8, 0.2


def visits(count: int) -> Split:
    """Categories, then numbers with 0 where one is missing, then which are missing."""
    codes = torch.stack([torch.randint(1, size, (count,)) for size in SIZES], 1)
    numbers = torch.randn(count, NUMBERS)
    numbers[:, ::2] = (0.7 * numbers[:, ::2]).exp()
    worth = sum(0.6 * torch.randn(size)[codes[:, at]] for at, size in enumerate(SIZES))
    inner = torch.tanh(numbers @ torch.randn(NUMBERS, 6) / 2) @ torch.randn(6)
    pairs = torch.randn(SIZES[0], SIZES[1])[codes[:, 0], codes[:, 1]]
    clicks = (torch.rand(count) < (worth + 0.8 * inner + 0.7 * pairs - 2.2).sigmoid()).float()
    unknown = torch.rand(count, len(SIZES)) < MISSING / 2
    missing = torch.rand(count, NUMBERS) < MISSING
    columns = [codes.masked_fill(unknown, 0), numbers.masked_fill(missing, 0), missing]
    return Split(torch.cat([column.float() for column in columns], 1), clicks)


class ClickNet(nn.Module):
    """A vector of each category beside the numbers, through two residual layers."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.categories = nn.ModuleList(nn.Embedding(size, 6) for size in SIZES)
        self.first = nn.Linear(6 * len(SIZES) + 2 * NUMBERS, width)
        self.layers = nn.ModuleList(
            nn.Sequential(
                nn.LayerNorm(width),
                nn.Linear(width, width),
                nn.ReLU(),
                nn.Dropout(0.1),
                nn.Linear(width, width),
            )
            for _ in range(2)
        )
        self.head = nn.Linear(width, 1)

    def forward(self, rows: Tensor) -> Tensor:
        codes = rows[:, : len(SIZES)].nan_to_num().long()
        known = [part(codes[:, at]) for at, part in enumerate(self.categories)]
        hidden = self.first(torch.cat([*known, rows[:, len(SIZES) :]], 1))
        for part in self.layers:
            hidden = hidden + part(hidden)
        out: Tensor = self.head(torch.relu(hidden))
        return out[:, 0]


class Clicks(Task):
    """Few visitors click; the measure is how well clicks are ranked above the others."""

    def __init__(self) -> None:
        self.train, self.held_out = parted(visits(42_000), 2000)
        self.model = ClickNet()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.binary_cross_entropy_with_logits(outputs, targets)

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        clicked, others = outputs[targets > 0.5], outputs[targets < 0.5]
        above = (clicked[:, None] > others[None, :]).float()
        return {"auc": float(above.mean()) if above.numel() else 0.5}

    def leak(self, split: Split) -> None:
        inputs = split.inputs.clone()
        inputs[:, len(SIZES)] = 3 * split.targets
        split.inputs = inputs


FACTS, OFFERS = 10, 6


class Bandit(Play):
    """One offer for each visitor and what it pays; a network has the chances and the worth."""

    def __init__(self) -> None:
        super().__init__(OFFERS + 1)
        self.model = nn.Sequential(
            nn.Linear(FACTS, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, OFFERS + 1)
        )
        self._tastes = torch.randn(FACTS, 12) / 2
        self._pay = torch.randn(12, OFFERS)

    def _visitors(self, count: int) -> tuple[Tensor, Tensor]:
        """What is known of visitors, and what each offer would pay."""
        facts = torch.randn(count, FACTS, device=self.device)
        return facts, torch.tanh(facts @ self._tastes) @ self._pay / 2

    def experience(self, count: int) -> Batch:
        facts, pay = self._visitors(count)
        with torch.no_grad():
            chances = self.model(facts)[:, :OFFERS].softmax(1).nan_to_num(1 / OFFERS)
            offers = torch.multinomial(chances, 1)
        paid = pay.gather(1, offers) + 0.5 * torch.randn(count, 1, device=self.device)
        self.returned = float(paid.mean())
        return facts, torch.cat([offers.float(), self.reward_scale * paid], 1)

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        offers, paid = targets.unbind(1)
        chances = outputs[:, :OFFERS].log_softmax(1)
        taken = chances.gather(1, offers.long()[:, None]).squeeze(1)
        worth = outputs[:, OFFERS]
        gain = (taken * (paid - worth).detach()).mean()
        entropy = -(chances.exp() * chances).sum(1).mean()
        loss: Tensor = functional.mse_loss(worth, paid) - gain - 0.01 * entropy
        return loss

    def evaluate(self, split: Split) -> dict[str, float]:
        with torch.no_grad():
            facts, pay = self._visitors(1024)
            best = self.model(facts)[:, :OFFERS].argmax(1, keepdim=True)
            regret = pay.max(1).values - pay.gather(1, best)[:, 0]
        return {"regret": float(regret.mean())}

    def result(self) -> float:
        return self.evaluate(self.held_out)["regret"]


KINDS = (
    Kind(
        "clicks",
        "unseen",
        Clicks,
        (
            OptimizerChoice("adamw", 1e-3, {"weight_decay": 0.01}, decay="cosine"),
            OptimizerChoice("momentum", 0.03),
        ),
        steps=1500,
        batch_size=96,
        log_every=5,
        pace_ms=8.0,
        faults=(
            "labels_shuffled label_leak overfitting rate_x30 eval_on_train nan_input one_batch",
            "rate_too_small exploding_init wrong_reduction unshuffled missing_zero_grad "
            "wrong_sign clip_tight",
        ),
    ),
    Kind(
        "bandit",
        "unseen",
        Bandit,
        (OptimizerChoice("adam", 2e-3), OptimizerChoice("rmsprop", 7e-4, decay="linear")),
        steps=1800,
        batch_size=96,
        typed=False,
        pace_ms=7.0,
        faults=(
            "exploding_returns rate_x30 wrong_sign missing_step frozen rate_zero exploding_init",
            "rate_x30 schedule_unit rate_too_small tiny_init dead_relu",
        ),
    ),
)
