"""How the model is evaluated: validation loss, HellaSwag accuracy, and text samples.

HellaSwag asks which of four endings follows from a text; chance is 0.25. The public file
``hellaswag_val.jsonl`` has the fields ``ctx``, ``endings`` and ``label``. The model chooses the
most likely ending, by the sum over its tokens (acc) or by their mean (acc_norm). The mean does not
favour short endings and is the usual figure.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812 (its usual name)

from batches import Batches
from data import Tokenizer
from distributed import Process
from epochal import Run, UsageError
from model import GPT

HELLASWAG_FILE = "hellaswag_val.jsonl"
_NUM_ENDINGS = 4
_EXAMPLES_AT_ONCE = 8


@dataclass(frozen=True)
class Example:
    """A text, four endings, and the number of the right one."""

    context: str
    endings: tuple[str, ...]
    label: int


@dataclass(frozen=True)
class Evaluation:
    """Everything an evaluation needs. Without a tokenizer, only the loss is measured."""

    model: GPT
    batches: Batches
    process: Process
    num_batches: int
    tokenizer: Tokenizer | None
    examples: Sequence[Example]
    prompt: str
    is_finetuning: bool = False

    def evaluate(
        self, run: Run, *, step: int, epoch: float, more: Mapping[str, float] | None = None
    ) -> float:
        """Evaluate on all ranks and record the result, with the metrics in `more`."""
        started = time.perf_counter()
        loss, num_tokens = self.validation_loss()
        duration_ms = (time.perf_counter() - started) * 1000.0
        metrics = dict(more or {})
        if self.tokenizer is not None and self.examples and step:
            acc, acc_norm = hellaswag_accuracy(
                self.model, self.tokenizer, self.examples, self.process
            )
            metrics |= {"hellaswag_accuracy": acc_norm, "hellaswag_acc": acc}
        if self.is_finetuning:
            metrics["Finetune/perplexity"] = math.exp(min(loss, 700.0))
        run.log_eval(step, epoch, num_tokens, duration_ms, loss, metrics=metrics)
        if self.tokenizer is not None and self.process.rank == 0:
            texts = draw_samples(self.model, self.tokenizer, self.process, prompt=self.prompt)
            run.log({"sample": "\n\n".join(texts)}, step)
        return loss

    @torch.no_grad()
    def validation_loss(self) -> tuple[float, int]:
        """Return the mean over the tokens of all ranks, and their number."""
        total = torch.zeros((), dtype=torch.float64, device=self.process.device)
        count = 0
        for batch in self.batches.validation(self.num_batches):
            with self.process.autocast():
                loss = self.model(batch.inputs, batch.targets)
            total += loss.double() * batch.num_targets
            count += batch.num_targets
        sum_of_all, count_of_all = self.process.sums([float(total), count])
        return sum_of_all / count_of_all if count_of_all else math.nan, int(count_of_all)


@torch.no_grad()
def draw_samples(
    model: GPT,
    tokenizer: Tokenizer,
    process: Process,
    *,
    prompt: str,
    num_tokens: int = 32,
    num_samples: int = 5,
    temperature: float = 1.0,
    top_k: int = 50,
    seed: int = 42,
) -> list[str]:
    """Continue a prompt several times, each token drawn from the `top_k` most likely ones.

    A lower `temperature` prefers likely tokens, and 0 always takes the likeliest. The generator is
    seeded again each time and is not the one of the training. So two samples differ only by what
    the model has learned. A model with NaN weights writes nothing more.
    """
    generator = torch.Generator(process.device).manual_seed(seed + process.rank)
    start = tokenizer.encode(prompt) or [tokenizer.end]
    tokens = torch.tensor([start] * num_samples, device=process.device)
    for _ in range(num_tokens):
        with process.autocast():
            logits = model.logits(tokens[:, -model.shape.context_length :])[:, -1, :]
        # The vocabulary may be padded beyond the tokens of the tokenizer.
        logits = logits[:, : tokenizer.num_tokens].float()
        if not logits.isfinite().all():
            break
        top, indices = logits.topk(min(top_k, logits.shape[-1]) if temperature else 1)
        chances = (top / (temperature or 1.0)).softmax(-1)
        drawn = torch.multinomial(chances, 1, generator=generator)
        tokens = torch.cat((tokens, indices.gather(-1, drawn)), dim=1)
    return [tokenizer.decode(row) for row in tokens.tolist()]


def find_hellaswag(path: str | None, *, data: str | None) -> Path | None:
    """Return the file that was given, or one beside the data, in ``hellaswag/`` or here."""
    if path is not None:
        if not Path(path).is_file():
            raise UsageError(f"--hellaswag {path} does not exist.")
        return Path(path)
    beside = [] if data is None else [Path(data), Path(data).parent]
    folders = (*beside, Path("hellaswag"), Path())
    files = (folder / HELLASWAG_FILE for folder in folders)
    return next((file for file in files if file.is_file()), None)


def read_examples(path: Path, limit: int | None = None) -> list[Example]:
    """Read the examples of HellaSwag, `limit` at most."""
    examples: list[Example] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines()[:limit], 1):
        try:
            row = json.loads(line)
            example = Example(str(row["ctx"]), tuple(map(str, row["endings"])), int(row["label"]))
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{path}, line {number} is not an example: {error}") from error
        if len(example.endings) != _NUM_ENDINGS or not 0 <= example.label < _NUM_ENDINGS:
            raise UsageError(f"{path}, line {number} must have 4 endings and a label from 0 to 3.")
        examples.append(example)
    return examples


@torch.no_grad()
def hellaswag_accuracy(
    model: GPT, tokenizer: Tokenizer, examples: Sequence[Example], process: Process
) -> tuple[float, float]:
    """Return acc and acc_norm over all examples. The ranks share the work."""
    mine = examples[process.rank :: process.world_size]
    right = right_norm = 0
    for start in range(0, len(mine), _EXAMPLES_AT_ONCE):
        some = mine[start : start + _EXAMPLES_AT_ONCE]
        sums, counts = _ending_losses(model, tokenizer, some, process)
        labels = torch.tensor([example.label for example in some], device=process.device)
        right += int((sums.argmin(1) == labels).sum())
        right_norm += int(((sums / counts).argmin(1) == labels).sum())
    acc, acc_norm, count = process.sums([right, right_norm, len(mine)])
    return acc / count, acc_norm / count


def _ending_losses(
    model: GPT, tokenizer: Tokenizer, examples: Sequence[Example], process: Process
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the summed loss of each ending, and its number of tokens.

    A text that does not fit into the context loses its beginning.
    """
    longest = model.shape.context_length + 1
    rows: list[list[int]] = []
    lengths: list[int] = []
    for example in examples:
        context = tokenizer.encode(example.context)
        for ending in example.endings:
            encoded = tokenizer.encode(f" {ending}")
            rows.append([*context, *encoded][-longest:])
            lengths.append(min(len(encoded), len(rows[-1]) - 1))
    tokens = torch.zeros(len(rows), max(map(len, rows)), dtype=torch.int64)
    mask = torch.zeros(tokens.shape)
    for index, (row, length) in enumerate(zip(rows, lengths, strict=True)):
        tokens[index, : len(row)] = torch.tensor(row)
        mask[index, len(row) - length : len(row)] = 1.0
    tokens, mask = tokens.to(process.device), mask.to(process.device)[:, 1:]
    with process.autocast():
        logits = model.logits(tokens[:, :-1])
    losses = F.cross_entropy(logits.float().transpose(1, 2), tokens[:, 1:], reduction="none")
    shape = (len(examples), _NUM_ENDINGS)
    return (losses * mask).sum(1).view(shape), mask.sum(1).view(shape)
