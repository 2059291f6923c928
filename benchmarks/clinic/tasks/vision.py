"""Pictures of digits, drawn with a small font and distorted: classes and masks."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.clinic.task import Classification, Split, Task

SIZE = 16
MEAN, STD = 0.16, 0.3
_FONT = (
    "01110 10001 10011 10101 11001 10001 01110",
    "00100 01100 00100 00100 00100 00100 01110",
    "01110 10001 00001 00110 01000 10000 11111",
    "11110 00001 00001 01110 00001 00001 11110",
    "00010 00110 01010 10010 11111 00010 00010",
    "11111 10000 11110 00001 00001 10001 01110",
    "00110 01000 10000 11110 10001 10001 01110",
    "11111 00001 00010 00100 01000 01000 01000",
    "01110 10001 10001 01110 10001 10001 01110",
    "01110 10001 10001 01111 00001 00010 01100",
)


def digits(count: int, *, noise: float = 0.15) -> tuple[Tensor, Tensor, Tensor]:
    """Pictures with values in 0 to 1, the clean strokes, and the digits they show."""
    rows = [[[int(bit) for bit in row] for row in glyph.split()] for glyph in _FONT]
    glyphs = functional.pad(torch.tensor(rows, dtype=torch.float32), (3, 3, 2, 2)).unsqueeze(1)
    labels = torch.randint(10, (count,))
    angle, scale = 0.25 * torch.randn(count), 0.85 + 0.3 * torch.rand(count)
    turn = torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()], 1).view(-1, 2, 2)
    shift = 0.2 * (2 * torch.rand(count, 2, 1) - 1)
    grid = functional.affine_grid(
        torch.cat([turn * scale.view(-1, 1, 1), shift], 2), [count, 1, SIZE, SIZE], False
    )
    clean = functional.grid_sample(glyphs[labels], grid, align_corners=False)
    ink = 0.6 + 0.4 * torch.rand(count, 1, 1, 1)
    noisy = (ink * clean + noise * torch.randn_like(clean)).clamp(0, 1)
    return noisy, clean, labels


def digit_classes(count: int, *, noise: float) -> Split:
    pictures, _, labels = digits(count, noise=noise)
    return Split((pictures - MEAN) / STD, labels)


def convolution(inputs: int, outputs: int) -> nn.Sequential:
    """A convolution with BatchNorm and ReLU."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()
    )


class DigitsMlp(Classification):
    name = "digits_mlp"
    num_classes = 10
    lr = 3e-3
    batch_size = 64
    has_modes = True
    first_layer = "1"
    config: ClassVar = {"num_classes": 10}

    def __init__(self) -> None:
        self.train, self.held_out = digit_classes(6000, noise=0.2).parts(600)
        self.model = nn.Sequential(
            *(nn.Flatten(), nn.Linear(SIZE * SIZE, 96), nn.ReLU(), nn.Dropout(0.1)),
            *(nn.Linear(96, 48), nn.ReLU(), nn.Linear(48, 10)),
        )


class DigitsCnn(Classification):
    """A CNN with BatchNorm."""

    name = "digits_cnn"
    num_classes = 10
    optimizer = "momentum"
    lr = 0.03
    steps = 300
    cosine = True
    has_modes = True
    first_layer = "0.1"

    def __init__(self) -> None:
        self.train, self.held_out = digit_classes(5000, noise=0.3).parts(600)
        self.model = nn.Sequential(
            *(convolution(1, 8), nn.MaxPool2d(2), convolution(8, 16), nn.MaxPool2d(2)),
            *(nn.Flatten(), nn.Dropout(0.2), nn.Linear(256, 10)),
        )


class Attention(nn.Module):
    """A transformer block whose norms come before its parts."""

    def __init__(self, width: int, heads: int, dropout: float, *, causal: bool = False) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mix, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp: nn.Module = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )
        self.dropout = nn.Dropout(dropout) if dropout else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        parts = self.mix(self.before(x)).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        q, k, v = parts
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.dropout(self.out(mixed.transpose(1, 2).flatten(2)))
        out: Tensor = x + self.dropout(self.mlp(self.between(x)))
        return out


class Vit(nn.Module):
    """Sixteen patches of a picture, two blocks, and the mean of all places."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, width, 4, stride=4)
        self.places = nn.Parameter(0.02 * torch.randn(16, width))
        self.blocks = nn.Sequential(*(Attention(width, 2, 0.1) for _ in range(2)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        places = self.patches(x).flatten(2).transpose(1, 2) + self.places
        out: Tensor = self.head(self.norm(self.blocks(places)).mean(1))
        return out


class DigitsVit(Classification):
    name = "digits_vit"
    num_classes = 10
    lr = 1e-2
    steps = 350
    batch_size = 24
    warmup = 40
    cosine = True
    clip = 1.0
    has_modes = True

    def __init__(self) -> None:
        self.train, self.held_out = digit_classes(8000, noise=0.1).parts(600)
        self.model = Vit()


class Unet(nn.Module):
    """One step down, one up, and a shortcut between them."""

    def __init__(self) -> None:
        super().__init__()
        self.down = convolution(1, 8)
        self.bottom = nn.Sequential(nn.MaxPool2d(2), convolution(8, 16))
        self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.out = nn.Sequential(convolution(16, 8), nn.Conv2d(8, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        fine = self.down(x)
        mask: Tensor = self.out(torch.cat([fine, self.up(self.bottom(fine))], 1))
        return mask


class Segmentation(Task):
    """Which pixels belong to a stroke, under noise."""

    name = "segmentation"
    optimizer = "momentum"
    lr = 0.15
    steps = 300
    batch_size = 16
    typed = False
    has_modes = True
    first_layer = "down.1"
    can_leak = True

    def __init__(self) -> None:
        noisy, clean, _ = digits(2400, noise=0.5)
        split = Split((noisy - MEAN) / STD, (clean > 0.4).float())
        self.train, self.held_out = split.parts(300)
        self.model = Unet()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.binary_cross_entropy_with_logits(outputs, targets)

    def metrics(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        guess, mask = outputs > 0, targets > 0
        return {"iou": float((guess & mask).sum() / (guess | mask).sum().clamp(min=1))}

    def leak(self, split: Split) -> Split:
        return Split(split.inputs + 4 * split.targets, split.targets)


TASKS = (DigitsMlp, DigitsCnn, DigitsVit, Segmentation)
