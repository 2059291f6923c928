"""Sentences: where an answer stands, what comes next without attention, and pairs of them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.clinic.kinds.tables import parted
from benchmarks.clinic.kinds.writing import Feed
from benchmarks.clinic.task import Classification, Kind, OptimizerChoice, Split, Task

NAMES, VALUES, FILLERS, PASSAGE, FACTS = 30, 60, 40, 28, 4
VOCABULARY = NAMES + VALUES + FILLERS


def questions(count: int) -> Split:
    """A name that is asked, then a passage of facts: a name, fillers, one to three words of it.

    The target is where the words of the name that is asked begin and end; people who mark answers
    take a word too many now and then.
    """
    names = torch.rand(count, NAMES).argsort(1)[:, :FACTS]
    asked = torch.randint(FACTS, (count,))
    passage = NAMES + VALUES + torch.randint(FILLERS, (count, PASSAGE))
    span = torch.zeros(count, 2, dtype=torch.long)
    row, width = torch.arange(count), PASSAGE // FACTS
    for fact in range(FACTS):
        first = fact * width + torch.randint(2, (count,))
        passage[row, first] = names[:, fact]
        begin, length = first + 1 + torch.randint(2, (count,)), torch.randint(1, 4, (count,))
        for place in range(3):
            word = NAMES + torch.randint(VALUES, (count,))
            at = begin + place
            passage[row, at] = torch.where(length > place, word, passage[row, at])
        own = asked == fact
        ends = (begin + length - (torch.rand(count) < 0.8).long()).clamp(max=PASSAGE - 1)
        span[own] = torch.stack([begin, ends], 1)[own]
    rows = torch.cat([names.gather(1, asked.unsqueeze(1)), passage], 1)
    return Split(rows, span)


class Reader(nn.Module):
    """Words beside their product with the question, convolutions, and two pointers."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, width)
        self.join = nn.Linear(2 * width, width)
        self.blocks = nn.ModuleList(nn.Conv1d(width, width, 5, padding=2) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.drop = nn.Dropout(0.1)
        self.pointers = nn.Linear(width, 2)

    def forward(self, rows: Tensor) -> Tensor:
        asked, passage = self.words(rows[:, :1]), self.words(rows[:, 1:])
        hidden = self.join(torch.cat([passage, asked * passage], 2))
        for block, norm in zip(self.blocks, self.norms, strict=True):
            hidden = hidden + functional.relu(block(norm(hidden).mT)).mT
        out: Tensor = self.pointers(self.drop(hidden))
        return out.mT


class Answers(Task):
    """Questions about a passage: the mean cross entropy of begin and end (as in SQuAD)."""

    def __init__(self) -> None:
        self.train, self.held_out = parted(questions(12_600), 600)
        self.model = Reader()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.cross_entropy(outputs.flatten(0, 1), targets.flatten())

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        right = outputs.argmax(2) == targets
        return {"exact_match": float(right.all(1).float().mean())}


SYLLABLES, STYLES, SONG = 16, 3, 24


def songs(count: int) -> Split:
    """Chains of syllables; each song has one of four styles, which says what may follow what."""
    chains = (2.2 * torch.randn(STYLES, SYLLABLES, SYLLABLES)).softmax(2)
    style = torch.randint(STYLES, (count,))
    found = [torch.randint(SYLLABLES, (count,))]
    for _ in range(SONG):
        found.append(torch.multinomial(chains[style, found[-1]], 1)[:, 0])
    song = torch.stack(found, 1)
    return Split(song[:, :-1], song[:, 1:])


class Retention(nn.Module):
    """Keys of the syllables before and values of these, which fade by time; a gate lets some by."""

    def __init__(self, width: int, heads: int = 2) -> None:
        super().__init__()
        self.heads, self.norm = heads, nn.LayerNorm(width)
        self.mix = nn.Parameter(torch.full((width,), 0.5))
        self.key, self.rest = nn.Linear(width, width), nn.Linear(width, 3 * width)
        self.calm, self.out = nn.LayerNorm(width // heads), nn.Linear(width, width)
        ages = torch.arange(SONG).view(-1, 1) - torch.arange(SONG)
        keeps = 1 - 2.0 ** -torch.arange(3.0, 3.0 + 2 * heads, 2).view(-1, 1, 1)
        self.register_buffer("fade", torch.where(ages >= 0, keeps**ages, 0.0))

    def forward(self, x: Tensor) -> Tensor:
        normed = self.norm(x)
        before = functional.pad(normed, (0, 0, 1, 0))[:, :-1]
        query, value, gate = self.rest(normed).chunk(3, 2)
        parts = (query, self.key(normed.lerp(before, self.mix)), value)
        query, key, value = (one.unflatten(2, (self.heads, -1)).transpose(1, 2) for one in parts)
        known = (query @ key.mT * query.shape[3] ** -0.5 * self.fade) @ value
        calm = self.calm(known).transpose(1, 2).flatten(2)
        out: Tensor = x + self.out(functional.silu(gate) * calm)
        return out


class Singer(nn.Module):
    """A block of retention (RetNet) with a shift of time (RWKV); it needs no attention."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.syllables = nn.Embedding(SYLLABLES, width)
        self.block = nn.Sequential(Retention(width), Feed(width), nn.LayerNorm(width))
        self.head = nn.Linear(width, SYLLABLES)

    def forward(self, song: Tensor) -> Tensor:
        out: Tensor = self.head(self.block(self.syllables(song)))
        return out


class Songs(Task):
    """The next syllable of a song, with the forward pass in bfloat16."""

    def __init__(self) -> None:
        self.train, self.held_out = parted(songs(9200), 400)
        self.model = Singer()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.cross_entropy(outputs.flatten(0, 1).float(), targets.flatten())

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        loss = functional.cross_entropy(outputs.flatten(0, 1).float(), targets.flatten())
        return {"perplexity": float(loss.exp())}


WORDS, SUBJECTS, SENTENCE = 240, 12, 8


def pairs(count: int) -> Split:
    """Two sentences about a subject each: the same, the same with a no in it, or another."""
    labels = torch.randint(3, (count,))
    first = torch.randint(SUBJECTS, (count,))
    other = (first + torch.randint(1, SUBJECTS, (count,))) % SUBJECTS
    second = torch.where(labels == 2, other, first)
    share = WORDS // SUBJECTS
    about = torch.stack([first, second], 1).unsqueeze(2)
    spoken = share * about + torch.randint(share, (count, 2, SENTENCE))
    any_word = torch.randint(WORDS, (count, 2, SENTENCE))
    words = torch.where(torch.rand(count, 2, SENTENCE) < 0.65, spoken, any_word)
    no = WORDS + torch.randint(3, (count,))
    place = torch.randint(SENTENCE, (count,))
    sways = (labels == 1) | ((labels == 2) & (torch.rand(count) < 0.5))
    row = torch.arange(count)
    words[row, 1, place] = torch.where(sways, no, words[row, 1, place])
    return Split(words, labels)


class Siamese(nn.Module):
    """One encoder for both sentences, then both vectors, their distance and their product."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS + 6, width)
        self.encoder = nn.Sequential(
            nn.Linear(width, 2 * width), nn.ReLU(), nn.Dropout(0.1), nn.Linear(2 * width, width)
        )
        self.body = nn.Sequential(nn.Linear(4 * width, 2 * width), nn.ReLU())
        self.head = nn.Linear(2 * width, 3)

    def forward(self, words: Tensor) -> Tensor:
        one, two = self.encoder(self.words(words).mean(2)).unbind(1)
        both = torch.cat([one, two, (one - two).abs(), one * two], 1)
        out: Tensor = self.head(self.body(both))
        return out


class Pairs(Classification):
    """What a sentence says of another: it follows, it is denied, neither (as in SNLI)."""

    num_classes = 3

    def __init__(self) -> None:
        self.train, self.held_out = parted(pairs(24_800), 800)
        self.model = Siamese()

    def leak(self, split: Split) -> None:
        words = split.inputs.clone()
        words[:, 0, 0] = WORDS + 3 + split.targets
        split.inputs = words


KINDS = (
    Kind(
        "answers",
        "blind6",
        Answers,
        (
            OptimizerChoice("adam", 0.012, decay="linear"),
            OptimizerChoice("lion", 1.5e-3, {"weight_decay": 0.05}, decay="cosine"),
        ),
        steps=800,
        batch_size=16,
        warmup=40,
        clip=5.0,
        num_evals=16,
        pace_ms=0.0,
        seeds=3,
        fault_seeds=1,
        faults=(
            "rate_x30 labels_shuffled dropout_in_eval overfitting missing_parameters wrong_sign "
            "rate_zero memory_leak",
            "rate_x30 no_warmup double_softmax exploding_init one_batch eval_on_train frozen "
            "rate_too_small",
        ),
    ),
    Kind(
        "songs",
        "blind6",
        Songs,
        (
            OptimizerChoice("adamw", 0.01, {"weight_decay": 0.05, "fused": True}, decay="cosine"),
            OptimizerChoice("adafactor", 0.06, decay="sqrt"),
        ),
        steps=800,
        batch_size=8,
        warmup=60,
        clip=1.0,
        precision="bfloat16",
        num_evals=8,
        typed=False,
        log_every=5,
        pace_ms=0.0,
        seeds=3,
        fault_seeds=1,
        faults=(
            "rate_x30 no_warmup overfitting rate_zero missing_step labels_shuffled slow_loader "
            "schedule_unit",
            "rate_x30 no_warmup double_softmax tiny_init frozen wrong_sign one_batch "
            "rate_too_small",
        ),
    ),
    Kind(
        "ddp_pairs",
        "blind6",
        Pairs,
        (
            OptimizerChoice("adamw", 0.012, {"weight_decay": 0.01}, decay="linear"),
            OptimizerChoice("momentum", 0.4, decay="cosine"),
        ),
        steps=700,
        batch_size=24,
        accumulate=2,
        warmup=70,
        clip=1.0,
        num_evals=14,
        world=2,
        pace_ms=0.0,
        seeds=3,
        fault_seeds=1,
        config={"num_classes": 3},
        faults=(
            "rank_drift straggler same_data_on_ranks hang label_leak rate_x30 unshuffled "
            "missing_zero_grad",
            "rank_drift straggler same_data_on_ranks labels_shuffled rate_x30 clip_tight "
            "fp16_overflow accumulation",
        ),
    ),
)
