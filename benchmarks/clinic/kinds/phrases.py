"""Phrases: what a review says of a thing, how a name goes on, which topic a short text has."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.clinic.kinds.tables import parted
from benchmarks.clinic.task import Classification, Kind, OptimizerChoice, Split, Task

# Words of a review: 0 is padding, then praise and blame, "not", "very", and words that say nothing.
OPINIONS, NOTS, VERYS, PLAIN, REVIEW = 60, 3, 3, 60, 9
REVIEW_WORDS = 1 + OPINIONS + NOTS + VERYS + PLAIN


def reviews(count: int) -> Split:
    """Four to nine words; "not" turns the word after it, "very" doubles it.

    A review is bad, so so or good by the sum of its words, about which people differ a little.
    """
    worth = torch.zeros(REVIEW_WORDS)
    side = torch.tensor([1.0, -1.0]).repeat(OPINIONS // 2)
    worth[1 : 1 + OPINIONS] = side * (0.6 + torch.rand(OPINIONS))
    turns = torch.ones(REVIEW_WORDS)
    turns[1 + OPINIONS :][:NOTS] = -1.0
    turns[1 + OPINIONS + NOTS :][:VERYS] = 2.0
    common = torch.zeros(REVIEW_WORDS)
    for begin, many, share in (
        (1, OPINIONS, 0.4),
        (1 + OPINIONS, NOTS, 0.12),
        (1 + OPINIONS + NOTS, VERYS, 0.12),
        (1 + OPINIONS + NOTS + VERYS, PLAIN, 0.36),
    ):
        common[begin : begin + many] = share / many
    words = torch.multinomial(common, count * REVIEW, replacement=True).view(count, REVIEW)
    words = words * (torch.arange(REVIEW) < torch.randint(4, REVIEW + 1, (count, 1)))
    before = functional.pad(turns[words[:, :-1]], (1, 0), value=1.0)
    mood = (worth[words] * before).sum(1) + 0.3 * torch.randn(count)
    return Split(words, (mood > -0.8).long() + (mood > 0.8).long())


class BothWays(nn.Module):
    """Gated units in both directions, and the highest of their states where there are words."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.words = nn.Embedding(REVIEW_WORDS + 3, 24, padding_idx=0)
        self.drop = nn.Dropout(0.1)
        self.cells = nn.GRU(24, width, batch_first=True, bidirectional=True)
        self.body = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Dropout(0.1))
        self.head = nn.Linear(width, 3)

    def forward(self, words: Tensor) -> Tensor:
        states, _ = self.cells(self.drop(self.words(words)))
        padding = (words == 0).unsqueeze(2)
        out: Tensor = self.head(self.body(states.masked_fill(padding, -10.0).amax(1)))
        return out


class Reviews(Classification):
    """What a review says of a thing: bad, so so, good."""

    num_classes = 3

    def __init__(self) -> None:
        self.train, self.held_out = parted(reviews(33_000), 1000)
        self.model = BothWays()

    def leak(self, split: Split) -> None:
        words = split.inputs.clone()
        words[:, 0] = REVIEW_WORDS + split.targets
        split.inputs = words


# Characters of a name: 0 begins and ends it, five vowels, the rest are consonants.
VOWELS, LETTERS, TONGUES, SYLLABLES, NO_LETTER = 5, 26, 4, 4, -100


def names(count: int) -> Split:
    """Two to four syllables of one of four tongues, each with its own sounds; none comes twice.

    A syllable is a consonant, a vowel and sometimes a consonant that closes it. Sounds follow each
    other as the tongue has it.
    """
    consonants = LETTERS - VOWELS
    opens = (2.0 * torch.randn(TONGUES, LETTERS + 1, consonants)).softmax(2)
    rings = (1.8 * torch.randn(TONGUES, LETTERS + 1, VOWELS)).softmax(2)
    closes = (2.5 * torch.randn(TONGUES, LETTERS + 1, consonants)).softmax(2)
    tongue, row = torch.randint(TONGUES, (count,)), torch.arange(count)
    many = torch.randint(2, SYLLABLES + 1, (count,))
    found = torch.zeros(count, 3 * SYLLABLES + 2, dtype=torch.long)
    last, at = torch.zeros(count, dtype=torch.long), torch.ones(count, dtype=torch.long)
    for syllable in range(SYLLABLES):
        closed = torch.rand(count) < 0.1 + 0.2 * tongue
        for part, chances in enumerate((opens, rings, closes)):
            first = 1 if part == 1 else 1 + VOWELS
            letter = first + torch.multinomial(chances[tongue, last], 1)[:, 0]
            spoken = (many > syllable) & (closed | (part < 2))
            found[row, at] = torch.where(spoken, letter, 0)
            last, at = torch.where(spoken, letter, last), at + spoken.long()
    found = torch.unique(found, dim=0)
    found = found[torch.randperm(len(found))]
    nexts = found[:, 1:].clone()
    ended = (found[:, 1:] == 0) & (found[:, :-1] == 0)
    nexts[ended] = NO_LETTER
    return Split(found[:, :-1], nexts)


class Namer(nn.Module):
    """A long short-term memory over letters, which tells the next one."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.letters = nn.Embedding(LETTERS + 1, 24)
        self.cells = nn.LSTM(24, width, batch_first=True)
        self.head = nn.Linear(width, LETTERS + 1)

    def forward(self, name: Tensor) -> Tensor:
        out: Tensor = self.head(self.cells(self.letters(name))[0])
        return out


class Names(Task):
    """The next letter of a name, or its end; what comes after the end does not count."""

    def __init__(self) -> None:
        self.train, self.held_out = parted(names(36_000), 1000)
        self.model = Namer()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        letters = targets.flatten()
        return functional.cross_entropy(outputs.flatten(0, 1), letters, ignore_index=NO_LETTER)

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        return {"perplexity": float(self.loss(outputs, targets).exp())}


TOPICS, TERMS, COMMON, TEXT, VECTOR = 8, 30, 160, 14, 20


def topics(count: int) -> Split:
    """Short texts as vectors of words that somebody trained before, with zeros after the end.

    Three in ten words are of the topic, one in ten of any topic; the others stand in every text.
    One label in twenty was given carelessly.
    """
    centres = torch.randn(TOPICS, 1, VECTOR)
    terms = (0.5 * centres + 0.9 * torch.randn(TOPICS, TERMS, VECTOR)).flatten(0, 1)
    vectors = torch.cat([terms, torch.randn(COMMON, VECTOR)])
    topic = torch.randint(TOPICS, (count,))
    shape, chance = (count, TEXT), torch.rand(count, TEXT)
    own = TERMS * topic.unsqueeze(1) + torch.randint(TERMS, shape)
    words = TOPICS * TERMS + torch.randint(COMMON, shape)
    words = torch.where(chance < 0.4, torch.randint(TOPICS * TERMS, shape), words)
    words = torch.where(chance < 0.3, own, words)
    inside = torch.arange(TEXT) < torch.randint(7, TEXT + 1, (count, 1))
    careless = torch.rand(count) < 0.05
    label = torch.where(careless, torch.randint(TOPICS, (count,)), topic)
    return Split(vectors[words] * inside.unsqueeze(2), label)


class Pooled(nn.Module):
    """A layer for each word, and attention that says how much of each comes into the text."""

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.enter = nn.Sequential(nn.Linear(VECTOR, width), nn.LayerNorm(width))
        self.feed = nn.Sequential(nn.Linear(width, width), nn.ReLU())
        self.weigh = nn.Linear(width, 2, bias=False)  # two heads
        self.norm = nn.LayerNorm(2 * width)
        self.head = nn.Linear(2 * width, TOPICS)

    def forward(self, text: Tensor) -> Tensor:
        there = text.ne(0).any(2, keepdim=True)
        hidden = self.enter(text)
        hidden = hidden + self.feed(hidden)
        shares = self.weigh(hidden).masked_fill(~there, -1e4).softmax(1)
        out: Tensor = self.head(self.norm((shares.mT @ hidden).flatten(1)))
        return out


class Topics(Classification):
    """Which of eight topics a short text has."""

    num_classes = TOPICS

    def __init__(self) -> None:
        self.train, self.held_out = parted(topics(33_000), 1000)
        self.model = Pooled()


KINDS = (
    Kind(
        "reviews",
        "blind8",
        Reviews,
        (
            OptimizerChoice("adamw", 0.01, {"weight_decay": 0.01}, decay="cosine"),
            OptimizerChoice("adagrad", 0.06),
        ),
        steps=800,
        batch_size=32,
        num_evals=16,
        pace_ms=0.0,
        seeds=3,
        fault_seeds=1,
        config={"num_classes": 3},
        faults=(
            "rate_x30 labels_shuffled dropout_in_eval overfitting dead_relu missing_parameters "
            "schedule_unit label_leak",
            "rate_x30 unshuffled eval_on_train wrong_sign exploding_init rate_zero missing_step "
            "double_softmax",
        ),
    ),
    Kind(
        "names",
        "blind8",
        Names,
        (
            OptimizerChoice("adam", 0.01, decay="linear"),
            OptimizerChoice("momentum", 0.8, decay="cosine"),
        ),
        steps=900,
        batch_size=32,
        num_evals=9,
        typed=False,
        log_every=3,
        pace_ms=0.0,
        seeds=3,
        fault_seeds=1,
        faults=(
            "rate_x30 overfitting frozen missing_zero_grad labels_shuffled tiny_init one_batch "
            "rate_zero",
            "rate_x10 clip_tight wrong_reduction accumulation fp16_overflow exploding_init "
            "rate_too_small wrong_sign",
        ),
    ),
    Kind(
        "ddp_topics",
        "blind8",
        Topics,
        (
            OptimizerChoice("lion", 2e-3, {"weight_decay": 0.02}, decay="linear"),
            OptimizerChoice("nesterov", 0.1, decay="cosine"),
        ),
        steps=700,
        batch_size=16,
        warmup=70,
        clip=1.0,
        num_evals=14,
        world=2,
        pace_ms=0.0,
        seeds=3,
        fault_seeds=1,
        config={"num_classes": TOPICS},
        faults=(
            "rank_drift straggler same_data_on_ranks no_warmup rate_x30 label_leak nan_input "
            "frozen",
            "rank_drift straggler same_data_on_ranks rate_x30 unshuffled dead_relu tiny_init "
            "clip_tight",
        ),
    ),
)
