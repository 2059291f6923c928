"""Labels that are more than a class: a teacher's opinion, likeness, a preference between two."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.clinic.kinds.tables import parted
from benchmarks.clinic.task import Classification, Kind, OptimizerChoice, Split, Task

FEATURES, CLASSES, MODES = 20, 8, 3
HEAT, SOFT_SHARE = 3.0, 0.7


class Teacher(nn.Module):
    """Knows the centres of all clusters, and gives the true chances of each class."""

    centres: Tensor

    def __init__(self, centres: Tensor) -> None:
        super().__init__()
        self.register_buffer("centres", centres)

    def forward(self, rows: Tensor) -> Tensor:
        near = -0.5 * torch.cdist(rows, self.centres) ** 2
        return near.view(len(rows), CLASSES, MODES).logsumexp(-1)


class Distillation(Classification):
    """A small student learns from wrong labels and from a teacher that is never wrong."""

    num_classes = CLASSES

    def __init__(self) -> None:
        count = 9000
        centres = 1.1 * torch.randn(CLASSES * MODES, FEATURES)
        cluster = torch.randint(CLASSES * MODES, (count,))
        rows = centres[cluster] + torch.randn(count, FEATURES)
        wrong = torch.rand(count) < 0.1
        labels = torch.where(wrong, torch.randint(CLASSES, (count,)), cluster // MODES)
        self.train, self.held_out = parted(Split(rows, labels), 1000)
        self.teacher = Teacher(centres)
        self.model = nn.Sequential(
            nn.Linear(FEATURES, 40),
            nn.BatchNorm1d(40),
            nn.ReLU(),
            nn.Linear(40, 40),
            nn.ReLU(),
            nn.Dropout(0.05),
            nn.Linear(40, CLASSES),
        )
        self._taught = torch.zeros(0)

    def outputs(self, inputs: Tensor) -> Any:
        with torch.no_grad():
            self._taught = (self.teacher(inputs) / HEAT).softmax(1)
        return self.model(inputs)

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        guess = (outputs / HEAT).log_softmax(1)
        soft = functional.kl_div(guess, self._taught, reduction="batchmean")
        hard = functional.cross_entropy(outputs, targets)
        return SOFT_SHARE * HEAT**2 * soft + (1 - SOFT_SHARE) * hard


SIDE, PERSONS, GROUP = 12, 24, 48


def faces(count: int) -> Split:
    """Smooth pictures of persons, each in another light, moved and under noise."""
    coarse = torch.randn(PERSONS, 1, 5, 5)
    base = functional.interpolate(coarse, (SIDE + 2, SIDE + 2), mode="bicubic")
    labels = torch.randint(PERSONS, (count,))
    rows, columns = torch.randint(3, (2, count))
    places = torch.arange(SIDE)
    whole = base[labels, 0]
    row = (rows[:, None] + places)[:, :, None]
    column = (columns[:, None] + places)[:, None, :]
    moved = whole[torch.arange(count)[:, None, None], row, column].unsqueeze(1)
    light = 0.6 + 0.8 * torch.rand(count, 1, 1, 1)
    return Split(light * moved + 0.9 * torch.randn(count, 1, SIDE, SIDE), labels)


class FaceNet(nn.Module):
    """A convolution network with GroupNorm, and a vector of length one at its end."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.GroupNorm(4, 16),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.GroupNorm(4, 32),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
        )
        self.head = nn.Linear(32 * 9, width)

    def forward(self, pictures: Tensor) -> Tensor:
        return functional.normalize(self.head(self.body(pictures)), dim=1)


class Triplets(Task):
    """Each picture is nearer to its own person than to others, over all triplets of a batch."""

    def __init__(self) -> None:
        self.train, self.held_out = parted(faces(6480), 480)
        self.model = FaceNet()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        parts = zip(torch.split(outputs, GROUP), torch.split(targets, GROUP), strict=True)
        return torch.stack([_triplets(vectors, labels) for vectors, labels in parts]).mean()

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        apart = torch.cdist(outputs, outputs).fill_diagonal_(torch.inf)
        return {"recall_at_1": float((targets[apart.argmin(1)] == targets).float().mean())}


def _triplets(vectors: Tensor, labels: Tensor) -> Tensor:
    apart = 2 - 2 * vectors @ vectors.T
    same = labels[:, None] == labels[None, :]
    own = same & ~torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    counts = own.unsqueeze(2) & ~same.unsqueeze(1)  # anchor, positive, negative
    cost = functional.relu(apart.unsqueeze(2) - apart.unsqueeze(1) + 0.4)
    return (cost * counts).sum() / counts.sum().clamp(min=1)


WORDS, LENGTH = 50, 12


def replies(count: int) -> Split:
    """Two replies each, and which of them is preferred: words have worth, repeating costs."""
    worth = torch.randn(WORDS)
    words = torch.randint(WORDS, (count, 2, LENGTH))
    repeated = (words[..., 1:] == words[..., :-1]).float().sum(-1)
    pairs = torch.randn(6, 6)[words[..., :-1] % 6, words[..., 1:] % 6].sum(-1)
    score = worth[words].sum(-1) + 0.7 * pairs - 2 * repeated
    better = score[:, 0] - score[:, 1] + 1.5 * torch.randn(count)
    return Split(words.flatten(1), (better > 0).float())


class RewardModel(nn.Module):
    """A score of a reply: words, their neighbours, attention that pools them."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, width)
        self.near = nn.Conv1d(width, width, 3, padding=1)
        self.norm = nn.LayerNorm(width)
        self.pool = nn.Linear(width, 1)
        self.dropout = nn.Dropout(0.1)
        self.head = nn.Linear(width, 1)

    def forward(self, words: Tensor) -> Tensor:
        hidden = self.words(words)
        hidden = self.norm(hidden + torch.relu(self.near(hidden.transpose(1, 2))).transpose(1, 2))
        shares = self.pool(hidden).softmax(1)
        score: Tensor = self.head(self.dropout((shares * hidden).sum(1)))
        return score[:, 0]


class Preferences(Task):
    """The better of two replies, by the difference of their scores."""

    def __init__(self) -> None:
        self.train, self.held_out = parted(replies(13_000), 1000)
        self.model = RewardModel()

    def outputs(self, inputs: Tensor) -> Any:
        first, second = self.model(inputs.view(-1, LENGTH)).view(-1, 2).unbind(1)
        return first - second

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.binary_cross_entropy_with_logits(outputs, targets)

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        return {"accuracy": float(((outputs > 0) == (targets > 0.5)).float().mean())}


KINDS = (
    Kind(
        "distill",
        "unseen",
        Distillation,
        (
            OptimizerChoice("momentum", 0.05, {"weight_decay": 1e-4}, decay="cosine"),
            OptimizerChoice("adamw", 3e-3),
        ),
        steps=1000,
        batch_size=64,
        config={"num_classes": CLASSES},
        faults=(
            "rate_x30 rate_x10 exploding_init dead_relu stale_batchnorm wrong_sign accumulation "
            "fp16_overflow unshuffled",
            "labels_shuffled label_leak dropout_in_eval missing_step",
        ),
    ),
    Kind(
        "triplet",
        "unseen",
        Triplets,
        (
            OptimizerChoice("adamw", 1e-3, decay="linear"),
            OptimizerChoice("lion", 2e-4, {"weight_decay": 0.1}),
        ),
        steps=800,
        batch_size=GROUP,
        num_evals=16,
        faults=(
            "labels_shuffled one_batch overfitting rate_zero frozen rate_x30 tiny_init",
            "rate_x30 rate_too_small nan_input wrong_sign eval_on_train",
        ),
    ),
    Kind(
        "preferences",
        "unseen",
        Preferences,
        (
            OptimizerChoice("adamw", 2e-3, {"weight_decay": 0.05}, decay="cosine"),
            OptimizerChoice("adafactor", 0.02),
        ),
        steps=900,
        batch_size=64,
        warmup=40,
        clip=1.0,
        typed=False,
        faults=(
            "labels_shuffled overfitting schedule_unit missing_parameters rate_x30 "
            "missing_zero_grad eval_on_train",
            "rate_x30 rate_zero missing_step wrong_sign one_batch",
        ),
    ),
)
