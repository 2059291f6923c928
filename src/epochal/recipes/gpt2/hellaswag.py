"""HellaSwag: which of four endings follows from a text? Chance is 0.25.

Reads the public ``hellaswag_val.jsonl`` (fields ``ctx``, ``endings``, ``label``). Each ending is
appended to the text. The model chooses the most likely ending, by the sum over its tokens (acc) or
by the mean (acc_norm). The mean does not favour short endings and is the usual figure.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812 (its usual name)
from torch import Tensor

from epochal.errors import FormatError, UsageError
from epochal.recipes.gpt2.batch_iterator import BatchIterator, plain_iterator
from epochal.recipes.gpt2.model import GPT
from epochal.recipes.gpt2.place import Place
from epochal.recipes.gpt2.tokens import Tokenizer

FILE = "hellaswag_val.jsonl"
_NUM_ENDINGS = 4
_EXAMPLES_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Example:
    """A text, four endings, and which of them is right."""

    context: str
    endings: tuple[str, ...]
    label: int


@dataclass(frozen=True, slots=True)
class Accuracy:
    """The share of right choices, by the sum and by the mean over an ending's tokens."""

    acc: float
    acc_norm: float
    num_examples: int


def find_hellaswag(given: str | None, *, data: str | None) -> Path | None:
    """The file: as given, or beside the data, in ``hellaswag/`` or here; None when there is none.

    One that is given must exist.
    """
    if given is not None:
        if not Path(given).is_file():
            raise UsageError(f"--hellaswag {given}: there is no such file.")
        return Path(given)
    beside = [] if data is None else [Path(data), Path(data).parent]
    for folder in (*beside, Path("hellaswag"), Path()):
        if (folder / FILE).is_file():
            return folder / FILE
    return None


def read_examples(path: Path, *, limit: int | None = None) -> list[Example]:
    """The examples of a file; raises FormatError for a line that is none."""
    examples: list[Example] = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if limit is not None and len(examples) >= limit:
                break
            if line.strip():
                examples.append(_example(line, path, number))
    if not examples:
        raise FormatError(f"{path} holds no examples.")
    return examples


@torch.no_grad()
def measure(
    model: GPT,
    tokenizer: Tokenizer,
    examples: Sequence[Example],
    *,
    place: Place,
    iterate: BatchIterator = plain_iterator,
) -> Accuracy:
    """Have the model choose; the examples are shared out over the ranks, the answer is everyone's.

    What does not fit into the context loses its beginning.
    """
    mine = examples[place.rank :: place.world_size]
    right = right_norm = 0
    for start in iterate(range(0, len(mine), _EXAMPLES_AT_ONCE)):
        some = mine[start : start + _EXAMPLES_AT_ONCE]
        sums, means = _costs(model, tokenizer, some, place=place)
        labels = torch.tensor([example.label for example in some], device=place.device)
        right += int((sums.argmin(1) == labels).sum())
        right_norm += int((means.argmin(1) == labels).sum())
    count, acc, acc_norm = place.sums([len(mine), right, right_norm])
    return Accuracy(acc / count, acc_norm / count, int(count))


def _costs(
    model: GPT, tokenizer: Tokenizer, examples: Sequence[Example], *, place: Place
) -> tuple[Tensor, Tensor]:
    """The loss of each ending of each example: summed over its tokens, and their mean."""
    context = model.shape.context_length
    rows = [row for example in examples for row in _rows(example, tokenizer, context)]
    longest = max(len(tokens) for tokens, _ in rows)
    padded = torch.zeros(len(rows), longest, dtype=torch.int64)
    counts = torch.zeros(len(rows), longest)
    for index, (tokens, num_ending) in enumerate(rows):
        padded[index, : len(tokens)] = torch.tensor(tokens)
        counts[index, len(tokens) - num_ending : len(tokens)] = 1.0
    padded, counts = padded.to(place.device), counts.to(place.device)[:, 1:]
    with place.autocast():
        logits = model.logits(padded[:, :-1])
    losses = F.cross_entropy(logits.float().transpose(1, 2), padded[:, 1:], reduction="none")
    sums = (losses * counts).sum(1)
    shape = (len(examples), _NUM_ENDINGS)
    return sums.view(shape), (sums / counts.sum(1)).view(shape)


def _rows(example: Example, tokenizer: Tokenizer, context: int) -> Iterator[tuple[list[int], int]]:
    start = tokenizer.encode(example.context)
    for ending in example.endings:
        tokens = tokenizer.encode(f" {ending}")
        whole = [*start, *tokens][-(context + 1) :]
        # The first token has nothing before it to be expected from.
        yield whole, min(len(tokens), len(whole) - 1)


def _example(line: str, path: Path, number: int) -> Example:
    try:
        row = json.loads(line)
        endings = tuple(str(ending) for ending in row["endings"])
        example = Example(str(row["ctx"]), endings, int(row["label"]))
    except (ValueError, KeyError, TypeError) as error:
        raise FormatError(f"{path}, line {number} is no example of HellaSwag: {error}") from error
    if len(endings) != _NUM_ENDINGS or not 0 <= example.label < _NUM_ENDINGS:
        raise FormatError(f"{path}, line {number} must have 4 endings and a label from 0 to 3.")
    return example
