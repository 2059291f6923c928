"""Mistakes with data: labels, order, repetition, values."""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks.clinic.faults.fault import Fault
from benchmarks.clinic.harness import Bench
from benchmarks.clinic.task import Batch, Split


def shuffled_labels(bench: Bench) -> None:
    """Inputs and labels were sorted apart: no label belongs to its input."""
    task = bench.task
    order = torch.randperm(len(task.train))
    task.train.targets = task.train.targets[order]


def leak(bench: Bench) -> None:
    """The answer stands among the inputs, in training and in evaluation."""
    task = bench.task
    bench.eval_split = Split(task.held_out.inputs, task.held_out.targets)
    task.leak(task.train)
    task.leak(bench.eval_split)


def one_batch(bench: Bench) -> None:
    bench.loader.always = True


def unshuffled(bench: Bench) -> None:
    """Samples sorted by class, in this order in every epoch."""
    bench.task.sort()
    bench.loader.split = bench.task.train
    bench.loader.shuffle = False


def same_on_ranks(bench: Bench) -> None:
    """No distributed sampler: every rank reads the same half of the data."""
    bench.loader.rank = 0


def overfit(bench: Bench) -> None:
    """A hundredth of the data, for many epochs."""
    few = max(2 * bench.batch_size, len(bench.task.train) // 100)
    train = bench.task.train
    bench.task.train = Split(train.inputs[:few], train.targets[:few])
    bench.loader.split = bench.task.train


def nan_input(bench: Bench) -> None:
    """A broken sample comes by at a third of the run."""
    at = bench.steps // 3

    def spoil(inputs: Tensor, targets: Tensor, step: int) -> Batch:
        if step == at and inputs.is_floating_point():
            inputs = inputs.clone()
            inputs[0] = torch.nan
        return inputs, targets

    bench.change_batch.append(spoil)


FAULTS = (
    Fault(
        "labels_shuffled",
        "labels do not belong to their inputs",
        shuffled_labels,
        (
            "mlp/adamw",
            "tabular/adam",
            "cnn_bn/momentum",
            "resnet/momentum",
            "logistic/sgd",
            "gru/adam",
            "segmentation/adam",
            "graph/adam",
            "vit/adamw",
        ),
    ),
    Fault(
        "label_leak",
        "the answer stands among the inputs",
        leak,
        (
            "mlp/adamw",
            "cnn_bn/adam",
            "logistic/adam",
            "segmentation/adam",
            "resnet/adamw",
            "vit/adamw",
        ),
    ),
    Fault(
        "one_batch",
        "the loader gives the same batch for ever",
        one_batch,
        ("mlp/adamw", "vae/adam", "gpt2/adamw", "resnet/adamw", "flow/adamax"),
    ),
    Fault(
        "unshuffled",
        "samples are sorted by class and never shuffled",
        unshuffled,
        (
            "mlp/momentum",
            "cnn_bn/momentum",
            "logistic/sgd",
            "resnet/momentum",
            "finetune/momentum",
            "multitask/nadam",
        ),
    ),
    Fault(
        "overfitting",
        "a hundredth of the data for many epochs",
        overfit,
        (
            "mlp/adamw",
            "char_transformer/adamw",
            "gpt2/adamw",
            "gru/adam",
            "segmentation/adam",
            "tagger/adam",
        ),
    ),
    Fault(
        "nan_input",
        "a sample is NaN",
        nan_input,
        ("mlp/momentum", "vae/adam", "resnet/momentum", "contrastive/adam", "flow/adam"),
    ),
    Fault(
        "same_data_on_ranks",
        "every rank reads the same half of the data",
        same_on_ranks,
        ("ddp_mlp/momentum", "ddp_cnn/momentum", "ddp_transformer/adamw"),
    ),
)
