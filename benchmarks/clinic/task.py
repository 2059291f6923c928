"""What a task is: data, a model, a loss, how it is trained, and an honest measure of the result."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

Batch = tuple[Tensor, Tensor]
EVAL_BATCH = 100
NOTHING: Batch = (torch.zeros(1), torch.zeros(1))  # what a task without data is evaluated on


@dataclass(slots=True)
class Split:
    """Samples for one purpose: inputs and the targets that belong to them."""

    inputs: Tensor
    targets: Tensor

    def __len__(self) -> int:
        return len(self.inputs)

    def take(self, indices: Tensor | slice) -> Split:
        return Split(self.inputs[indices], self.targets[indices])

    def parts(self, held_out: int) -> tuple[Split, Split]:
        """Training samples, and the last ``held_out`` ones for the evaluation."""
        return self.take(slice(None, -held_out)), self.take(slice(-held_out, None))


class Task:
    """One training problem. A subclass is a task, an instance is built for one seed.

    ``__init__`` draws data and weights from the global generator, which is seeded before.
    """

    name: ClassVar[str]
    optimizer: ClassVar[Literal["sgd", "momentum", "adam", "adamw", "adagrad"]] = "adamw"
    lr: ClassVar[float] = 1e-3
    steps: ClassVar[int] = 400
    batch_size: ClassVar[int] = 32
    warmup: ClassVar[int] = 0
    cosine: ClassVar[bool] = False  # whether the learning rate decays
    clip: ClassVar[float | None] = None
    world: ClassVar[int] = 1
    typed: ClassVar[bool] = True  # log_step and log_eval; otherwise plain log
    config: ClassVar[Mapping[str, Any]] = {}

    # Properties that decide which faults make sense.
    has_data: ClassVar[bool] = True  # False for reinforcement learning
    float_inputs: ClassVar[bool] = True
    labelled: ClassVar[bool] = True  # targets do not follow from the inputs alone
    can_leak: ClassVar[bool] = False
    sortable: ClassVar[bool] = False
    has_modes: ClassVar[bool] = False  # dropout or BatchNorm
    first_layer: ClassVar[str | None] = None  # a layer that a ReLU follows

    model: nn.Module
    train: Split
    held_out: Split

    def outputs(self, inputs: Tensor) -> Any:
        return self.model(inputs)

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        raise NotImplementedError

    def metrics(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        """Further metrics of an evaluation, besides the loss."""
        return {}

    def before_step(self, inputs: Tensor, lr: float) -> None:
        """What happens before a step, such as the step of a second network."""

    def step_metrics(self) -> dict[str, float]:
        """Further metrics of a training step."""
        return {}

    def play(self) -> Iterator[Batch]:
        """Batches of a task without data."""
        raise NotImplementedError

    def evaluate(self, inputs: Tensor, targets: Tensor) -> dict[str, float]:
        """Loss and further metrics of one batch, without gradients."""
        outputs = self.outputs(inputs)
        return {"loss": float(self.loss(outputs, targets)), **self.metrics(outputs, targets)}

    def result(self) -> float:
        """The honest measure at the end; lower is better."""
        self.model.eval()
        with torch.no_grad():
            starts = range(0, len(self.held_out), EVAL_BATCH)
            parts = (self.held_out.take(slice(at, at + EVAL_BATCH)) for at in starts)
            found = average(self, ((part.inputs, part.targets) for part in parts))
            return next(iter(found.values()))

    def leak(self, split: Split) -> Split:
        """The same samples with the target among the inputs."""
        raise NotImplementedError


def average(task: Task, batches: Iterable[Sequence[Tensor]]) -> dict[str, float]:
    """The mean of each metric over batches of the same size."""
    found = [task.evaluate(inputs, targets) for inputs, targets in batches]
    return {name: sum(one[name] for one in found) / len(found) for name in found[0]}


class Classification(Task):
    """Cross entropy over classes of float inputs."""

    num_classes: ClassVar[int]
    can_leak = True
    sortable = True

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.cross_entropy(outputs, targets)

    def metrics(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        return {"acc": float((outputs.argmax(1) == targets).float().mean())}

    def leak(self, split: Split) -> Split:
        """Mark the class in the first columns, or in the first row of a picture."""
        marks = 3 * functional.one_hot(split.targets, self.num_classes).float()
        inputs = split.inputs.clone()
        place = inputs if inputs.dim() == 2 else inputs[:, 0, 0]
        place[:, : self.num_classes] = marks
        return Split(inputs, split.targets)


class Regression(Task):
    """Squared error of one number."""

    can_leak = True
    sortable = True

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.mse_loss(outputs, targets)

    def metrics(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        return {"mae": float((outputs - targets).abs().mean())}

    def leak(self, split: Split) -> Split:
        inputs = split.inputs.clone()
        inputs[:, 0] = split.targets.flatten(1)[:, 0]
        return Split(inputs, split.targets)
