"""Mistakes of the learning rate and its schedule."""

from __future__ import annotations

import math

from benchmarks.clinic.faults.fault import Fault
from benchmarks.clinic.harness import Bench


def no_warmup(bench: Bench) -> None:
    """A large rate that only a warm-up makes possible, and none."""
    bench.warmup = 0
    bench.rate *= 8
    bench.clip = None


def zero_early(bench: Bench) -> None:
    """A rate of 0 from a twentieth of the run on, as when a plan ends too early."""
    end = bench.steps // 20
    bench.multiplier = lambda step: 1.0 if step < end else 0.0


def wrong_unit(bench: Bench) -> None:
    """A schedule in epochs that is asked every step: it falls tenfold every eight steps."""
    bench.multiplier = lambda step: max(1e-9, math.pow(0.1, step // 8))


FAULTS = (
    Fault(
        "rate_x10",
        "the learning rate is ten times too high",
        lambda bench: setattr(bench, "rate", 10 * bench.rate),
        (
            "mlp/momentum",
            "char_transformer/adamw",
            "vae/adam",
            "gru/adam",
            "resnet/adamw",
            "finetune/momentum",
            "segmentation/momentum",
            "flow/adam",
            "recommender/sgd",
        ),
    ),
    Fault(
        "rate_x30",
        "the learning rate is thirty times too high",
        lambda bench: setattr(bench, "rate", 30 * bench.rate),
        (
            "mlp/adamw",
            "vae/adam",
            "tabular/adam",
            "gru/adam",
            "resnet/momentum",
            "segmentation/momentum",
            "gpt2/adamw",
            "diffusion/adamw",
            "tagger/adam",
            "seq2seq/adam",
        ),
    ),
    Fault(
        "rate_too_small",
        "the learning rate is three hundred times too small",
        lambda bench: setattr(bench, "rate", bench.rate / 300),
        ("mlp/momentum", "cnn_bn/adam", "gpt2/adamw", "segmentation/momentum", "vit/momentum"),
    ),
    Fault(
        "no_warmup",
        "a large rate from the first step on, without warm-up",
        no_warmup,
        (
            "char_transformer/adamw",
            "lora/adamw",
            "gpt2/adamw",
            "ddp_transformer/adamw",
            "moe/adamw",
            "vit/adamw",
        ),
    ),
    Fault(
        "rate_zero",
        "the learning rate is 0 after a twentieth of the run",
        zero_early,
        ("mlp/adamw", "char_transformer/adamw", "gru/adam", "resnet/adamw", "forecaster/momentum"),
    ),
    Fault(
        "schedule_unit",
        "the schedule counts steps as if they were epochs",
        wrong_unit,
        ("mlp/momentum", "vae/adam", "gpt2/adamw", "segmentation/adam", "tagger/adam"),
    ),
)
