"""Something is missing and is put back: fine pixels, codes instead of pictures, hidden words."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.clinic.kinds.tables import parted
from benchmarks.clinic.task import Kind, OptimizerChoice, Split, Task

FINE = 20


def scenes(count: int) -> Tensor:
    """A slope, a stripe pattern and two boxes; values are about between 0 and 1."""
    axis = torch.linspace(-1, 1, FINE)
    row, column = axis.view(1, -1, 1), axis.view(1, 1, -1)
    tilt = 0.2 * torch.randn(2, count, 1, 1)
    turn = torch.pi * torch.rand(count, 1, 1)
    wave = (turn.cos() * row + turn.sin() * column) * (4 + 5 * torch.rand(count, 1, 1))
    found = 0.5 + tilt[0] * row + tilt[1] * column + 0.15 * (wave + 6 * turn).sin()
    for _ in range(2):
        middle, size = (
            1.4 * torch.rand(2, count, 1, 1) - 0.7,
            0.2 + 0.3 * torch.rand(2, count, 1, 1),
        )
        inside = ((row - middle[0]).abs() < size[0]) & ((column - middle[1]).abs() < size[1])
        found = torch.where(inside, torch.rand(count, 1, 1), found)
    return found.unsqueeze(1)


class Upscaler(nn.Module):
    """What a plain enlargement lacks, from convolutions and a shuffle of channels to pixels."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, width, 5, padding=2)
        self.second = nn.Conv2d(width, width, 3, padding=1)
        self.third = nn.Conv2d(width, width, 3, padding=1)
        self.last = nn.Conv2d(width, 4, 3, padding=1)

    def forward(self, coarse: Tensor) -> Tensor:
        hidden = torch.relu(self.first(coarse))
        hidden = hidden + torch.relu(self.third(torch.relu(self.second(hidden))))
        plain = functional.interpolate(coarse, scale_factor=2, mode="bilinear")
        return plain + functional.pixel_shuffle(self.last(hidden), 2)


class SuperResolution(Task):
    """Pictures of twice the size, by their mean absolute error."""

    def __init__(self) -> None:
        fine = scenes(3300)
        coarse = functional.avg_pool2d(fine, 2)
        coarse = coarse + 0.01 * torch.randn_like(coarse)
        self.train, self.held_out = parted(Split(coarse, fine), 300)
        self.model = Upscaler()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.l1_loss(outputs, targets)

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        error = float(functional.mse_loss(outputs, targets))
        return {"psnr": -10 * math.log10(error) if error > 0 else math.nan}


CODES, WIDTH, COMMIT = 32, 8, 0.25


class Codes(nn.Module):
    """Pictures to a grid of codes of a small book, and back; the gradient skips the choice."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 24, 4, stride=2, padding=1),
            nn.BatchNorm2d(24),
            nn.ReLU(),
            nn.Conv2d(24, WIDTH, 4, stride=2, padding=1),
        )
        self.book = nn.Embedding(CODES, WIDTH)
        nn.init.normal_(self.book.weight, std=0.3)
        self.decoder = nn.Sequential(
            nn.ConvTranspose2d(WIDTH, 24, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.ConvTranspose2d(24, 1, 4, stride=2, padding=1),
        )

    def forward(self, pictures: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        grid = self.encoder(pictures).permute(0, 2, 3, 1)
        apart = torch.cdist(grid.flatten(0, 2), self.book.weight)
        chosen = apart.argmin(1)
        codes = self.book(chosen).view_as(grid)
        passed = grid + (codes - grid).detach()
        made = self.decoder(passed.permute(0, 3, 1, 2))
        return made, grid, codes, chosen


class Quantised(Task):
    """The error of a picture from codes, and the distance of codes from what they stand for."""

    def __init__(self) -> None:
        pictures = 2 * scenes(3300) - 1
        self.train, self.held_out = parted(Split(pictures, pictures), 300)
        self.model = Codes()
        self._spread = 0.0

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        made, grid, codes, chosen = outputs
        if torch.is_grad_enabled():
            shares = torch.bincount(chosen, minlength=CODES) / len(chosen)
            self._spread = float((-(shares * (shares + 1e-9).log()).sum()).exp())
        learned = functional.mse_loss(codes, grid.detach())
        kept = functional.mse_loss(grid, codes.detach())
        return functional.mse_loss(made, targets) + learned + COMMIT * kept

    def figures(self) -> dict[str, float]:
        return {"code_perplexity": self._spread}

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        return {"rebuilt": float(functional.mse_loss(outputs[0], targets))}


WORDS, LONG, HIDDEN, MASK = 24, 16, 0.2, 0


def lines(count: int) -> Split:
    """Lines of words: each goes on by its own habit, and the first returns at the end."""
    habits = (3.5 * torch.randn(WORDS, WORDS)).softmax(1)
    habits[:, MASK] = 0
    words = torch.randint(1, WORDS, (count, LONG))
    for place in range(1, LONG):
        words[:, place] = torch.multinomial(habits[words[:, place - 1]], 1)[:, 0]
    words[:, -1] = words[:, 0]
    return Split(words, words)


class Block(nn.Module):
    """Attention in all directions, its norm before it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.mixed = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.dropout = nn.Dropout(0.1)
        self.feed = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.ReLU(), nn.Linear(3 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        count, length, width = x.shape
        mixed = self.mixed(self.norm(x)).view(count, length, 3, self.heads, -1)
        query, key, value = mixed.permute(2, 0, 3, 1, 4)
        found = functional.scaled_dot_product_attention(query, key, value)
        x = x + self.dropout(self.out(found.transpose(1, 2).reshape(count, length, width)))
        out: Tensor = x + self.dropout(self.feed(x))
        return out


class MaskedEncoder(nn.Module):
    """Words, their places and two blocks; words are told by the same vectors."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, width)
        self.places = nn.Parameter(0.02 * torch.randn(LONG, width))
        nn.init.normal_(self.words.weight, std=0.1)
        self.blocks = nn.Sequential(Block(width, 2), Block(width, 2))
        self.norm = nn.LayerNorm(width)
        self.bias = nn.Parameter(torch.zeros(WORDS))

    def forward(self, words: Tensor) -> Tensor:
        hidden: Tensor = self.norm(self.blocks(self.words(words) + self.places))
        return functional.linear(hidden, self.words.weight, self.bias)


class MaskedWords(Task):
    """A fifth of the words is hidden, others every time; the loss is that of the hidden ones."""

    def __init__(self) -> None:
        self.train, self.held_out = parted(lines(8400), 400)
        self.model = MaskedEncoder()
        self._hidden = torch.zeros(0, dtype=torch.bool)

    def outputs(self, inputs: Tensor) -> Any:
        self._hidden = torch.rand(inputs.shape, device=inputs.device) < HIDDEN
        return self.model(inputs.masked_fill(self._hidden, MASK))

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        wanted = targets.masked_fill(~self._hidden, -100)
        return functional.cross_entropy(outputs.flatten(0, 1), wanted.flatten())

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        right = (outputs.argmax(-1) == targets).float() * self._hidden
        return {"accuracy": float(right.sum() / self._hidden.sum().clamp(min=1))}


KINDS = (
    Kind(
        "upscale",
        "unseen",
        SuperResolution,
        (
            OptimizerChoice("adam", 1.5e-3, decay="steps"),
            OptimizerChoice("momentum", 0.2, decay="linear"),
        ),
        steps=800,
        batch_size=16,
        accumulate=2,
        log_every=2,
        faults=(
            "rate_x30 tiny_init labels_shuffled nan_input rate_zero one_batch slow_loader",
            "rate_too_small wrong_sign clip_tight missing_zero_grad exploding_init rate_x30",
        ),
    ),
    Kind(
        "vq",
        "unseen",
        Quantised,
        (OptimizerChoice("adamw", 2e-3), OptimizerChoice("nadam", 1e-3, decay="sqrt")),
        steps=1000,
        batch_size=32,
        num_evals=10,
        typed=False,
        faults=(
            "rate_x30 stale_batchnorm nan_input missing_zero_grad one_batch exploding_init "
            "missing_parameters",
            "rate_x30 schedule_unit wrong_sign missing_step overfitting",
        ),
    ),
    Kind(
        "masked_words",
        "unseen",
        MaskedWords,
        (
            OptimizerChoice("adamw", 4e-3, {"weight_decay": 0.01}, decay="linear"),
            OptimizerChoice("adafactor", 0.03, decay="sqrt"),
        ),
        steps=1400,
        batch_size=32,
        warmup=80,
        clip=1.0,
        faults=(
            "no_warmup rate_x30 rate_zero schedule_unit overfitting wrong_sign double_softmax "
            "labels_shuffled",
            "rate_x30 missing_step exploding_init one_batch",
        ),
    ),
)
