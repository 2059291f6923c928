"""Builds a training from its flags: data, model, optimizer, schedule and evaluation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from batches import Batches, Dataset, Windows, read_instructions
from data import Shard, Tokenizer, has_token_files, open_corpus, open_tokenizer
from distributed import Process
from epochal import UsageError, console
from epochal.records.format import format_count
from epochal.torch import CosineScheduler, Scheduler, WarmupScheduler, seed_everything
from evaluation import HELLASWAG_FILE, Evaluation, Example, find_hellaswag, read_examples
from flags import Flags
from model import GPT, Shape


@dataclass(frozen=True)
class Split:
    """A part of the data, as the run records it."""

    name: str
    files: tuple[str, ...]
    num_tokens: int


@dataclass(frozen=True)
class Training:
    """The parts of a training. `trained` is `model`, compiled and shared by all ranks."""

    flags: Flags
    process: Process
    model: GPT
    trained: nn.Module
    optimizer: torch.optim.Optimizer
    schedule: Scheduler
    batches: Batches
    evaluation: Evaluation
    splits: tuple[Split, ...]
    accumulation: int

    @property
    def repeats(self) -> str | None:
        """What to say if an epoch reads the data more than once."""
        flags, there = self.flags, self.splits[0].num_tokens
        once = max(1, there // flags.total_batch_size)
        if flags.steps_per_epoch <= once or flags.finetune is not None:
            return None
        total = format_count(flags.last_step * flags.total_batch_size)
        return (
            f"The data has {format_count(there)} tokens for training, and {flags.last_step} steps "
            f"read {total}, so parts of it are read more than once in an epoch. "
            f"--steps_per_epoch {once} reads it once in each epoch."
        )

    def config(self) -> dict[str, Any]:
        """Return the configuration of the run and of its checkpoints."""
        return {
            **self.flags.hyperparameters(),
            "parameters": self.model.num_parameters,
            "world_size": self.process.world_size,
        }


def set_up(flags: Flags, process: Process) -> Training:
    """Build everything. Every rank must call it."""
    accumulation = flags.accumulation(process.world_size)
    tokenizer = _tokenizer(flags, process)
    train, held_out, splits = _data(flags, tokenizer, process)
    batches = Batches(
        train, held_out, batch_size=flags.mini_batch_size, seed=flags.seed, process=process
    )
    seed_everything(flags.seed)
    model = GPT(shape_of(flags, tokenizer)).to(process.device)
    compiled: Any = torch.compile(model) if flags.compile else model
    optimizer = torch.optim.AdamW(
        model.decay_groups(flags.weight_decay),
        lr=flags.max_lr,
        betas=(0.9, 0.95),
        eps=1e-8,
        fused=process.device.type == "cuda",
    )
    evaluation = Evaluation(
        model,
        batches,
        process,
        flags.eval_batches,
        tokenizer,
        _examples(flags, tokenizer, process),
        flags.sample_prompt,
        is_finetuning=flags.finetune is not None,
    )
    return Training(
        # A resumed training and the sampler need the same vocabulary.
        replace(
            flags,
            vocab_size=model.shape.vocab_size,
            tokenizer=flags.tokenizer if tokenizer is None else tokenizer.name,
        ),
        process,
        model,
        process.wrap(compiled),
        optimizer,
        make_schedule(flags),
        batches,
        evaluation,
        splits,
        accumulation,
    )


def make_schedule(flags: Flags) -> Scheduler:
    """Return a linear warm-up, then a cosine, then the lowest rate."""
    cosine = CosineScheduler(flags.max_lr, flags.min_lr, flags.num_steps - flags.warmup)
    return WarmupScheduler(cosine, flags.max_lr, flags.warmup) if flags.warmup else cosine


def _tokenizer(flags: Flags, process: Process) -> Tokenizer | None:
    if flags.tokenizer is not None or not has_token_files(flags.data):
        return open_tokenizer(flags.tokenizer or "bytes")
    try:
        return open_tokenizer("gpt2")
    except UsageError as error:
        if process.rank == 0:
            console.msg("%s", f"Text samples and HellaSwag are left out. {error}")
        return None


def shape_of(flags: Flags, tokenizer: Tokenizer | None) -> Shape:
    vocab_size = flags.vocab_size or (50_304 if tokenizer is None else tokenizer.padded_size)
    if tokenizer is not None and vocab_size < tokenizer.num_tokens:
        raise UsageError(
            f"--vocab_size {vocab_size} is smaller than the {tokenizer.num_tokens} tokens of "
            f"--tokenizer {tokenizer.name}."
        )
    return Shape(
        vocab_size, flags.context_length, flags.num_layers, flags.num_heads, flags.embd_size
    )


def _data(
    flags: Flags, tokenizer: Tokenizer | None, process: Process
) -> tuple[Dataset, Dataset, tuple[Split, ...]]:
    context = flags.context_length
    if flags.finetune is not None:
        if tokenizer is None:
            raise UsageError("--finetune needs a --tokenizer.")
        pairs = read_instructions(flags.finetune, tokenizer, context=context)
        names = zip(("train", "eval"), pairs, strict=True)
        files = (flags.finetune,)
        return *pairs, tuple(Split(n, files, d.count(range(len(d)))[1]) for n, d in names)
    used = tokenizer or open_tokenizer("bytes")  # files of tokens do not need it
    # One process of each machine tokenises the text; the others wait and then read its file.
    for turn in (True, False):
        if (process.local_rank == 0) == turn:
            train, held_out = open_corpus(flags.data, used, context=context, seed=flags.seed)
        if process.world_size > 1:
            dist.barrier()
    splits = (_split("train", train), _split("eval", held_out))
    return Windows(train, context), Windows(held_out, context), splits


def _split(name: str, shards: list[Shard]) -> Split:
    return Split(name, tuple(s.name for s in shards), sum(len(s.tokens) for s in shards))


def _examples(flags: Flags, tokenizer: Tokenizer | None, process: Process) -> list[Example]:
    path = find_hellaswag(flags.hellaswag, data=flags.data)
    if path is not None and tokenizer is not None:
        return read_examples(path, flags.hellaswag_examples)
    if process.rank == 0 and tokenizer is not None:
        console.msg("%s", f"HellaSwag is left out: there is no {HELLASWAG_FILE} beside the data.")
    return []
