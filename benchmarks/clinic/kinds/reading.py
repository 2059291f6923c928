"""Text: passages that answer a question, a language model on two ranks, tags by routed experts."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.clinic.kinds.experts import Experts, balance_of
from benchmarks.clinic.kinds.tables import parted
from benchmarks.clinic.kinds.writing import Attention, Feed
from benchmarks.clinic.task import Kind, OptimizerChoice, Split, Task

THEMES, WORDS, ASKED, TOLD, ROUND = 24, 240, 5, 10, 24


def drawn(chances: Tensor, rows: Tensor) -> Tensor:
    """One draw for each place by the chances of its row, from a large store of draws."""
    store = torch.multinomial(chances, 512, replacement=True)
    return store[rows, torch.randint(512, rows.shape)]


def questions(count: int) -> Split:
    """A question, its passage, and one that shares two of three themes; each in its own words."""
    themes = torch.rand(count, THEMES).topk(4, 1).indices
    half = WORDS // 2
    asks = (3 * torch.randn(THEMES, half)).softmax(1)
    tells = (3 * torch.randn(THEMES, half)).softmax(1)

    def draw(of: Tensor, chances: Tensor, length: int) -> Tensor:
        return drawn(chances, of[:, torch.arange(length) % 3])

    question = draw(themes[:, :3], asks, ASKED)
    passage = half + draw(themes[:, :3], tells, TOLD)
    other = half + draw(themes[:, 1:], tells, TOLD)
    return Split(torch.cat([question, passage, other], 1), themes[:, 0])


class Retriever(nn.Module):
    """The mean of word vectors through a layer, one for questions and one for passages."""

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, width)
        nn.init.normal_(self.words.weight, std=0.3)
        self.drop = nn.Dropout(0.1)
        self.asks = nn.Sequential(nn.Linear(width, 64), nn.ReLU(), nn.Linear(64, width))
        self.tells = nn.Sequential(nn.Linear(width, 64), nn.ReLU(), nn.Linear(64, width))

    def forward(self, rows: Tensor) -> Tensor:
        question, passage, other = rows.split([ASKED, TOLD, TOLD], 1)  # type: ignore[no-untyped-call]
        asked = self.asks(self.drop(self.words(question).mean(1)))
        told = self.tells(self.drop(self.words(torch.cat([passage, other])).mean(1)))
        scores: Tensor = functional.normalize(asked, dim=1) @ functional.normalize(told, dim=1).T
        return 10 * scores


class Retrieval(Task):
    """The passage of each question among those of the batch and a harder one for each (DPR).

    An evaluation has batches of the same size, for which the loss is meant.
    """

    def __init__(self) -> None:
        self.train, self.held_out = parted(questions(12_480), 480)
        self.model = Retriever()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        own = torch.arange(len(outputs), device=outputs.device)
        return functional.cross_entropy(outputs, own)

    def evaluate(self, split: Split) -> dict[str, float]:
        with torch.no_grad():
            parts = torch.split(split.inputs.to(self.device), ROUND)
            found = [self.outputs(part) for part in parts]
            losses = torch.stack([self.loss(one, split.targets) for one in found])
            ranks = torch.cat([(one > one.diagonal()[:, None]).sum(1) + 1 for one in found])
        return {"loss": float(losses.mean()), "mrr": float((1 / ranks).mean())}


TERMS, LINE, STATES = 40, 12, 8


def sentences(count: int) -> Split:
    """Words of hidden states that follow each other; a name of the start returns later."""
    follow, own = (2.5 * torch.randn(STATES, STATES)).softmax(1), TERMS // STATES
    speak = (1.5 * torch.randn(STATES, own)).softmax(1)
    state = torch.randint(STATES, (count,))
    said = [own * state + drawn(speak, state)]
    for place in range(LINE):
        state = drawn(follow, state)
        word = own * state + drawn(speak, state)
        said.append(said[0] if place == LINE // 2 else word)
    text = torch.stack(said, 1)
    return Split(text[:, :-1], text[:, 1:])


class Speaker(nn.Module):
    """A small causal transformer."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.words = nn.Embedding(TERMS, width)
        self.places = nn.Parameter(0.1 * torch.randn(LINE, width))
        self.attention, self.feed = Attention(width), Feed(width)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, TERMS)

    def forward(self, words: Tensor) -> Tensor:
        hidden = self.attention(self.words(words) + self.places, causal=True)
        out: Tensor = self.head(self.norm(self.feed(hidden)))
        return out


class Sentences(Task):
    """The next word at every place."""

    def __init__(self) -> None:
        self.train, self.held_out = parted(sentences(20_400), 400)
        self.model = Speaker()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.cross_entropy(outputs.flatten(0, 1), targets.flatten())

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        return {"perplexity": float(self.loss(outputs, targets).exp())}


TONGUES, SPOKEN, LABELS, LENGTH = 4, 40, 8, 8


def tongues(count: int) -> Split:
    """A sign of the language, then words; their labels differ from language to language."""
    meaning = torch.randint(LABELS, (TONGUES, SPOKEN))
    tongue = torch.randint(TONGUES, (count, 1))
    words = torch.randint(SPOKEN, (count, LENGTH))
    labels = meaning[tongue, words]
    wrong = torch.rand(count, LENGTH) < 0.03
    labels = torch.where(wrong, torch.randint(LABELS, (count, LENGTH)), labels)
    return Split(torch.cat([SPOKEN + tongue, words], 1), labels)


class Routed(nn.Module):
    """Attention, then experts in place of the layers of each word."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.words = nn.Embedding(SPOKEN + TONGUES, width)
        self.attention = Attention(width)
        self.before = nn.LayerNorm(width)
        self.moe = Experts(width, TONGUES, 2)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, LABELS)

    def forward(self, words: Tensor) -> Tensor:
        hidden = self.attention(self.words(words))
        hidden = hidden + self.moe(self.before(hidden))
        out: Tensor = self.head(self.norm(hidden))[:, 1:]
        return out


class Tongues(Task):
    """The label of each word in one of four languages."""

    balance_share = 0.02

    def __init__(self) -> None:
        self.train, self.held_out = parted(tongues(12_500), 500)
        self.model = Routed()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        loss = functional.cross_entropy(outputs.flatten(0, 1), targets.flatten())
        if torch.is_grad_enabled():
            loss = loss + self.balance_share * balance_of(self.model)
        return loss

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        return {"accuracy": float((outputs.argmax(2) == targets).float().mean())}


KINDS = (
    Kind(
        "retrieval",
        "blind7",
        Retrieval,
        (OptimizerChoice("adam", 6e-3, decay="linear"), OptimizerChoice("adagrad", 0.05)),
        steps=800,
        batch_size=ROUND,
        warmup=80,
        num_evals=8,
        log_every=2,
        pace_ms=0.0,
        seeds=3,
        fault_seeds=1,
        faults=(
            "rate_x30 double_softmax dropout_in_eval overfitting one_batch dead_relu "
            "missing_zero_grad schedule_unit",
            "rate_x30 tiny_init missing_parameters wrong_sign rate_zero missing_step "
            "eval_on_train rate_too_small",
        ),
    ),
    Kind(
        "ddp_sentences",
        "blind7",
        Sentences,
        (
            OptimizerChoice("adamw", 6e-3, {"weight_decay": 0.05, "fused": True}, decay="cosine"),
            OptimizerChoice("lion", 1e-3, {"weight_decay": 0.1}, decay="linear"),
        ),
        steps=600,
        batch_size=8,
        warmup=60,
        clip=1.0,
        accumulate=2,
        precision="bfloat16",
        num_evals=12,
        world=2,
        pace_ms=0.0,
        seeds=3,
        fault_seeds=1,
        config={"vocabulary": TERMS},
        faults=(
            "rank_drift straggler same_data_on_ranks hang no_warmup labels_shuffled rate_x30 "
            "double_softmax",
            "rank_drift straggler same_data_on_ranks rate_x10 rate_too_small frozen "
            "schedule_unit missing_step",
        ),
    ),
    Kind(
        "routed",
        "blind7",
        Tongues,
        (
            OptimizerChoice("adamw", 6e-3, {"weight_decay": 0.01}, decay="cosine"),
            OptimizerChoice("nadam", 4e-3),
        ),
        steps=700,
        batch_size=16,
        warmup=50,
        clip=1.0,
        num_evals=14,
        pace_ms=0.0,
        seeds=3,
        fault_seeds=1,
        config={"num_experts": TONGUES, "top_k": 2},
        faults=(
            "router_collapse no_warmup rate_x30 labels_shuffled overfitting missing_parameters "
            "one_batch rate_zero",
            "router_collapse no_warmup rate_x10 exploding_init frozen wrong_sign "
            "missing_zero_grad rate_too_small",
        ),
    ),
)
