"""Mistakes in a model: how it starts, and what of it learns."""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.clinic.faults.fault import Fault
from benchmarks.clinic.harness import Bench
from benchmarks.clinic.kinds.experts import experts_of


def _scale_weights(bench: Bench, factor: float) -> None:
    with torch.no_grad():
        for parameter in bench.model.parameters():
            if parameter.dim() >= 2:
                parameter.mul_(factor)


def dead_relu(bench: Bench) -> None:
    """Biases so low that the units before the activation never speak."""
    dead = [
        part
        for part in bench.model.modules()
        if isinstance(part, (nn.Linear, nn.Conv2d, nn.BatchNorm2d)) and part.bias is not None
    ]
    assert dead[0].bias is not None
    with torch.no_grad():
        dead[len(dead) // 2 if len(dead) > 2 else 0].bias.fill_(-100.0)  # type: ignore[union-attr]


def _body(bench: Bench) -> list[str]:
    """All that is trained, without the last layer."""
    last = bench.trained[-1][0].rpartition(".")[0]
    return [name for name, _ in bench.trained if not name.startswith(f"{last}.")]


def frozen(bench: Bench) -> None:
    """The body was frozen for a test, and stayed so."""
    body = set(_body(bench))
    for name, parameter in bench.trained:
        if name in body:
            parameter.requires_grad_(False)


def missing_from_optimizer(bench: Bench) -> None:
    """The optimizer was made for the head only."""
    body = set(_body(bench))
    bench.trained = [(name, one) for name, one in bench.trained if name not in body]


def stale_batchnorm(bench: Bench) -> None:
    """Running statistics never move, so evaluation uses those of the start."""
    for part in bench.model.modules():
        if isinstance(part, nn.modules.batchnorm._BatchNorm):
            part.momentum = 0.0


def collapse(bench: Bench) -> None:
    """No balancing loss, and a router that prefers one expert from the start."""
    bench.task.balance_share = 0.0  # type: ignore[attr-defined]
    with torch.no_grad():
        for part in experts_of(bench.model):
            part.router.bias[0] = 12.0


FAULTS = (
    Fault(
        "exploding_init",
        "weights start ten times too large",
        lambda bench: _scale_weights(bench, 10),
        (
            "mlp/momentum",
            "vae/adam",
            "gru/adam",
            "diffusion/adamw",
            "finetune/momentum",
            "dqn/adam",
            "multitask/nesterov",
        ),
    ),
    Fault(
        "tiny_init",
        "weights start a thousand times too small",
        lambda bench: _scale_weights(bench, 1e-3),
        (
            "mlp/momentum",
            "vae/adam",
            "tabular/adam",
            "diffusion/adamw",
            "dqn/adam",
            "gru/momentum",
            "recommender/sgd",
        ),
    ),
    Fault(
        "dead_relu",
        "a layer's biases keep its ReLUs at 0",
        dead_relu,
        (
            "mlp/momentum",
            "vae/adam",
            "dqn/adam",
            "finetune/momentum",
            "cnn_bn/momentum",
            "forecaster/momentum",
        ),
    ),
    Fault(
        "frozen",
        "all layers but the last were frozen by mistake",
        frozen,
        ("mlp/adamw", "cnn_bn/momentum", "gpt2/adamw", "gru/adam", "seq2seq/adam"),
    ),
    Fault(
        "missing_parameters",
        "all layers but the last are missing in the optimizer",
        missing_from_optimizer,
        ("mlp/momentum", "char_transformer/adamw", "gru/adam", "segmentation/adam", "tagger/adam"),
    ),
    Fault(
        "stale_batchnorm",
        "BatchNorm's statistics never update, and evaluation uses them",
        stale_batchnorm,
        (
            "cnn_bn/momentum",
            "resnet/momentum",
            "segmentation/adam",
            "contrastive/adam",
            "multitask/nesterov",
        ),
    ),
    Fault(
        "router_collapse",
        "no balancing loss, and a router that prefers one expert",
        collapse,
        ("moe_mlp/adamw", "moe/adamw", "moe_top2/adam"),
    ),
)
