"""Fine-tuning on instructions: the loss counts the answer alone, padding counts for nothing.

A line of the ``.jsonl`` file has ``instruction``, perhaps ``input``, and ``output``; or ``prompt``
and ``response`` (or ``completion``). Examples are shuffled anew each epoch and apart on each rank.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from epochal.errors import FormatError, UsageError
from epochal.recipes.gpt2.data import Batch, seed_of
from epochal.recipes.gpt2.model import IGNORED
from epochal.recipes.gpt2.place import Place
from epochal.recipes.gpt2.tokens import Tokenizer
from epochal.torch.rng import Rng

_HELD_OUT = 0.05
_ANSWERS = ("output", "response", "completion")
_QUESTIONS = ("instruction", "prompt")


@dataclass(frozen=True, slots=True)
class Instruction:
    """A question and its answer, as tokens; the answer ends with the tokenizer's end."""

    question: tuple[int, ...]
    answer: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.question) + len(self.answer)


def read_instructions(path: str, tokenizer: Tokenizer, *, context: int) -> list[Instruction]:
    """The examples of a file; one too long for the context keeps the end of its question.

    Raises UsageError when the file cannot be read, FormatError for a line that is no example.
    """
    rows: list[Instruction] = []
    try:
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    question, answer = _texts(line, path, number)
                    rows.append(_fitted(question, answer, tokenizer, context))
    except OSError as error:
        raise UsageError(f"--finetune {path} cannot be read: {error.strerror}.") from error
    if len(rows) < 2:
        raise FormatError(f"{path} must hold at least 2 examples: one is kept to judge by.")
    return rows


class InstructionBatches:
    """Batches of questions and answers, each as long as its longest example."""

    def __init__(
        self, rows: Sequence[Instruction], *, batch_size: int, seed: int, place: Place, end: int
    ) -> None:
        num_held = max(1, int(_HELD_OUT * len(rows)))
        self._train, self._held = list(rows[:-num_held]), list(rows[-num_held:])
        self._batch, self._seed, self._place, self._end = batch_size, seed, place, end
        self._at_once = batch_size * place.world_size
        if len(self._train) < self._at_once:
            raise UsageError(
                f"{len(self._train)} examples are too few for --mini_batch_size {batch_size} on "
                f"{place.world_size} ranks."
            )
        self.epoch = 0
        self._position = 0
        self._order: list[int] = []
        self._begin_epoch(0)

    def num_tokens(self) -> dict[str, int]:
        """Tokens of what is trained on and of what is kept apart."""
        return {
            "train": sum(len(row) for row in self._train),
            "eval": sum(len(row) for row in self._held),
        }

    def next(self) -> Batch:
        """The next batch of this rank; what does not fill a batch of all ranks is left out."""
        if self._position + self._at_once > len(self._train):
            self._begin_epoch(self.epoch + 1)
        chosen = self._order[self._position : self._position + self._at_once]
        self._position += self._at_once
        mine = self._place.rank * self._batch
        rows = [self._train[index] for index in chosen]
        return self._made(rows[mine : mine + self._batch], everybody=rows)

    def validation(self, num_batches: int) -> Iterator[Batch]:
        """This rank's share of the examples kept apart."""
        chosen = self._held[: num_batches * self._at_once]
        mine = chosen[self._place.rank :: self._place.world_size]
        for start in range(0, len(mine), self._batch):
            rows = mine[start : start + self._batch]
            yield self._made(rows, everybody=rows)

    def state_dict(self) -> dict[str, Any]:
        """The epoch, its order, and how far it is."""
        return {
            "epoch": self.epoch,
            "position": self._position,
            "order": list(self._order),
            "num_rows": len(self._train),
        }

    def load_state_dict(self, state_dict: dict[str, Any], /) -> None:
        """Go on in the saved order; raises UsageError when there are not as many examples."""
        if state_dict["num_rows"] != len(self._train):
            raise UsageError(
                f"--finetune has {len(self._train)} examples to train on; the checkpoint was "
                f"saved with {state_dict['num_rows']}."
            )
        self.epoch, self._position = state_dict["epoch"], state_dict["position"]
        self._order = list(state_dict["order"])

    def _begin_epoch(self, epoch: int) -> None:
        self.epoch, self._position = epoch, 0
        self._order = list(range(len(self._train)))
        Rng(seed_of(self._seed, epoch)).shuffle(self._order)

    def _made(self, rows: Sequence[Instruction], *, everybody: Sequence[Instruction]) -> Batch:
        longest = max(len(row) for row in rows) - 1
        inputs = torch.full((len(rows), longest), self._end)
        targets = torch.full((len(rows), longest), IGNORED)
        for index, row in enumerate(rows):
            tokens = [*row.question, *row.answer]
            inputs[index, : len(row) - 1] = torch.tensor(tokens[:-1])
            start = len(row.question) - 1
            targets[index, start : len(row) - 1] = torch.tensor(row.answer)
        device = self._place.device
        if device.type == "cuda":
            inputs = inputs.pin_memory().to(device, non_blocking=True)
            targets = targets.pin_memory().to(device, non_blocking=True)
        return Batch(
            inputs,
            targets,
            num_targets=sum(len(row.answer) for row in rows),
            all_targets=sum(len(row.answer) for row in everybody),
            all_tokens=sum(len(row) for row in everybody),
        )


def _texts(line: str, path: str, number: int) -> tuple[str, str]:
    try:
        row = json.loads(line)
        question = next(str(row[name]) for name in _QUESTIONS if name in row)
        answer = next(str(row[name]) for name in _ANSWERS if name in row)
    except (ValueError, TypeError, StopIteration) as error:
        raise FormatError(
            f"{path}, line {number} needs one of {', '.join(_QUESTIONS)} and one of "
            f"{', '.join(_ANSWERS)}."
        ) from error
    more = f"\n{row['input']}" if row.get("input") else ""
    return f"### Instruction:\n{question}{more}\n\n### Response:\n", answer


def _fitted(question: str, answer: str, tokenizer: Tokenizer, context: int) -> Instruction:
    answered = [*tokenizer.encode(answer), tokenizer.end][: context - 1]
    asked = tokenizer.encode(question)[-(context + 1 - len(answered)) :]
    return Instruction(tuple(asked), tuple(answered))
