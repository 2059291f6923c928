"""A batch: which of its tensors are inputs and labels, and copies of it with other inputs."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Mapping
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from epochal.torch.preflight.answer import CannotTellError

LABELS = ("labels", "label", "targets", "target", "label_ids", "y")
TOKENS = ("input_ids", "tokens", "decoder_input_ids")
# Parts of names of tensors that say something about the inputs.
_ABOUT_INPUTS = (
    "mask",
    "position",
    "type_ids",
    "length",
    "edge",
    "adj",
    "index",
    "weight",
    "cache",
)


class Batch:
    """A batch as the model gets it: a tensor, a tuple, a list or a mapping of tensors."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.tensors: dict[Hashable, Tensor] = _tensors_of(value)

    @cached_property
    def label_key(self) -> Hashable | None:
        """Where the labels are: the last of a tuple, or a key that is called so."""
        if isinstance(self.value, (tuple, list)):
            last = len(self.value) - 1
            return last if last > 0 and last in self.tensors else None
        return next((key for key in LABELS if key in self.tensors), None)

    @property
    def labels(self) -> Tensor | None:
        """The labels, if the batch has any."""
        return None if self.label_key is None else self.tensors[self.label_key]

    @cached_property
    def inputs(self) -> dict[Hashable, Tensor]:
        """The tensors whose rows are the inputs of one sample each."""
        candidates = {
            key: tensor
            for key, tensor in self.tensors.items()
            if key != self.label_key
            and tensor.dim()
            and tensor.dtype is not torch.bool
            and tensor.layout is torch.strided
            and not (isinstance(key, str) and any(part in key for part in _ABOUT_INPUTS))
            and not (isinstance(key, str) and key in LABELS)
        }
        if not candidates:
            return {}
        first = next(iter(candidates.values()))
        size = first.shape[0]
        return {
            key: tensor
            for key, tensor in candidates.items()
            # A square of samples is an adjacency.
            if tensor is first or (tensor.shape[0] == size and tensor.shape != (size, size))
        }

    @property
    def size(self) -> int:
        """How many samples there are."""
        if not self.inputs:
            kind = type(self.value).__name__
            raise CannotTellError(f"the inputs in a batch of type {kind} are not known")
        return int(next(iter(self.inputs.values())).shape[0])

    @cached_property
    def token_key(self) -> Hashable | None:
        """Where the tokens of sequences are."""
        for key in (*TOKENS, *self.inputs):
            tensor = self.inputs.get(key)
            if (
                tensor is not None
                and is_tokens(tensor)
                and tensor.dim() == 2
                and tensor.shape[1] > 1
            ):
                return key
        return None

    @property
    def mask(self) -> Tensor | None:
        """Which positions are no padding."""
        return self.tensors.get("attention_mask")

    def changed(self, key: Hashable, tensor: Tensor) -> Batch:
        """Return a copy with another tensor."""
        return Batch(_with(self.value, key, tensor))

    def perturbed(self, rows: slice, vocabularies: Mapping[Hashable, int], seed: int = 1) -> Batch:
        """Return a copy with other inputs in some samples."""
        batch = self
        for key, tensor in self.inputs.items():
            other = tensor.clone()
            other[rows] = other_values(tensor, vocabularies.get(key), seed)[rows]
            batch = batch.changed(key, other)
        return batch

    def perturbed_after(
        self, key: Hashable, position: int, vocabularies: Mapping[Hashable, int]
    ) -> Batch:
        """Return a copy whose tokens are others from a position on."""
        tensor = self.tensors[key]
        other = tensor.clone()
        other[:, position:] = other_values(tensor, vocabularies.get(key), 1)[:, position:]
        return self.changed(key, other)


def is_tokens(tensor: Tensor) -> bool:
    """Return True for whole numbers that may be the index of an embedding."""
    return not tensor.is_floating_point() and tensor.dtype in (torch.int64, torch.int32)


def other_values(tensor: Tensor, vocabulary: int | None, seed: int) -> Tensor:
    """Return values that differ from each of these; of tokens, ones that occur as well."""
    generator = torch.Generator().manual_seed(seed)
    if tensor.is_floating_point() or tensor.is_complex():
        scale = tensor.float().std().nan_to_num(0.0) if tensor.is_floating_point() else 1.0
        noise = torch.randn(tensor.shape, generator=generator).to(tensor.device)
        return (tensor + noise * (scale + (scale == 0))).to(tensor.dtype)
    known, index = torch.unique(tensor, return_inverse=True)
    known = known[known >= 0]
    if len(known) < 2 or (tensor < 0).any():
        # Negative labels are ignored ones; they stay.
        limit = vocabulary or int(tensor.max()) + 1
        return torch.where(tensor < 0, tensor, (tensor + 1) % max(limit, 1))
    shift = torch.randint(1, len(known), tensor.shape, generator=generator).to(tensor.device)
    other: Tensor = known[(index + shift) % len(known)]
    return other


def _tensors_of(value: Any) -> dict[Hashable, Tensor]:
    if isinstance(value, Tensor):
        return {"input": value}
    if isinstance(value, Mapping):
        items: Any = value.items()
    elif isinstance(value, (tuple, list)):
        items = enumerate(value)
    else:
        return {}
    return {key: item for key, item in items if isinstance(item, Tensor)}


def _with(value: Any, key: Hashable, tensor: Tensor) -> Any:
    if isinstance(value, Tensor):
        return tensor
    if isinstance(value, tuple):
        items = [tensor if index == key else item for index, item in enumerate(value)]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    other: Any = copy.copy(value)
    other[key] = tensor
    return other
