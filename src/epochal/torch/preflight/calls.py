"""Sees which functions of torch a pass calls: losses, embeddings, and what joins samples."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 (its usual name)
from torch import Tensor
from torch.overrides import TorchFunctionMode

LOSSES: dict[Callable[..., Any], str] = {
    getattr(F, name): name
    for name in (
        "cross_entropy",
        "nll_loss",
        "binary_cross_entropy",
        "binary_cross_entropy_with_logits",
        "mse_loss",
        "l1_loss",
        "smooth_l1_loss",
        "huber_loss",
    )
}
CLASSIFYING = ("cross_entropy", "nll_loss")
BINARY = ("binary_cross_entropy", "binary_cross_entropy_with_logits")
_SIGNATURES = {function: inspect.signature(function) for function in LOSSES}
# Functions whose scale may be that of all samples together.
_SCALES = ("round", "fake_quant", "quantize")
# Functions that move rows between samples if their dimension is the first.
_MESSAGES = ("index_add", "scatter", "index_reduce")
# What only gives a tensor another shape.
_VIEWS = ("View", "Reshape", "Squeeze", "Unsqueeze", "Transpose", "Clone", "ToCopy", "Slice",
          "Select", "Permute", "TBackward", "Alias", "Contiguous", "Expand")  # fmt: skip


@dataclass(slots=True)
class LossCall:
    """One call of a loss function; ``input`` is without its graph, and may be its first rows."""

    name: str
    input: Tensor
    shape: torch.Size
    target: Tensor
    options: Mapping[str, Any]
    made_by: str
    result: Tensor

    @property
    def reduction(self) -> str:
        """How the losses of all elements become one number."""
        return str(self.options.get("reduction", "mean"))

    @property
    def ignored(self) -> int:
        """The label that does not count."""
        return int(self.options.get("ignore_index", -100))

    @property
    def has_class_labels(self) -> bool:
        """Whether each target is the number of a class."""
        return self.name in CLASSIFYING and not self.target.is_floating_point()

    @property
    def classes(self) -> int:
        """How many classes there are."""
        return int(self.shape[1 if len(self.shape) > 1 else 0])

    def rows(self) -> Tensor:
        """The input with the classes as columns."""
        if self.input.dim() < 2:
            return self.input.unsqueeze(0)
        return self.input.movedim(1, -1).reshape(-1, self.classes)


@dataclass(slots=True)
class Calls:
    """What one pass called."""

    losses: list[LossCall] = field(default_factory=list)
    embeddings: list[tuple[Tensor, int]] = field(default_factory=list)
    joins: set[str] = field(default_factory=set)

    def keep_first_rows(self, most: int) -> None:
        """Free the rest of what losses were computed from, which may be the largest tensor."""
        for call in self.losses:
            if call.input.dim() > 1:
                call.input = call.input[:most].clone()

    @property
    def main(self) -> LossCall | None:
        """The loss of the largest output."""
        return max(self.losses, key=lambda call: call.shape.numel(), default=None)


class CallReader(TorchFunctionMode):
    """Reads the calls of a pass while it is entered; ``size`` is the number of samples."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.calls = Calls()
        self._size = size

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Call the function, and note what it was called with."""
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if func in LOSSES:
            self._note_loss(func, args, kwargs, result)
        elif func is F.embedding:
            given = dict(zip(("input", "weight"), args, strict=False)) | kwargs
            self.calls.embeddings.append((given["input"].detach(), given["weight"].shape[0]))
        else:
            self._note_join(getattr(func, "__name__", ""), args, kwargs)
        return result

    def _note_loss(self, func: Any, args: Any, kwargs: Any, result: Tensor) -> None:
        bound = _SIGNATURES[func].bind(*args, **kwargs).arguments
        given, target = bound.pop("input"), bound.pop("target")
        made_by = _maker_of(given)
        call = LossCall(
            LOSSES[func],
            given.detach(),
            given.shape,
            target.detach(),
            bound,
            made_by,
            result.detach(),
        )
        self.calls.losses.append(call)

    def _note_join(self, name: str, args: Any, kwargs: Any) -> None:
        if name.startswith(_SCALES):
            self.calls.joins.add(name)
        dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
        if name.startswith(_MESSAGES) and isinstance(dim, int) and dim == 0:
            self.calls.joins.add(name)
        for arg in args[:3]:
            if isinstance(arg, Tensor) and not arg.requires_grad:
                is_square = self._size > 1 and arg.shape == (self._size, self._size)
                if arg.layout is not torch.strided or (is_square and arg.is_floating_point()):
                    self.calls.joins.add(name)


def _maker_of(tensor: Tensor) -> str:
    """The name of the function that made the values of a tensor; empty if unknown."""
    node = tensor.grad_fn
    for _ in range(8):
        if node is None:
            return ""
        name = node.name()
        if not any(part in name for part in _VIEWS) or not node.next_functions:
            return name
        node = node.next_functions[0][0]
    return ""
