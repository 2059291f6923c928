"""Source code of Python's standard library: the next character, and which module a line is from."""

from __future__ import annotations

import argparse
import difflib
import functools
import subprocess
import tarfile
import typing
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.clinic.task import Split, Task
from benchmarks.clinic.tasks.vision import Attention

_MODULES = (argparse, difflib, subprocess, tarfile, typing)
_KNOWN = "\n abcdefghijklmnopqrstuvwxyz0123456789_.,:;()[]{}'\"#=+-*/<>%!@\\"
LETTERS = len(_KNOWN) + 1  # and one for all others
LENGTH = 24


@functools.cache
def module_letters() -> tuple[Tensor, ...]:
    """The letters of each module's source as numbers."""
    numbers = {letter: number for number, letter in enumerate(_KNOWN)}
    found = []
    for module in _MODULES:
        assert module.__file__ is not None
        source = Path(module.__file__).read_text(encoding="utf-8").lower()[:60_000]
        found.append(torch.tensor([numbers.get(letter, LETTERS - 1) for letter in source]))
    return tuple(found)


def windows(count: int) -> Split:
    """Pieces of the sources; the target of each letter is the next one. The last are held out."""
    letters = torch.cat(module_letters())
    cut = len(letters) * 9 // 10
    starts = torch.randint(cut - LENGTH, (count,))
    starts[-300:] = torch.randint(cut, len(letters) - LENGTH - 1, (300,))
    pieces = letters[starts[:, None] + torch.arange(LENGTH + 1)]
    return Split(pieces[:, :-1].contiguous(), pieces[:, 1:].contiguous())


class NextLetter(Task):
    """The next letter at every place."""

    float_inputs = False

    def __init__(self) -> None:
        self.train, self.held_out = windows(8300).parts(300)

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.cross_entropy(outputs.flatten(0, 1), targets.flatten())


class Decoder(nn.Module):
    """A small GPT."""

    def __init__(self, blocks: list[nn.Module], width: int = 32) -> None:
        super().__init__()
        self.letters = nn.Embedding(LETTERS, width)
        self.places = nn.Embedding(LENGTH, width)
        nn.init.normal_(self.letters.weight, std=0.1)
        nn.init.normal_(self.places.weight, std=0.1)
        self.blocks = nn.Sequential(*blocks)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, LETTERS)

    def forward(self, letters: Tensor) -> Tensor:
        out: Tensor = self.head(self.norm(self.blocks(self.letters(letters) + self.places.weight)))
        return out


class CharTransformer(NextLetter):
    name = "char_transformer"
    lr = 8e-3
    steps = 350
    batch_size = 16
    warmup = 50
    cosine = True
    clip = 1.0
    has_modes = True

    def __init__(self) -> None:
        super().__init__()
        self.model = Decoder([Attention(32, 2, 0.1, causal=True) for _ in range(2)])


class Recurrent(nn.Module):
    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.letters = nn.Embedding(LETTERS, width)
        self.cells = nn.LSTM(width, width, batch_first=True)
        self.dropout = nn.Dropout(0.1)
        self.head = nn.Linear(width, LETTERS)

    def forward(self, letters: Tensor) -> Tensor:
        hidden, _ = self.cells(self.letters(letters))
        out: Tensor = self.head(self.dropout(hidden))
        return out


class CharLstm(NextLetter):
    name = "char_lstm"
    optimizer = "adam"
    lr = 1e-2
    batch_size = 16
    clip = 1.0
    typed = False
    has_modes = True

    def __init__(self) -> None:
        super().__init__()
        self.model = Recurrent()


class WordBag(nn.Module):
    """Convolutions over the letters of a line, and the strongest answer of each."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.letters = nn.Embedding(LETTERS, width)
        self.pieces = nn.Conv1d(width, 48, 5)
        self.dropout = nn.Dropout(0.2)
        self.head = nn.Linear(48, len(_MODULES))

    def forward(self, letters: Tensor) -> Tensor:
        found = functional.relu(self.pieces(self.letters(letters).transpose(1, 2))).amax(2)
        out: Tensor = self.head(self.dropout(found))
        return out


class CodeTopics(Task):
    """Which module 48 letters are from."""

    name = "code_topics"
    lr = 8e-3
    float_inputs = False
    sortable = True
    has_modes = True
    first_layer = "pieces"
    config: ClassVar = {"num_classes": len(_MODULES)}

    def __init__(self) -> None:
        pieces, labels = [], []
        for label, letters in enumerate(module_letters()):
            starts = torch.randint(len(letters) - 48, (1200,))
            pieces.append(letters[starts[:, None] + torch.arange(48)])
            labels.append(torch.full((1200,), label))
        order = torch.randperm(6000)
        split = Split(torch.cat(pieces)[order], torch.cat(labels)[order])
        self.train, self.held_out = split.parts(600)
        self.model = WordBag()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.cross_entropy(outputs, targets)

    def metrics(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        return {"acc": float((outputs.argmax(1) == targets).float().mean())}


TASKS = (CharTransformer, CharLstm, CodeTopics)
