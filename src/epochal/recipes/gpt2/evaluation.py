"""How the model is judged: validation loss, HellaSwag, and what it writes."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from epochal.recipes.gpt2 import hellaswag
from epochal.recipes.gpt2.batch_iterator import BatchIterator, plain_iterator
from epochal.recipes.gpt2.data import Batches
from epochal.recipes.gpt2.model import GPT
from epochal.recipes.gpt2.place import Place
from epochal.recipes.gpt2.tokens import Tokenizer
from epochal.run.run import Run

_LARGEST_EXPONENT = 700.0


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Everything an evaluation needs; without a tokenizer only the loss is measured."""

    model: GPT
    batches: Batches
    place: Place
    num_batches: int
    tokenizer: Tokenizer | None
    examples: Sequence[hellaswag.Example]
    prompt: str
    is_finetuning: bool = False

    def evaluate(
        self,
        run: Run,
        *,
        step: int,
        epoch: float,
        more: Mapping[str, float] | None = None,
        iterate: BatchIterator = plain_iterator,
    ) -> float:
        """Evaluate the model as it is after a step, on all ranks, and record it; gives the loss.

        ``more`` is recorded with it. What ``iterate`` raises ends it, and nothing is recorded.
        """
        begun = time.perf_counter()
        loss, num_tokens = self.validation_loss(iterate)
        duration_ms = (time.perf_counter() - begun) * 1000.0
        metrics = dict(more or {})
        if self.tokenizer is not None and self.examples and step:
            choice = hellaswag.measure(
                self.model, self.tokenizer, self.examples, place=self.place, iterate=iterate
            )
            metrics |= {"hellaswag_accuracy": choice.acc_norm, "hellaswag_acc": choice.acc}
        if self.is_finetuning:
            metrics["Finetune/perplexity"] = math.exp(min(loss, _LARGEST_EXPONENT))
        run.log_eval(step, epoch, num_tokens, duration_ms, loss, metrics=metrics)
        if self.tokenizer is not None and self.place.rank == 0:
            texts = draw_samples(self.model, self.tokenizer, place=self.place, prompt=self.prompt)
            run.log_text("sample", "\n\n".join(texts), step)
        return loss

    @torch.no_grad()
    def validation_loss(self, iterate: BatchIterator = plain_iterator) -> tuple[float, int]:
        """The mean over all tokens of all ranks, and how many those were."""
        total = torch.zeros((), dtype=torch.float64, device=self.place.device)
        count = 0
        for batch in iterate(self.batches.validation(self.num_batches)):
            with self.place.autocast():
                loss = self.model(batch.inputs, batch.targets)
            total += loss.double() * batch.num_targets
            count += batch.num_targets
        summed, counted = self.place.sums([float(total), count])
        return (summed / counted if counted else float("nan")), int(counted)


_SEED = 42
_TOP = 50


@torch.no_grad()
def draw_samples(
    model: GPT,
    tokenizer: Tokenizer,
    *,
    place: Place,
    prompt: str,
    num_samples: int = 5,
    num_tokens: int = 32,
) -> list[str]:
    """Continue a prompt several times, each token from the 50 likeliest.

    The generator starts anew each time, so that two samplings differ only by what was learned.
    A model whose numbers are no longer finite writes nothing more.
    """
    generator = torch.Generator(place.device).manual_seed(_SEED + place.rank)
    context = model.shape.context_length
    start = tokenizer.encode(prompt) or [tokenizer.end]
    tokens = torch.tensor([start] * num_samples, device=place.device)
    for _ in range(num_tokens):
        with place.autocast():
            logits = model.logits(tokens[:, -context:])[:, -1, :]
        # Beyond the tokenizer's own tokens the vocabulary is padding.
        likeliest = logits[:, : tokenizer.num_tokens].float().softmax(-1)
        if not likeliest.isfinite().all():
            break
        chances, places = likeliest.topk(min(_TOP, likeliest.shape[-1]))
        drawn = torch.multinomial(chances, 1, generator=generator)
        tokens = torch.cat((tokens, places.gather(-1, drawn)), dim=1)
    return [tokenizer.decode(row) for row in tokens.tolist()]
