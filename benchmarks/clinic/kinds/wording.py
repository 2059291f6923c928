"""Wording: typing errors put right, log lines summed up by copying, and the language of bytes."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.clinic.kinds.reading import drawn
from benchmarks.clinic.kinds.tables import parted
from benchmarks.clinic.kinds.writing import Attention, Feed
from benchmarks.clinic.task import Classification, Kind, OptimizerChoice, Split, Task

# Keys of a keyboard, three rows; the last one is the space.
KEYS, ROW, LEXICON, TYPED = 28, 9, 250, 12


def typing(count: int) -> Split:
    """A piece of a text of common and rare words, as it was typed and as it was meant.

    A finger hits a key beside the right one, or two letters change places.
    """
    follow = (1.6 * torch.randn(KEYS - 1, KEYS - 1)).softmax(1)
    letters = [torch.randint(KEYS - 1, (LEXICON,))]
    for _ in range(6):
        letters.append(drawn(follow, letters[-1]))
    words = torch.stack(letters, 1)
    ends = torch.randint(3, 7, (LEXICON, 1))  # a space is after the last letter
    many = 10 * count // 3
    common = 1 / (3 + torch.arange(LEXICON, dtype=torch.float))
    chosen = torch.multinomial(common, many, replacement=True)
    text = words.scatter(1, ends, KEYS - 1)[chosen]
    text = text[torch.arange(7) <= ends[chosen]]
    meant = text[: len(text) // TYPED * TYPED].view(-1, TYPED)[:count]
    near = torch.tensor([-ROW, -1, 1, ROW])
    slips = (torch.rand(meant.shape) < 0.13) & (meant < KEYS - 1)
    beside = (meant + near[torch.randint(4, meant.shape)]) % (KEYS - 1)
    seen = torch.where(slips, beside, meant)
    at = torch.randint(TYPED - 1, (len(seen), 1))
    both = torch.cat([at, at + 1], 1)
    swapped = seen.scatter(1, both, seen.gather(1, both.flip(1)))
    return Split(torch.where(torch.rand(len(seen), 1) < 0.4, swapped, seen), meant)


class Corrector(nn.Module):
    """Long short-term memories in both directions over letters, and a letter for each place."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.letters = nn.Embedding(KEYS, 24)
        self.cells = nn.LSTM(24, width, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * width, KEYS)

    def forward(self, typed: Tensor) -> Tensor:
        out: Tensor = self.head(self.cells(self.letters(typed))[0])
        return out


class Typos(Task):
    """The letter that was meant at each place, by the cross entropy of letters."""

    num_classes = KEYS

    def __init__(self) -> None:
        self.train, self.held_out = parted(typing(30_400), 400)
        self.model = Corrector()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.cross_entropy(outputs.flatten(0, 1), targets.flatten())

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        wrong = outputs.argmax(2) != targets
        return {
            "character_error_rate": float(wrong.float().mean()),
            "lines_right": float((~wrong).all(1).float().mean()),
        }


# A log line: an event, then seven pairs of a small word ("from", "at", "by") and a name. Names are
# of hosts, services and users. A summary copies one of each sort.
EVENTS, SMALL, SORTS, OF_SORT, PAIRS = 10, 8, 3, 40, 7
FIRST_NAME = EVENTS + SMALL
FIRST_MARK = FIRST_NAME + SORTS * OF_SORT
LOG_WORDS, LOG_LINE = FIRST_MARK + SORTS, 1 + 2 * PAIRS


def logs(count: int) -> Split:
    """Lines, and the places of the three names that people would put into the summary.

    Which name matters depends on the small word before it, and a bit on the event.
    """
    weight = 2.5 * torch.randn(1, SORTS, SMALL) + 1.5 * torch.randn(EVENTS, SORTS, SMALL)
    event = torch.randint(EVENTS, (count, 1))
    sort = torch.cat(
        [torch.arange(SORTS).repeat(count, 1), torch.randint(SORTS, (count, PAIRS - SORTS))], 1
    )
    sort = sort.gather(1, torch.rand(count, PAIRS).argsort(1))
    small = torch.randint(SMALL, (count, PAIRS))
    names = FIRST_NAME + OF_SORT * sort + torch.randint(OF_SORT, (count, PAIRS))
    matters = weight[event, sort, small] + 0.7 * torch.randn(count, PAIRS)
    own = sort.unsqueeze(1) == torch.arange(SORTS).view(1, -1, 1)
    pair = matters.unsqueeze(1).masked_fill(~own, -math.inf).argmax(2)
    line = torch.cat([event, torch.stack([EVENTS + small, names], 2).flatten(1)], 1)
    return Split(line, 2 + 2 * pair)


class Pointer(nn.Module):
    """Attention over a line, and three questions of the event that point to places of it."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.words = nn.Embedding(LOG_WORDS, width)
        self.places = nn.Parameter(0.1 * torch.randn(LOG_LINE, width))
        self.near = nn.Linear(2 * width, width)
        self.attention, self.feed = Attention(width), Feed(width)
        self.norm, self.drop = nn.LayerNorm(width), nn.Dropout(0.05)
        self.key = nn.Linear(width, width)
        self.ask = nn.Linear(width, SORTS * width)

    def forward(self, line: Tensor) -> Tensor:
        words = self.words(line)
        before = functional.pad(words[:, :-1], (0, 0, 1, 0))
        hidden = self.drop(self.near(torch.cat([words, before], 2)) + self.places)
        hidden = self.norm(self.feed(self.attention(hidden)))
        asked = self.ask(hidden[:, 0]).unflatten(1, (SORTS, -1))
        out: Tensor = asked @ self.key(self.drop(hidden)).mT / math.sqrt(hidden.shape[2])
        return out


class Logs(Task):
    """Three words copied from a log line, by the cross entropy over its places."""

    num_classes = LOG_LINE

    def __init__(self) -> None:
        self.train, self.held_out = parted(logs(36_500), 500)
        self.model = Pointer()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.cross_entropy(outputs.flatten(0, 1), targets.flatten())

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        right = outputs.argmax(2) == targets
        return {
            "copied_right": float(right.float().mean()),
            "summary_right": float(right.all(1).float().mean()),
        }

    def leak(self, split: Split) -> None:
        marks = (FIRST_MARK + torch.arange(SORTS)).expand_as(split.targets)
        split.inputs = split.inputs.scatter(1, split.targets - 1, marks)


FAMILIES, MEMBERS, SIGNS, BITS, PIECE = 3, 3, 26, 8, 20
LANGUAGES = FAMILIES * MEMBERS


def pieces(count: int) -> Split:
    """Bytes of a text as their bits, and its language, of a family with two others.

    A byte in eight is of no language. One label in twenty-five is wrong.
    """
    family = 1.3 * torch.randn(FAMILIES, 1, SIGNS, SIGNS)
    follow = (family + 0.9 * torch.randn(FAMILIES, MEMBERS, SIGNS, SIGNS)).softmax(3)
    chances = follow.flatten(0, 2)
    language = torch.randint(LANGUAGES, (count,))
    sign = torch.randint(SIGNS, (count,))
    said = []
    for _ in range(PIECE):
        sign = drawn(chances, SIGNS * language + sign)
        said.append(sign)
    code = torch.randperm(2**BITS)
    foreign = SIGNS + torch.randint(2**BITS - SIGNS, (count, PIECE))
    text = code[torch.where(torch.rand(count, PIECE) < 0.125, foreign, torch.stack(said, 1))]
    bits = (text.unsqueeze(1) >> torch.arange(BITS).view(1, -1, 1)) & 1
    wrong = torch.rand(count) < 0.04
    label = torch.where(wrong, torch.randint(LANGUAGES, (count,)), language)
    return Split(2.0 * bits - 1, label)


class Dilated(nn.Module):
    """A convolution over time, its steps apart, with what came in added."""

    def __init__(self, width: int, apart: int) -> None:
        super().__init__()
        self.turn = nn.Conv1d(width, width, 3, padding=apart, dilation=apart, bias=False)
        self.norm = nn.BatchNorm1d(width)

    def forward(self, x: Tensor) -> Tensor:
        return x + functional.relu(self.norm(self.turn(x)))


class Listener(nn.Module):
    """A temporal convolutional net, the mean of its places, and a layer before the languages."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.enter = nn.Sequential(
            *(nn.Conv1d(BITS, width, 1), nn.ReLU(), nn.Conv1d(width, width, 3, padding=1)),
            *(nn.BatchNorm1d(width), nn.ReLU()),
        )
        self.body = nn.Sequential(Dilated(width, 1), Dilated(width, 2))
        self.last = nn.Sequential(nn.Linear(width, 48), nn.ReLU(), nn.Dropout(0.1))
        self.head = nn.Linear(48, LANGUAGES)

    def forward(self, bits: Tensor) -> Tensor:
        out: Tensor = self.head(self.last(self.body(self.enter(bits)).mean(2)))
        return out


class Bytes(Classification):
    """Which of nine languages a piece of bytes is written in."""

    num_classes = LANGUAGES

    def __init__(self) -> None:
        self.train, self.held_out = parted(pieces(32_600), 600)
        self.model = Listener()


KINDS = (
    Kind(
        "typos",
        "blind9",
        Typos,
        (
            OptimizerChoice("rmsprop", 0.012, decay="cosine"),
            OptimizerChoice("nesterov", 3.0, decay="linear"),
        ),
        steps=900,
        batch_size=32,
        num_evals=9,
        typed=False,
        log_every=2,
        pace_ms=0.0,
        seeds=3,
        fault_seeds=1,
        config={"vocabulary": KEYS, "hidden": 32, "layers": 1},
        faults=(
            "rate_x30 overfitting frozen schedule_unit double_softmax one_batch exploding_init "
            "missing_step",
            "rate_x10 tiny_init clip_tight wrong_reduction accumulation fp16_overflow "
            "labels_shuffled missing_zero_grad",
        ),
    ),
    Kind(
        "logs",
        "blind9",
        Logs,
        (
            OptimizerChoice("adamw", 6e-3, {"weight_decay": 0.02}, decay="linear"),
            OptimizerChoice("adagrad", 0.05),
        ),
        steps=1000,
        batch_size=24,
        warmup=60,
        clip=1.0,
        num_evals=20,
        pace_ms=0.0,
        seeds=3,
        fault_seeds=1,
        config={"vocabulary": LOG_WORDS, "pointers": SORTS},
        faults=(
            "no_warmup label_leak dropout_in_eval labels_shuffled missing_parameters rate_zero "
            "slow_loader rate_x30",
            "rate_x30 eval_on_train wrong_sign double_softmax rate_too_small overfitting frozen "
            "unshuffled",
        ),
    ),
    Kind(
        "ddp_bytes",
        "blind9",
        Bytes,
        (
            OptimizerChoice("adamax", 0.01, decay="steps"),
            OptimizerChoice("momentum", 0.03, {"weight_decay": 1e-4}, decay="cosine"),
        ),
        steps=800,
        batch_size=16,
        num_evals=16,
        world=2,
        pace_ms=0.0,
        seeds=3,
        fault_seeds=1,
        config={"num_classes": LANGUAGES, "architecture": "tcn"},
        faults=(
            "rank_drift straggler same_data_on_ranks hang stale_batchnorm nan_input label_leak "
            "eval_on_train",
            "rank_drift straggler same_data_on_ranks rate_x30 unshuffled dropout_in_eval "
            "schedule_unit dead_relu",
        ),
    ),
)
