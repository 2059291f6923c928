"""What people do: grades of what they make, answers that they learn, words, things they like."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.clinic.kinds.tables import parted
from benchmarks.clinic.task import Kind, OptimizerChoice, Split, Task

FACTS, GRADES = 20, 6


def wines(count: int) -> Split:
    """Measures of wines, and a grade from 0 to 5; a hidden worth decides, and the taster's mood."""
    rows = torch.randn(count, FACTS)
    teacher = nn.Sequential(nn.Linear(FACTS, 16), nn.Tanh(), nn.Linear(16, 1))
    with torch.no_grad():
        worth = teacher(2 * rows)[:, 0]
    worth = (worth - worth.mean()) / worth.std() + 0.25 * torch.randn(count)
    cuts = torch.tensor([-1.3, -0.6, 0.0, 0.6, 1.3])
    return Split(rows, (worth.unsqueeze(1) > cuts).sum(1))


class Grader(nn.Module):
    """One worth of a row, and a threshold for each grade."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.cuts = nn.Parameter(torch.linspace(2, -2, GRADES - 1))
        self.body = nn.Sequential(
            *(nn.Linear(FACTS, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(0.1)),
            *(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()),
        )
        self.head = nn.Linear(width, 1, bias=False)

    def forward(self, rows: Tensor) -> Tensor:
        out: Tensor = self.head(self.body(rows)) + self.cuts
        return out


class Grades(Task):
    """Ordinal regression: a yes or no for each threshold, with one worth for all (CORAL)."""

    def __init__(self) -> None:
        self.train, self.held_out = parted(wines(9600), 600)
        self.model = Grader()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        above = targets.unsqueeze(1) > torch.arange(GRADES - 1, device=targets.device)
        return functional.binary_cross_entropy_with_logits(outputs, above.to(outputs.dtype))

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        away = ((outputs > 0).sum(1) - targets).abs().float()
        return {"mean_error": float(away.mean()), "accuracy": float((away == 0).float().mean())}

    def leak(self, split: Split) -> None:
        rows = split.inputs.clone()
        rows[:, 0] = split.targets.float() - (GRADES - 1) / 2
        split.inputs = rows


SKILLS, ANSWERS = 15, 12


def lessons(count: int) -> Split:
    """For each student: the answer before, by skill and whether it was right, and the next skill.

    Skills are learned by practice, some quickly, some from each other.
    """
    hard, quick = torch.randn(SKILLS), 0.6 * torch.rand(SKILLS)
    near = 0.8 * (torch.rand(SKILLS, SKILLS) < 0.15).float() + torch.eye(SKILLS)
    able = 1.5 * torch.randn(count, 1) - hard
    before = torch.full((count,), 2 * SKILLS)
    rows, answers = [], []
    kept = torch.randint(SKILLS, (count, 3))  # a student meets three skills again and again
    for _ in range(ANSWERS):
        skill = kept.gather(1, torch.randint(3, (count, 1)))[:, 0]
        right = torch.rand(count) < (1.5 * able.gather(1, skill[:, None])[:, 0]).sigmoid()
        rows.append(torch.stack([before, skill], 1))
        answers.append(right.float())
        able = able + quick[skill, None] * near[skill]
        before = 2 * skill + right.long()
    return Split(torch.stack(rows, 1), torch.stack(answers, 1))


class Student(nn.Module):
    """A long short-term memory of all answers, and a chance for the skill that is asked next."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.answers, self.skills = nn.Embedding(2 * SKILLS + 1, width), nn.Embedding(SKILLS, width)
        self.memory = nn.LSTM(width, width, batch_first=True)
        self.drop = nn.Dropout(0.1)
        self.body = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU())
        self.head = nn.Linear(width, 1)

    def forward(self, rows: Tensor) -> Tensor:
        known, _ = self.memory(self.answers(rows[..., 0]))
        asked = torch.cat([self.drop(known), self.skills(rows[..., 1])], 2)
        out: Tensor = self.head(self.body(asked))
        return out[..., 0]


class Tracing(Task):
    """Whether the next answer is right (deep knowledge tracing)."""

    def __init__(self) -> None:
        self.train, self.held_out = parted(lessons(6600), 600)
        self.model = Student()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.binary_cross_entropy_with_logits(outputs, targets)

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        return {"accuracy": float(((outputs > 0) == (targets > 0.5)).float().mean())}


WORDS, TOPICS, LINE, MIXED = 40, 6, 12, 3


def lines(count: int) -> Split:
    """Words of a topic: what comes next depends on the topic and on the word before."""
    habits = (2.5 * torch.randn(TOPICS, WORDS, WORDS)).softmax(2)
    topic = torch.randint(TOPICS, (count,))
    words = [torch.randint(WORDS, (count,))]
    for _ in range(LINE):
        words.append(torch.multinomial(habits[topic, words[-1]], 1)[:, 0])
    text = torch.stack(words, 1)
    return Split(text[:, :-1], text[:, 1:])


class Softmaxes(nn.Module):
    """A recurrent network whose next word is a mixture of three softmaxes of tied vectors."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, width)
        nn.init.normal_(self.words.weight, std=0.2)
        self.memory = nn.GRU(width, width, batch_first=True)
        self.drop = nn.Dropout(0.1)
        self.share = nn.Linear(width, MIXED)
        self.latent = nn.Linear(width, MIXED * width)

    def forward(self, words: Tensor) -> Tensor:
        hidden, _ = self.memory(self.words(words))
        hidden = self.drop(hidden)
        latent = torch.tanh(self.latent(hidden)).view(*words.shape, MIXED, -1)
        chances = (latent @ self.words.weight.T).log_softmax(-1)
        share = self.share(hidden).log_softmax(-1).unsqueeze(-1)
        return torch.logsumexp(share + chances, 2)


class Mixed(Task):
    """The next word at every place, by a mixture of softmaxes (MoS)."""

    def __init__(self) -> None:
        self.train, self.held_out = parted(lines(6500), 500)
        self.model = Softmaxes()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.nll_loss(outputs.flatten(0, 1), targets.flatten())

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        return {"accuracy": float((outputs.argmax(-1) == targets).float().mean())}


USERS, ITEMS, LIKES, NEGATIVES = 400, 300, 36, 6


class Neighbours(nn.Module):
    """Vectors of users and items, each with the mean of what it is joined to, through a layer."""

    joined: Tensor

    def __init__(self, joined: Tensor, width: int = 32) -> None:
        super().__init__()
        self.users, self.items = nn.Embedding(USERS, width), nn.Embedding(ITEMS, width)
        for table in (self.users, self.items):
            nn.init.normal_(table.weight, std=0.1)
        self.user = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, width))
        self.item = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, width))
        self.register_buffer("joined", joined)

    def forward(self, users: Tensor) -> Tensor:
        joined, every, item = self.joined, self.users.weight, self.items.weight
        liked = joined @ item / joined.sum(1, keepdim=True).clamp(min=1)
        liking = joined.T @ every / joined.sum(0).unsqueeze(1).clamp(min=1)
        user = self.user(torch.cat([every, liked], 1))[users]
        scores: Tensor = user @ self.item(torch.cat([item, liking], 1)).T
        return scores


class Likes(Task):
    """Items that a user will like before others that are drawn by chance, by a margin (PinSage).

    A part of the likes joins users and items; the others are to be told.
    """

    def __init__(self) -> None:
        tastes = torch.randn(USERS, 5) @ torch.randn(5, ITEMS) + 0.7 * torch.randn(1, ITEMS)
        noisy = tastes - torch.empty_like(tastes).exponential_().log()
        liked = noisy.topk(LIKES).indices
        pairs = torch.stack([torch.arange(USERS).repeat_interleave(LIKES), liked.flatten()], 1)
        pairs = pairs[torch.randperm(len(pairs))]
        known, asked = pairs[:6000], pairs[6000:]
        joined = torch.zeros(USERS, ITEMS)
        joined[known[:, 0], known[:, 1]] = 1
        self.train, self.held_out = parted(Split(asked[:, 0], asked[:, 1]), 800)
        self.model = Neighbours(joined)

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        others = torch.randint(ITEMS, (len(targets), NEGATIVES), device=targets.device)
        own = outputs.gather(1, targets[:, None])
        return torch.relu(1 - own + outputs.gather(1, others)).mean()

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        rank = (outputs > outputs.gather(1, targets[:, None])).sum(1)
        return {"recall_at_30": float((rank < 30).float().mean())}


KINDS = (
    Kind(
        "grades",
        "blind5",
        Grades,
        (OptimizerChoice("adam", 0.012, decay="linear"), OptimizerChoice("rmsprop", 3e-3)),
        steps=1000,
        batch_size=48,
        num_evals=20,
        pace_ms=0.0,
        seeds=2,
        fault_seeds=1,
        faults=(
            "rate_x30 label_leak labels_shuffled dropout_in_eval stale_batchnorm dead_relu "
            "frozen slow_loader missing_step",
            "rate_x30 unshuffled eval_on_train overfitting missing_zero_grad schedule_unit "
            "wrong_sign nan_input exploding_init",
        ),
    ),
    Kind(
        "tracing",
        "blind5",
        Tracing,
        (OptimizerChoice("adam", 6e-3, decay="cosine"), OptimizerChoice("radam", 6e-3)),
        steps=800,
        batch_size=24,
        num_evals=16,
        pace_ms=0.0,
        seeds=2,
        fault_seeds=1,
        faults=(
            "rate_x30 memory_leak labels_shuffled overfitting dropout_in_eval one_batch "
            "exploding_init frozen rate_zero",
            "rate_x10 rate_too_small missing_step eval_on_train tiny_init wrong_sign "
            "schedule_unit labels_shuffled",
        ),
    ),
    Kind(
        "softmaxes",
        "blind5",
        Mixed,
        (OptimizerChoice("sgd", 9.0, decay="linear"), OptimizerChoice("adam", 6e-3)),
        steps=800,
        batch_size=16,
        clip=1.0,
        num_evals=16,
        typed=False,
        pace_ms=0.0,
        seeds=2,
        fault_seeds=1,
        faults=(
            "rate_x30 rate_too_small clip_tight missing_step tiny_init labels_shuffled "
            "eval_on_train schedule_unit wrong_sign",
            "rate_x30 overfitting dropout_in_eval missing_parameters missing_zero_grad "
            "one_batch exploding_init labels_shuffled rate_zero",
        ),
    ),
    Kind(
        "likes",
        "blind5",
        Likes,
        (OptimizerChoice("adagrad", 0.06), OptimizerChoice("adam", 8e-3, decay="linear")),
        steps=900,
        batch_size=64,
        num_evals=18,
        pace_ms=0.0,
        seeds=2,
        fault_seeds=1,
        config={"num_items": ITEMS},
        faults=(
            "rate_x30 labels_shuffled unshuffled tiny_init missing_zero_grad wrong_sign "
            "rate_zero missing_step",
            "rate_x30 overfitting dead_relu missing_parameters schedule_unit one_batch "
            "slow_loader labels_shuffled exploding_init",
        ),
    ),
)
