"""Mistakes of an evaluation: the training is as good as ever, its report is not."""

from __future__ import annotations

from torch import nn

from benchmarks.clinic.faults.fault import Fault
from benchmarks.clinic.harness import Bench
from benchmarks.clinic.task import Split


def on_training_data(bench: Bench) -> None:
    """Evaluation reads samples of the training, of which there are few."""
    train = bench.task.train
    few = max(4 * bench.batch_size, len(train) // 10)
    bench.task.train = Split(train.inputs[:few], train.targets[:few])
    bench.loader.split = bench.task.train
    bench.eval_split = bench.task.train


def dropout_on(bench: Bench) -> None:
    bench.evaluates_in_eval_mode = False
    for part in bench.model.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.5


FAULTS = (
    Fault(
        "eval_on_train",
        "evaluation uses the training data",
        on_training_data,
        ("mlp/adamw", "char_transformer/adamw", "gru/adam", "resnet/adamw", "recommender/adam"),
        harm="reported",
    ),
    Fault(
        "dropout_in_eval",
        "dropout stays on in evaluation",
        dropout_on,
        ("mlp/adamw", "cnn_bn/momentum", "gru/adam", "finetune/adamw", "graph/nesterov"),
        harm="reported",
    ),
)
