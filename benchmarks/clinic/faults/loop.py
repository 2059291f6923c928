"""Mistakes in the loop: gradients, steps and the loss."""

from __future__ import annotations

import torch

from benchmarks.clinic.faults.fault import Fault
from benchmarks.clinic.harness import Bench


def tight_clip(bench: Bench) -> None:
    bench.clip = 1e-4


def half_precision(bench: Bench) -> None:
    """Gradients in float16 under a loss scale that doubles and doubles, and nobody checks."""
    num_steps = 0

    def overflow() -> None:
        nonlocal num_steps
        scale = 2.0 ** (8 + num_steps // 25)
        num_steps += 1
        for _, parameter in bench.trained:
            if parameter.grad is not None:
                parameter.grad = (parameter.grad * scale).half().float() / scale

    bench.change_gradients.append(overflow)


def double_softmax(bench: Bench) -> None:
    """The model's softmax comes before a loss that has its own."""
    task = bench.task
    logits = task.outputs
    task.outputs = lambda inputs: logits(inputs).softmax(-1)  # type: ignore[method-assign]


def summed(bench: Bench) -> None:
    """The loss is a sum over the batch where the rate is meant for a mean."""
    bench.change_loss.append(lambda loss: loss * bench.batch_size)


def accumulated(bench: Bench) -> None:
    """Sixteen batches are accumulated and their number is not divided by."""
    bench.accumulate, bench.divides = 16, False


def exploding_returns(bench: Bench) -> None:
    """Rewards come in another unit: a thousand times as large."""
    bench.task.reward_scale = 1000.0  # type: ignore[attr-defined]


def missing_zero_grad(bench: Bench) -> None:
    bench.zero_grad = False


def missing_step(bench: Bench) -> None:
    bench.takes_steps = False


def wrong_sign(bench: Bench) -> None:
    bench.change_loss.append(torch.neg)


FAULTS = (
    Fault(
        "missing_zero_grad",
        "gradients are never set to zero",
        missing_zero_grad,
        (
            "mlp/momentum",
            "tabular/adam",
            "linear/sgd",
            "logistic/sgd",
            "gru/adam",
            "segmentation/momentum",
            "word2vec/sgd",
        ),
    ),
    Fault(
        "missing_step",
        "the optimizer never takes a step",
        missing_step,
        ("mlp/adamw", "vae/adam", "resnet/adamw", "logistic/sgd", "graph/adam"),
    ),
    Fault(
        "wrong_sign",
        "the sign of the loss is wrong",
        wrong_sign,
        (
            "mlp/momentum",
            "linear/sgd",
            "gru/adam",
            "gpt2/adamw",
            "segmentation/adam",
            "word2vec/adagrad",
        ),
    ),
    Fault(
        "clip_tight",
        "gradients are clipped at 0.0001",
        tight_clip,
        (
            "mlp/momentum",
            "char_transformer/momentum",
            "gru/momentum",
            "resnet/momentum",
            "tagger/momentum",
        ),
    ),
    Fault(
        "fp16_overflow",
        "gradients overflow in float16",
        half_precision,
        ("mlp/momentum", "linear/sgd", "logistic/sgd", "resnet/momentum", "forecaster/momentum"),
    ),
    Fault(
        "double_softmax",
        "softmax is applied twice",
        double_softmax,
        ("mlp/momentum", "cnn_bn/momentum", "gpt2/adamw", "logistic/sgd", "vit/momentum"),
    ),
    Fault(
        "wrong_reduction",
        "the loss is a sum, not a mean",
        summed,
        (
            "mlp/momentum",
            "linear/sgd",
            "logistic/sgd",
            "finetune/momentum",
            "resnet/momentum",
            "recommender/sgd",
        ),
    ),
    Fault(
        "accumulation",
        "accumulated gradients are not divided by their number",
        accumulated,
        (
            "mlp/momentum",
            "cnn_bn/momentum",
            "finetune/momentum",
            "segmentation/momentum",
            "resnet/momentum",
            "forecaster/momentum",
        ),
    ),
    Fault(
        "exploding_returns",
        "rewards are a thousand times as large as the networks are made for",
        exploding_returns,
        ("ppo/adam", "dqn/adam", "policy_gradient/adam", "actor_critic/adam"),
    ),
)
