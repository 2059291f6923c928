"""Written things: texts with many tags, dates in one form, facts between names."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.clinic.kinds.tables import parted
from benchmarks.clinic.task import Kind, OptimizerChoice, Split, Task

WORDS, TAGS, TEXT = 800, 40, 24


def texts(count: int) -> Split:
    """Texts of a few tags each, rare and frequent ones; words hint at tags, or at nothing."""
    hints = (2.5 * torch.randn(TAGS, WORDS)).softmax(1)
    common = 1 / torch.arange(1.0, TAGS + 1)
    tags = torch.multinomial(common.expand(count, -1), 3)
    number = torch.randint(1, 4, (count, 1))
    own = torch.randint(3, (count, TEXT)) % number
    ready = torch.multinomial(hints, 20_000, replacement=True)
    spoken = ready[tags.gather(1, own), torch.randint(20_000, (count, TEXT))]
    noise = torch.randint(WORDS, (count, TEXT))
    words = torch.where(torch.rand(count, TEXT) < 0.6, spoken, noise)
    held = torch.zeros(count, TAGS).scatter_(1, tags, (torch.arange(3) < number).float())
    return Split(words, held)


class Tagger(nn.Module):
    """The mean vector of the words, a layer, and a yes or no for each tag."""

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.words = nn.EmbeddingBag(WORDS, width, mode="mean")
        self.body = nn.Sequential(nn.Linear(width, 96), nn.ReLU(), nn.Dropout(0.2))
        self.head = nn.Linear(96, TAGS)

    def forward(self, words: Tensor) -> Tensor:
        out: Tensor = self.head(self.body(self.words(words)))
        return out


class Tags(Task):
    """All tags of a text, most of which it has not."""

    def __init__(self) -> None:
        self.train, self.held_out = parted(texts(12_800), 800)
        self.model = Tagger()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.binary_cross_entropy_with_logits(outputs, targets)

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        found, true = outputs > 0, targets > 0.5
        both = (found & true).sum()
        return {"micro_f1": float(2 * both / (found.sum() + true.sum()).clamp(min=1))}


SIGNS = " 0123456789/-,.abcdefghijklmnopqrstuvwxyz"
LONGEST, FORM = 18, 10
MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)


def dates(count: int) -> Split:
    """A date as somebody writes it and what was said so far; the target is year-month-day."""
    written, wanted = [], []
    for number in torch.randperm(100 * 12 * 28 * 5)[:count].tolist():  # none comes twice
        form, day, month = number % 5, 1 + number // 5 % 28, 1 + number // 140 % 12
        year, name = 1950 + number // 1680, MONTHS[month - 1]
        text = (
            f"{day} {name[:3]} {year}",
            f"{name} {day}, {year}",
            f"{day}.{month}.{year}",
            f"{month:02}/{day:02}/{year}",
            f"{day:02} {name} {year}",
        )[form]
        written.append([SIGNS.index(sign) for sign in text[:LONGEST].ljust(LONGEST)])
        wanted.append([SIGNS.index(sign) for sign in f"{year}-{month:02}-{day:02}"])
    source, target = torch.tensor(written), torch.tensor(wanted)
    return Split(torch.cat([source, functional.pad(target[:, :-1], (1, 0))], 1), target)


class Attention(nn.Module):
    """Attention to the same row or to another one, its norm before it."""

    def __init__(self, width: int, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.query, self.both = nn.Linear(width, width), nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, other: Tensor | None = None, *, causal: bool = False) -> Tensor:
        normed = self.norm(x)
        query = self.query(normed).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        both = self.both(normed if other is None else other).unflatten(-1, (2, self.heads, -1))
        key, value = both.permute(2, 0, 3, 1, 4)
        found = functional.scaled_dot_product_attention(query, key, value, is_causal=causal)
        out: Tensor = x + self.out(found.transpose(1, 2).flatten(2))
        return out


class Feed(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.GELU()),
            nn.Linear(3 * width, width),
        )

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.layers(x)
        return out


class Translator(nn.Module):
    """An encoder of what was written and a decoder that attends to it."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.signs = nn.Embedding(len(SIGNS), width)
        self.places = nn.Parameter(0.1 * torch.randn(LONGEST + FORM, width))
        self.encoder = nn.Sequential(Attention(width), Feed(width), nn.LayerNorm(width))
        self.own, self.cross, self.feed = Attention(width), Attention(width), Feed(width)
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, len(SIGNS)))

    def forward(self, signs: Tensor) -> Tensor:
        hidden = self.signs(signs) + self.places
        written, said = hidden[:, :LONGEST], hidden[:, LONGEST:]
        said = self.cross(self.own(said, causal=True), self.encoder(written))
        out: Tensor = self.head(self.feed(said))
        return out


class Dates(Task):
    """The next sign of the date, with smoothed labels."""

    def __init__(self) -> None:
        self.train, self.held_out = parted(dates(12_600), 600)
        self.model = Translator()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.cross_entropy(
            outputs.flatten(0, 1), targets.flatten(), label_smoothing=0.05
        )

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        right = outputs.argmax(-1) == targets
        return {
            "accuracy": float(right.float().mean()),
            "exact": float(right.all(1).float().mean()),
        }


NAMES, VERBS, NEAR, DEPTH = 300, 10, 8, 32


def facts(count: int) -> Split:
    """Who stands in which relation to whom: each relation turns hidden vectors in its way."""
    hidden = functional.normalize(torch.randn(NAMES, 6), dim=1)
    turns = torch.linalg.qr(torch.randn(VERBS, 6, 6)).Q
    near = (torch.einsum("nd,vde->nve", hidden, turns) @ hidden.T).topk(NEAR).indices
    chosen = torch.randperm(NAMES * VERBS * NEAR)[:count]  # none comes twice
    names, verbs = chosen // (VERBS * NEAR), chosen // NEAR % VERBS
    return Split(torch.stack([names, verbs], 1), near.flatten()[chosen])


class Complex(nn.Module):
    """A complex vector for each name and relation; a fact is the real part of their product."""

    def __init__(self) -> None:
        super().__init__()
        self.names, self.verbs = nn.Embedding(NAMES, 2 * DEPTH), nn.Embedding(VERBS, 2 * DEPTH)
        nn.init.normal_(self.names.weight, std=0.1)
        nn.init.normal_(self.verbs.weight, std=0.1)

    def forward(self, facts: Tensor) -> Tensor:
        real, imaginary = self.names(facts[:, 0]).chunk(2, 1)
        turn, lift = self.verbs(facts[:, 1]).chunk(2, 1)
        product = torch.cat([real * turn - imaginary * lift, real * lift + imaginary * turn], 1)
        scores: Tensor = product @ self.names.weight.T
        return scores


class Knowledge(Task):
    """The other name of a fact among all names."""

    def __init__(self) -> None:
        self.train, self.held_out = parted(facts(22_600), 600)
        self.model = Complex()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.cross_entropy(outputs, targets)

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        rank = (outputs > outputs.gather(1, targets[:, None])).sum(1) + 1
        return {"mrr": float((1 / rank).mean()), "hits_at_10": float((rank <= 10).float().mean())}


KINDS = (
    Kind(
        "tags",
        "blind4",
        Tags,
        (OptimizerChoice("adam", 0.012, decay="linear"), OptimizerChoice("adagrad", 0.15)),
        steps=1200,
        batch_size=64,
        num_evals=12,
        seeds=4,
        faults=(
            "labels_shuffled dropout_in_eval overfitting eval_on_train rate_x30",
            "rate_too_small frozen schedule_unit missing_step wrong_sign",
        ),
    ),
    Kind(
        "dates",
        "blind4",
        Dates,
        (
            OptimizerChoice("adamw", 9e-3, {"weight_decay": 0.01}, decay="cosine"),
            OptimizerChoice("lion", 4.5e-3, {"weight_decay": 0.1}, decay="linear"),
        ),
        steps=900,
        batch_size=32,
        warmup=60,
        clip=1.0,
        num_evals=18,
        faults=(
            "no_warmup rate_x30 labels_shuffled double_softmax missing_zero_grad one_batch "
            "memory_leak",
            "rate_x10 no_warmup schedule_unit missing_parameters rate_zero wrong_sign",
        ),
        seeds=4,
    ),
    Kind(
        "knowledge",
        "blind4",
        Knowledge,
        (OptimizerChoice("adagrad", 0.6), OptimizerChoice("adam", 0.09, decay="linear")),
        steps=1200,
        batch_size=96,
        warmup=120,
        typed=False,
        seeds=4,
        config={"num_entities": NAMES},
        faults=(
            "rate_x30 labels_shuffled unshuffled overfitting wrong_sign tiny_init",
            "rate_too_small rate_x30 schedule_unit one_batch exploding_init double_softmax",
        ),
    ),
)
