"""What a kind of training is: data, a model, a loss, and an honest measure of the result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

# Rules may be tuned on "tuning" kinds. "unseen" ones were judged only, until rules were changed
# because of them. "blind3" and so on came later, one after the other: no rule was changed because
# of them before a verdict.
_Early = Literal["tuning", "unseen"]
_Blind = Literal["blind3", "blind4", "blind5", "blind6", "blind7", "blind8", "blind9", "blind10"]
Half = Literal[_Early, _Blind]
BLIND: tuple[Half, ...] = get_args(_Blind)
WHOLE: Half = "blind7"  # a full run has all of these: they have every fault
Decay = Literal["none", "cosine", "linear", "steps", "sqrt"]
Batch = tuple[Tensor, Tensor]


@dataclass(slots=True)
class Split:
    """Samples of one purpose: inputs and what they should give."""

    inputs: Tensor
    targets: Tensor

    def __len__(self) -> int:
        return len(self.inputs)

    def take(self, indices: Tensor) -> Batch:
        return self.inputs[indices], self.targets[indices]


class Samples(Dataset[Batch]):
    """A split as a dataset, sample by sample."""

    def __init__(self, split: Split) -> None:
        self.split = split

    def __len__(self) -> int:
        return len(self.split)

    def __getitem__(self, index: int) -> Batch:
        return self.split.inputs[index], self.split.targets[index]


class Loader:
    """Batches of a split, epoch by epoch, each epoch in another order.

    A rank takes every ``world``-th sample of that order. ``shuffle`` and ``always`` are for faults,
    and so is another ``split``, until the first batch is taken.
    """

    def __init__(
        self, split: Split, batch_size: int, seed: int, *, rank: int = 0, world: int = 1
    ) -> None:
        self.split = split
        self.batch_size = batch_size
        self.shuffle = True
        self.always = False  # the first batch for ever
        self.pinned = False  # batches in pinned memory, for a GPU
        self.rank, self.world = rank, world
        self._generator = torch.Generator().manual_seed(seed)
        self._loader: DataLoader[Batch] | None = None
        self._batches: Iterator[Batch] = iter(())
        self.num_batches = 0

    @property
    def batches_per_epoch(self) -> int:
        return max(1, len(self.split) // self.world // self.batch_size)

    @property
    def epoch(self) -> float:
        """Completed epochs, with a fraction."""
        return self.num_batches / self.batches_per_epoch

    @property
    def data_loader(self) -> DataLoader[Batch]:
        """The loader of torch that gives the batches, as a user's script has it."""
        if self._loader is None:
            # A generator of its own: the trainings draw from the global one.
            own = torch.Generator().manual_seed(0)
            self._loader = DataLoader(
                Samples(self.split), batch_sampler=self, generator=own, pin_memory=self.pinned
            )
        return self._loader

    def take(self) -> Batch:
        batch = next(self._batches, None)
        if batch is None:
            self._batches = iter(self.data_loader)
            batch = next(self._batches)
        self.num_batches += 1
        return batch

    def __len__(self) -> int:
        return self.batches_per_epoch

    def __iter__(self) -> Iterator[list[int]]:
        """The indices of each batch of the next epoch."""
        count = len(self.split)
        drawn = torch.randperm(count, generator=self._generator)
        order = drawn if self.shuffle else torch.arange(count)
        own = order[self.rank :: self.world]
        for at in range(0, self.batches_per_epoch * self.batch_size, self.batch_size):
            yield own[at : at + self.batch_size].tolist()
            while self.always:
                yield own[: self.batch_size].tolist()


class Task:
    """One training problem, built for one seed. Kinds override what differs."""

    model: nn.Module
    train: Split
    held_out: Split
    num_classes: int | None = None
    has_data = True  # whether it learns from ``train``; reinforcement learning does not
    device = torch.device("cpu")  # of the model; samples stay on the CPU until they are used

    def to(self, device: torch.device) -> None:
        """Move the model, and every other network and tensor of the task, to a device."""
        self.device = device
        for name, value in vars(self).items():
            if isinstance(value, nn.Module | Tensor):
                setattr(self, name, value.to(device))

    def loader(self, batch_size: int, seed: int, rank: int, world: int) -> Loader:
        return Loader(self.train, batch_size, seed, rank=rank, world=world)

    def outputs(self, inputs: Tensor) -> Any:
        return self.model(inputs)

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        raise NotImplementedError

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        """More figures of an evaluation."""
        return {}

    def before_step(self, step: int, rate: float) -> None:
        """What has to happen before a step: a rollout, the other network's step."""

    def figures(self) -> dict[str, float]:
        """More figures of a step."""
        return {}

    def evaluate(self, split: Split) -> dict[str, float]:
        """Loss and other figures over a split; the model's mode is the caller's business."""
        with torch.no_grad():
            inputs, targets = split.inputs.to(self.device), split.targets.to(self.device)
            outputs = self.outputs(inputs)
            loss = float(self.loss(outputs, targets))
            return {"loss": loss, **self.measures(outputs, targets)}

    def result(self) -> float:
        """The honest measure in the end; lower is better."""
        self.model.eval()
        return self.evaluate(self.held_out)["loss"]

    def leak(self, split: Split) -> None:
        """Put the answer among the inputs."""
        raise NotImplementedError(f"{type(self).__name__} cannot leak its targets")

    def sort(self) -> None:
        """Put the samples of one class together."""
        order = (
            self.train.targets.flatten(1).float().mean(1)
            if self.train.targets.dim() > 1
            else self.train.targets
        )
        self.train = Split(*self.train.take(order.argsort(stable=True)))


class Classification(Task):
    """Cross entropy over classes, with the accuracy as a figure."""

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.cross_entropy(outputs, targets)

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        return {"accuracy": float((outputs.argmax(1) == targets).float().mean())}

    def leak(self, split: Split) -> None:
        assert self.num_classes is not None
        hints = 3 * functional.one_hot(split.targets, self.num_classes).float()
        inputs = split.inputs.clone()
        place = inputs if inputs.dim() == 2 else inputs[:, 0].flatten(1)
        place[:, : self.num_classes] = hints
        if inputs.dim() > 2:
            inputs[:, 0] = place.view_as(inputs[:, 0])
        split.inputs = inputs


@dataclass(frozen=True, slots=True)
class OptimizerChoice:
    """An optimizer as a user would set it up for a kind."""

    name: str  # "sgd", "momentum", "adam" and others of `optimizers.make_optimizer`
    rate: float
    options: Mapping[str, Any] = field(default_factory=dict)
    decay: Decay | None = None  # instead of the kind's


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of training and how it is run when nothing is wrong."""

    name: str
    half: Half
    build: Callable[[], Task]  # draws from the global generator, which is seeded before
    optimizers: tuple[OptimizerChoice, ...]
    steps: int = 1000
    batch_size: int = 32
    warmup: int = 0
    decay: Decay = "none"
    clip: float | None = None
    accumulate: int = 1  # batches a step
    precision: Literal["float32", "bfloat16"] = "float32"  # of the forward pass in training
    num_evals: int = 20
    typed: bool = True  # log_step and log_eval; otherwise plain log
    log_every: int = 1
    pace_ms: float = 10.5  # a step takes at least so long, as with a larger model; 0 is free
    world: int = 1
    config: Mapping[str, Any] = field(default_factory=dict)
    seeds: int = 3
    # Names of faults for each optimizer in turn; those of older kinds stand with the faults.
    faults: tuple[str, ...] = ()
    fault_seeds: int = 2  # of each of these

    def optimizer(self, name: str) -> OptimizerChoice:
        found = next((one for one in self.optimizers if one.name == name), None)
        if found is None:
            raise ValueError(f"kind {self.name} has no optimizer {name!r}")
        return found
