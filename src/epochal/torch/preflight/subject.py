"""What the questions are asked about: a model, a batch, and passes that leave no trace."""

from __future__ import annotations

import copy
import time
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from epochal.base.guard import attempt
from epochal.torch.preflight.answer import CannotTellError
from epochal.torch.preflight.batch import Batch
from epochal.torch.preflight.calls import CallReader, Calls
from epochal.torch.preflight.program import NO_LOSS, Program, first_output
from epochal.torch.preflight.state import ModelState, seed_all
from epochal.torch.structure import named_parameters

# What a copy needs beside its values, for gradients and the state of an optimizer.
_COPIES_OF_WEIGHTS = 4
# So many rows of the predictions are kept between questions.
_MOST_ROWS = 256
# How far zero weights are moved, so that what comes after them can be seen.
_SMALL = 0.02


class Subject:
    """The model that is asked, which is a copy wherever that is possible."""

    def __init__(
        self,
        original: nn.Module,
        batch: Batch,
        program: Program,
        *,
        optimizers: Sequence[torch.optim.Optimizer] = (),
        loader: Any = None,
        causal: bool | None = None,
        seconds: float = 60.0,
    ) -> None:
        self.original = original
        self.batch = batch
        self.program = program
        self.optimizers = optimizers
        self.loader = loader
        self.causal = causal
        self._ends_at = time.monotonic() + seconds
        self.original_state = ModelState(original)
        self.model, self.state = original, self.original_state
        self.fault: Exception | None = None  # what the first pass raised
        if _has_room_for_copy(original):
            self._use_copy()
        if not self.is_copy:
            self.fault = attempt(lambda: self.observed)[1]

    def _use_copy(self) -> None:
        made, _ = attempt(copy.deepcopy, self.original)
        if not isinstance(made, nn.Module) or _shares_memory(made, self.original):
            return
        self.model, self.state = made, ModelState(made, self.original_state.values)
        for parameter in made.parameters():
            parameter.grad = None
        # A copy may still call the original, through a closure. Then the original is asked.
        self.fault = attempt(self._try_pass)[1]
        self.state.restore()
        if self.original_state.restore():
            self.model, self.state = self.original, self.original_state

    def _try_pass(self) -> None:
        self.set_training()
        seed_all(0)
        output = self.program.output(self.model, self.batch)
        loss = self.program.loss(output, self.batch)
        result = first_output(output) if loss is None else loss
        if result is not None and result.requires_grad:
            result.sum().backward()  # type: ignore[no-untyped-call]

    @property
    def is_copy(self) -> bool:
        """Whether the model that is asked is a copy."""
        return self.model is not self.original

    @property
    def seconds_left(self) -> float:
        """How much time the questions may still take."""
        return self._ends_at - time.monotonic()

    @cached_property
    def parameters(self) -> dict[str, Tensor]:
        """The parameters of the model that is asked, each once."""
        return dict(named_parameters(self.model))

    @cached_property
    def trainable(self) -> list[str]:
        """The names of the parameters that are not frozen."""
        return [name for name, one in self.parameters.items() if one.requires_grad]

    @cached_property
    def device(self) -> torch.device:
        """The device of the model."""
        first = next(self.model.parameters(), next(self.model.buffers(), torch.zeros(())))
        return first.device

    # -- passes -----------------------------------------------------------------------------------

    def set_training(self) -> None:
        """Have the model train. Parts that are in eval mode on purpose stay so."""
        if not self.model.training:
            self.model.train()

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Put the model back afterwards."""
        try:
            yield
        finally:
            self.state.restore()

    def loss(self, seed: int = 0, *, training: bool = True) -> Tensor:
        """The loss of the batch, with its graph."""
        self.set_training() if training else self.model.eval()
        seed_all(seed)
        loss = self.program.loss(self.program.output(self.model, self.batch), self.batch)
        if loss is None:
            raise CannotTellError(NO_LOSS)
        return loss.reshape(())

    @cached_property
    def observed(self) -> tuple[Calls, float | None]:
        """What one pass in training mode called, and its loss."""
        size, _ = attempt(lambda: self.batch.size)
        reader = CallReader(size or 0)
        with self.changing(), reader, torch.enable_grad():
            self.set_training()
            seed_all(0)
            loss = self.program.loss(self.program.output(self.model, self.batch), self.batch)
        reader.calls.keep_first_rows(_MOST_ROWS)
        return reader.calls, None if loss is None else float(loss.detach())

    @property
    def calls(self) -> Calls:
        """What one pass in training mode called."""
        return self.observed[0]

    @cached_property
    def vocabularies(self) -> dict[Hashable, int]:
        """The size of the embedding that each input is an index of."""
        return {
            key: size
            for key, tensor in self.batch.tensors.items()
            for index, size in self.calls.embeddings
            if index.shape == tensor.shape and torch.equal(index, tensor)
        }

    def backward(self, seed: int = 0, *, training: bool = True) -> dict[str, Tensor | None]:
        """The gradient of each trainable parameter, None for one that gets none.

        The caller puts the model back.
        """
        loss = self.loss(seed, training=training)
        if not loss.requires_grad:
            return dict.fromkeys(self.trainable)
        parameters = [self.parameters[name] for name in self.trainable]
        if self.is_copy:
            loss.backward()  # type: ignore[no-untyped-call]
            found: Sequence[Tensor | None] = [one.grad for one in parameters]
        else:
            # Hooks on the gradients of the original may take a step, or exchange them.
            found = torch.autograd.grad(loss, parameters, allow_unused=True)
        return dict(zip(self.trainable, found, strict=True))

    @torch.no_grad()
    def leave_zero(self) -> None:
        """Move weights that are all zero, behind which nothing could be seen."""
        generator = torch.Generator().manual_seed(0)
        for parameter in self.parameters.values():
            if parameter.is_floating_point() and parameter.numel() and not parameter.any():
                noise = torch.randn(parameter.shape, generator=generator) * _SMALL
                parameter.copy_(noise)

    @torch.no_grad()
    def predictions(self, batch: Batch, *, training: bool = False) -> Tensor:
        """The predictions for a batch, one row a sample."""
        self.set_training() if training else self.model.eval()
        seed_all(0)
        reader = CallReader(batch.size)
        with reader:
            output = self.program.output(self.model, batch)
        found, main = first_output(output), reader.calls.main
        if found is not None:
            return self._as_samples(found)
        if main is None:
            raise CannotTellError("the model returns a loss and no predictions")
        return self._as_samples(main.input)  # what it computes its loss from

    def _as_samples(self, output: Tensor) -> Tensor:
        size = self.batch.size
        if output.shape[0] == size:
            return output
        key = self.batch.token_key
        length = 0 if key is None else self.batch.tensors[key].shape[1]
        if length and output.shape[0] in (size * length, size * (length - 1)):
            rows: Tensor = output.reshape(size, -1, *output.shape[1:])
            return rows
        raise CannotTellError(f"the output has {output.shape[0]} rows for {size} samples")


def _has_room_for_copy(model: nn.Module) -> bool:
    """Whether a copy and what training it takes fit into the memory of the device."""
    parameters = list(model.parameters())
    needed = sum(one.numel() * one.element_size() for one in parameters) * _COPIES_OF_WEIGHTS
    return free_bytes(parameters[0].device if parameters else torch.device("cpu")) > needed


def free_bytes(device: torch.device) -> int:
    """The memory that can still be allocated on a device."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(free + unused)
    import psutil

    return int(psutil.virtual_memory().available)


def _shares_memory(made: nn.Module, original: nn.Module) -> bool:
    """Whether a copy has a tensor of the original, or lacks one."""
    tensors = [[*one.parameters(), *one.buffers()] for one in (made, original)]
    if [one.shape for one in tensors[0]] != [one.shape for one in tensors[1]]:
        return True
    theirs = {id(one) for one in tensors[1]}
    return any(id(one) in theirs for one in tensors[0])


def num_ranks() -> int:
    """How many processes train together."""
    distributed = torch.distributed
    if not distributed.is_available() or not distributed.is_initialized():
        return 1
    return int(distributed.get_world_size())
