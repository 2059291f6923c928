"""The faults: each changes a training before it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch

from benchmarks.clinic.harness import Setup
from benchmarks.clinic.task import Split, Task


@dataclass(frozen=True, slots=True)
class Fault:
    """One mistake.

    ``harm`` is the measure that proves it: a worse "result" than every healthy twin, or a
    "reported" evaluation that is away from the honest result.
    """

    name: str
    summary: str
    apply: Callable[[Setup], object]
    fits: Callable[[type[Task]], bool] = lambda task: True
    harm: Literal["result", "reported"] = "result"


def _scale_lr(factor: float) -> Callable[[Setup], object]:
    def apply(setup: Setup) -> None:
        setup.lr *= factor

    return apply


def _keep_gradients(setup: Setup) -> None:
    setup.zero_grad = False


def _train_head_only(setup: Setup) -> None:
    """Give the parameters of the last layer to the optimizer and forget the others."""
    head = setup.trained[-1][0].rpartition(".")[0]
    setup.trained = [(name, one) for name, one in setup.trained if name.startswith(f"{head}.")]


def _scaled(split: Split, factor: float) -> Split:
    return Split(factor * split.inputs, split.targets)


def _scale_inputs(setup: Setup) -> None:
    """Pictures as bytes, amounts in cents: the same in training and in evaluation."""
    task = setup.task
    setup.train, setup.evaluation = _scaled(setup.train, 255), _scaled(setup.evaluation, 255)
    task.held_out = setup.evaluation


def _scale_evaluation(setup: Setup) -> None:
    """Forget the normalisation in the evaluation; with every second seed, apply it twice."""
    setup.evaluation = _scaled(setup.evaluation, 20 if setup.seed % 2 == 0 else 0.05)


def _shuffle_labels(setup: Setup) -> None:
    """Load inputs and targets in different orders: no target belongs to its input."""
    order = torch.randperm(len(setup.train))
    setup.train = Split(setup.train.inputs, setup.train.targets[order])


def _leak(setup: Setup) -> None:
    """Leave the target among the inputs of training and evaluation, where life will not have it."""
    setup.train = setup.task.leak(setup.train)
    setup.evaluation = setup.task.leak(setup.evaluation)


def _sort(setup: Setup) -> None:
    """Read the samples in the order of their class, in every epoch."""
    keys = setup.train.targets.flatten(1).float().mean(1) if setup.train.targets.dim() > 1 else None
    order = (setup.train.targets if keys is None else keys).argsort(stable=True)
    setup.train, setup.shuffle = setup.train.take(order), False


def _kill_first_layer(setup: Setup) -> None:
    """Set biases so low that no ReLU after the first layer is ever above zero."""
    assert setup.task.first_layer is not None
    layer = setup.model.get_submodule(setup.task.first_layer)
    with torch.no_grad():
        layer.bias.fill_(-100.0)  # type: ignore[operator]


def _evaluate_in_train_mode(setup: Setup) -> None:
    setup.evaluates_in_eval_mode = False


def _sum_loss(setup: Setup) -> None:
    setup.sums_loss = True


def _shrink_data(setup: Setup) -> None:
    setup.train = setup.train.take(slice(0, max(2 * setup.task.batch_size, len(setup.train) // 80)))


_ALL = (
    Fault("lr_x10", "the learning rate is 10 times too high", _scale_lr(10)),
    Fault("lr_x30", "the learning rate is 30 times too high", _scale_lr(30)),
    Fault("lr_div100", "the learning rate is 100 times too low", _scale_lr(0.01)),
    Fault("missing_zero_grad", "gradients are never set to zero", _keep_gradients),
    Fault("missing_parameters", "the optimizer has the last layer only", _train_head_only),
    Fault("inputs_x255", "inputs are 255 times too large", _scale_inputs, lambda t: t.float_inputs),
    Fault(
        "eval_scale",
        "evaluation data is on another scale",
        _scale_evaluation,
        lambda task: task.float_inputs,
        harm="reported",
    ),
    Fault("labels_shuffled", "labels are shuffled", _shuffle_labels, lambda task: task.labelled),
    Fault("label_leak", "the label is among the inputs", _leak, lambda task: task.can_leak),
    Fault("unshuffled", "data is sorted and not shuffled", _sort, lambda task: task.sortable),
    Fault(
        "dead_layer",
        "no unit of the first layer is active",
        _kill_first_layer,
        lambda task: task.first_layer is not None,
    ),
    Fault(
        "eval_in_train_mode",
        "evaluation runs in training mode",
        _evaluate_in_train_mode,
        lambda task: task.has_modes,
        harm="reported",
    ),
    Fault(
        "sum_loss",
        "the loss is a sum over the batch, not a mean",
        _sum_loss,
        lambda task: task.optimizer in ("sgd", "momentum"),  # Adam does not mind
    ),
    Fault("overfitting", "there are very few samples", _shrink_data, lambda task: task.has_data),
)
FAULTS: dict[str, Fault] = {fault.name: fault for fault in _ALL}
