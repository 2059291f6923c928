"""Batches for all ranks: shuffled again in each epoch, and resumable in the middle of one.

The order of an epoch follows from the seed and the number of the epoch, so a checkpoint stores only
the position in it. The position counts the examples of all ranks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from data import Shard, Tokenizer
from distributed import Process
from epochal import UsageError
from model import IGNORED

_HELD_OUT = 0.05
_QUESTIONS = ("instruction", "prompt")
_ANSWERS = ("output", "response", "completion")


@dataclass(frozen=True)
class Batch:
    """One batch of one rank. The last three fields count targets and tokens in the loss.

    `num_targets` counts those of this rank, `all_targets` and `all_tokens` those of all ranks.
    """

    inputs: Tensor
    targets: Tensor
    num_targets: int
    all_targets: int
    all_tokens: int


class Dataset(Protocol):
    """Examples that can be put into a batch by their indices."""

    def __len__(self) -> int: ...

    @property
    def fingerprint(self) -> list[Any]:
        """What must be equal for a training to continue on this data."""

    def collate(self, indices: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Return inputs and targets."""

    def count(self, indices: Sequence[int]) -> tuple[int, int]:
        """Return the number of targets in the loss, and of tokens."""


class Windows:
    """Windows of `context` tokens, with the token after each as its target."""

    def __init__(self, shards: Sequence[Shard], context: int) -> None:
        self._shards, self._context = list(shards), context
        counts = [(len(shard.tokens) - 1) // context for shard in shards]
        self._starts = np.cumsum([0, *counts])

    def __len__(self) -> int:
        return int(self._starts[-1])

    @property
    def fingerprint(self) -> list[Any]:
        return [self._context, *([shard.name, len(shard.tokens)] for shard in self._shards)]

    def collate(self, indices: Sequence[int]) -> tuple[Tensor, Tensor]:
        windows = torch.from_numpy(np.stack([self._window(i) for i in indices]).astype(np.int64))
        return windows[:, :-1], windows[:, 1:]

    def count(self, indices: Sequence[int]) -> tuple[int, int]:
        count = len(indices) * self._context
        return count, count

    def _window(self, index: int) -> Any:
        shard = int(np.searchsorted(self._starts, index, side="right")) - 1
        first = (index - int(self._starts[shard])) * self._context
        return self._shards[shard].tokens[first : first + self._context + 1]


class Instructions:
    """Questions and answers. Only the answer counts in the loss."""

    def __init__(self, rows: Sequence[tuple[list[int], list[int]]], end: int) -> None:
        self._rows, self._end = list(rows), end

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def fingerprint(self) -> list[Any]:
        return ["instructions", len(self._rows)]

    def collate(self, indices: Sequence[int]) -> tuple[Tensor, Tensor]:
        rows = [self._rows[index] for index in indices]
        longest = max(len(question) + len(answer) for question, answer in rows) - 1
        inputs = torch.full((len(rows), longest), self._end)
        targets = torch.full((len(rows), longest), IGNORED)
        for index, (question, answer) in enumerate(rows):
            length = len(question) + len(answer) - 1
            inputs[index, :length] = torch.tensor([*question, *answer][:-1])
            targets[index, len(question) - 1 : length] = torch.tensor(answer)
        return inputs, targets

    def count(self, indices: Sequence[int]) -> tuple[int, int]:
        rows = [self._rows[index] for index in indices]
        num_targets = sum(len(answer) for _, answer in rows)
        return num_targets, num_targets + sum(len(question) for question, _ in rows)


class Batches:
    """The batches of one rank."""

    def __init__(
        self, train: Dataset, held_out: Dataset, *, batch_size: int, seed: int, process: Process
    ) -> None:
        self._train, self._held_out = train, held_out
        self._size, self._seed, self._process = batch_size, seed, process
        self._size_of_all = batch_size * process.world_size
        if len(train) < self._size_of_all:
            raise UsageError(
                f"The data has {len(train)} training examples, which is too few for "
                f"--mini_batch_size {batch_size} on {process.world_size} ranks."
            )
        self._begin_epoch(0)

    def next(self) -> Batch:
        """Return the next batch. Examples that do not fill a batch of all ranks are left out."""
        if self._position + self._size_of_all > len(self._train):
            self._begin_epoch(self.epoch + 1)
        chosen = self._order[self._position : self._position + self._size_of_all].tolist()
        self._position += self._size_of_all
        first = self._process.rank * self._size
        return self._batch(self._train, chosen[first : first + self._size], chosen)

    def validation(self, num_batches: int) -> Iterator[Batch]:
        """Yield this rank's share of the validation examples, the same ones every time."""
        last = min(len(self._held_out), num_batches * self._size_of_all)
        mine = range(self._process.rank, last, self._process.world_size)
        for start in range(0, len(mine), self._size):
            indices = mine[start : start + self._size]
            yield self._batch(self._held_out, indices, indices)

    def state_dict(self) -> dict[str, Any]:
        return {
            "epoch": self.epoch,
            "position": self._position,
            "seed": self._seed,
            "data": self._train.fingerprint,
        }

    def load_state_dict(self, state_dict: dict[str, Any], /) -> None:
        if list(state_dict["data"]) != self._train.fingerprint:
            raise UsageError(
                "The data has changed since the checkpoint was saved: its files, their lengths "
                "or --context_length are different."
            )
        self._seed = state_dict["seed"]
        self._begin_epoch(state_dict["epoch"])
        self._position = state_dict["position"]

    def _begin_epoch(self, epoch: int) -> None:
        self.epoch, self._position = epoch, 0
        self._order = np.random.default_rng((self._seed, epoch)).permutation(len(self._train))

    def _batch(self, dataset: Dataset, mine: Sequence[int], everyone: Sequence[int]) -> Batch:
        inputs, targets = map(self._process.to_device, dataset.collate(mine))
        return Batch(inputs, targets, dataset.count(mine)[0], *dataset.count(everyone))


def read_instructions(
    path: str, tokenizer: Tokenizer, *, context: int
) -> tuple[Instructions, Instructions]:
    """Read a ``.jsonl`` file for fine-tuning; the last 5 % of it are kept for validation.

    Each line has ``instruction``, perhaps ``input``, and ``output``; or ``prompt`` and ``response``
    (or ``completion``). An example that is too long keeps the end of its question.
    """
    rows: list[tuple[list[int], list[int]]] = []
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UsageError(f"--finetune {path} cannot be read: {error.strerror}.") from error
    for number, line in enumerate(lines, 1):
        if line.strip():
            question, text = _texts(line, f"{path}, line {number}")
            answer = [*tokenizer.encode(text), tokenizer.end][: context - 1]
            rows.append((tokenizer.encode(question)[-(context + 1 - len(answer)) :], answer))
    if len(rows) < 2:
        raise UsageError(f"{path} needs at least 2 examples: one is kept for validation.")
    cut = len(rows) - max(1, int(_HELD_OUT * len(rows)))
    return Instructions(rows[:cut], tokenizer.end), Instructions(rows[cut:], tokenizer.end)


def _texts(line: str, where: str) -> tuple[str, str]:
    try:
        row = json.loads(line)
        question = next(str(row[name]) for name in _QUESTIONS if name in row)
        answer = next(str(row[name]) for name in _ANSWERS if name in row)
    except (ValueError, TypeError, StopIteration) as error:
        raise UsageError(
            f"{where} needs one of {', '.join(_QUESTIONS)} and one of {', '.join(_ANSWERS)}."
        ) from error
    more = f"\n{row['input']}" if row.get("input") else ""
    return f"### Instruction:\n{question}{more}\n\n### Response:\n", answer
