"""Puts a training together from its flags: data, model, optimizer, schedule, and the evaluation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from epochal.console.messages import msg
from epochal.errors import UsageError
from epochal.recipes.gpt2 import hellaswag
from epochal.recipes.gpt2.data import Batches, WindowBatches
from epochal.recipes.gpt2.evaluation import Evaluation
from epochal.recipes.gpt2.finetune import InstructionBatches, read_instructions
from epochal.recipes.gpt2.flags import Flags
from epochal.recipes.gpt2.model import GPT, Shape
from epochal.recipes.gpt2.place import Place
from epochal.recipes.gpt2.shards import Corpus, Shard, is_tokenised, open_corpus
from epochal.recipes.gpt2.tokens import BYTES, GPT2, Tokenizer, open_tokenizer
from epochal.torch.rank_agreement import Ranks
from epochal.torch.schedule.formulas import CosineScheduler
from epochal.torch.schedule.scheduler import Scheduler
from epochal.torch.schedule.wrappers import WarmupScheduler
from epochal.torch.seed import seed_everything

# What shards of unknown origin are taken for: GPT-2's vocabulary, padded.
_SHARD_VOCABULARY = 50_304


@dataclass(frozen=True, slots=True)
class Split:
    """A part of the data, as the run records it."""

    name: str
    files: tuple[str, ...]
    num_tokens: int


@dataclass(frozen=True, slots=True)
class Training:
    """The parts of a training. `trained` is `model` as it is called: compiled, and by all ranks."""

    flags: Flags
    place: Place
    model: GPT
    trained: nn.Module
    optimizer: torch.optim.Optimizer
    schedule: Scheduler
    batches: Batches
    evaluation: Evaluation
    splits: tuple[Split, ...]
    accumulation: int

    def config(self) -> dict[str, Any]:
        """The configuration of the run and of its checkpoints."""
        return {
            **self.flags.hyperparameters(),
            "parameters": self.model.num_parameters,
            "world_size": self.place.world_size,
        }


def set_up(flags: Flags, place: Place) -> Training:
    """Build everything; every rank must call it. Draws weights from the global generator."""
    accumulation = flags.accumulation(place.world_size)
    tokenizer = _tokenizer(flags, place)
    batches, splits = _data(flags, tokenizer, place)
    seed_everything(flags.seed)
    model = GPT(_shape(flags, tokenizer)).to(place.device)
    trained = place.distribute(torch.compile(model) if flags.compile else model)  # type: ignore[arg-type]
    optimizer = torch.optim.AdamW(
        model.decay_groups(flags.weight_decay),
        lr=flags.max_lr,
        betas=(0.9, 0.95),
        eps=1e-8,
        fused=place.device.type == "cuda",
    )
    evaluation = Evaluation(
        model,
        batches,
        place,
        flags.eval_batches,
        tokenizer,
        _examples(flags, tokenizer, place),
        flags.sample_prompt,
        is_finetuning=flags.finetune is not None,
    )
    return Training(
        _complete(flags, model),
        place,
        model,
        trained,
        optimizer,
        schedule_of(flags),
        batches,
        evaluation,
        splits,
        accumulation,
    )


def schedule_of(flags: Flags) -> Scheduler:
    """A linear climb, a cosine down, then the lowest rate."""
    cosine = CosineScheduler(flags.max_lr, flags.min_lr, flags.num_steps - flags.warmup_steps)
    return (
        WarmupScheduler(cosine, flags.max_lr, flags.warmup_steps) if flags.warmup_steps else cosine
    )


def _complete(flags: Flags, model: GPT) -> Flags:
    """The flags with what was found out, so that a resumed training finds the same."""
    return replace(flags, vocab_size=model.shape.vocab_size)


def _tokenizer(flags: Flags, place: Place) -> Tokenizer | None:
    if flags.tokenizer is not None:
        return open_tokenizer(flags.tokenizer)
    if not is_tokenised(flags.data):
        return open_tokenizer(BYTES)
    try:
        return open_tokenizer(GPT2)
    except UsageError as error:
        if place.rank == 0:
            msg("%s", f"no samples and no HellaSwag: {error}")
        return None


def _shape(flags: Flags, tokenizer: Tokenizer | None) -> Shape:
    needed = _SHARD_VOCABULARY if tokenizer is None else tokenizer.padded_size
    vocab_size = flags.vocab_size or needed
    if tokenizer is not None and vocab_size < tokenizer.num_tokens:
        raise UsageError(
            f"--vocab_size {vocab_size} is smaller than the {tokenizer.num_tokens} tokens of "
            f"--tokenizer {tokenizer.name}."
        )
    return Shape(
        vocab_size, flags.context_length, flags.num_layers, flags.num_heads, flags.embd_size
    )


def _data(
    flags: Flags, tokenizer: Tokenizer | None, place: Place
) -> tuple[Batches, tuple[Split, ...]]:
    if flags.finetune is not None:
        return _instructions(flags, tokenizer, place)
    used = tokenizer or open_tokenizer(BYTES)  # not asked where there are tokens already

    def opened() -> Corpus:
        return open_corpus(flags.data, used, context=flags.context_length, seed=flags.seed)

    # One process of each machine tokenises; the others then find what it has made.
    Ranks.present().together(lambda: place.local_rank == 0 and bool(opened()))
    corpus = opened()
    batches = WindowBatches(
        corpus.train,
        corpus.validation,
        context_length=flags.context_length,
        batch_size=flags.mini_batch_size,
        seed=flags.seed,
        place=place,
    )
    return batches, (_split("train", corpus.train), _split("eval", corpus.validation))


def _instructions(
    flags: Flags, tokenizer: Tokenizer | None, place: Place
) -> tuple[Batches, tuple[Split, ...]]:
    assert flags.finetune is not None
    if tokenizer is None:
        raise UsageError("--finetune needs a --tokenizer.")
    rows = read_instructions(flags.finetune, tokenizer, context=flags.context_length)
    batches = InstructionBatches(
        rows, batch_size=flags.mini_batch_size, seed=flags.seed, place=place, end=tokenizer.end
    )
    files = (flags.finetune,)
    splits = tuple(Split(name, files, count) for name, count in batches.num_tokens().items())
    return batches, splits


def _examples(flags: Flags, tokenizer: Tokenizer | None, place: Place) -> list[hellaswag.Example]:
    path = hellaswag.find_hellaswag(flags.hellaswag, data=flags.data)
    if path is None or tokenizer is None:
        if place.rank == 0 and tokenizer is not None:
            msg("%s", f"HellaSwag is left out: no {hellaswag.FILE} beside the data (--hellaswag).")
        return []
    return hellaswag.read_examples(path, limit=flags.hellaswag_examples)


def _split(name: str, shards: tuple[Shard, ...]) -> Split:
    return Split(name, tuple(s.name for s in shards), sum(len(s) for s in shards))
