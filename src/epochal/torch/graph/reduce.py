"""One number out of a tensor."""

from __future__ import annotations

import enum

import torch
from torch import Tensor

from epochal.errors import UsageError


class Reduce(enum.Enum):
    """How `collect_with` makes one number of an output; NORM is the L2 norm of all elements."""

    MEAN = "mean"
    SUM = "sum"
    MAX = "max"
    MIN = "min"
    NORM = "norm"

    @classmethod
    def named(cls, reduction: Reduce | str) -> Reduce:
        """The reduction of this name; raises ValueError for one that is not known."""
        try:
            return cls(reduction)
        except ValueError as error:
            names = ", ".join(repr(one.value) for one in cls)
            raise UsageError(
                f"reduction={reduction!r} is not known: use one of {names}."
            ) from error

    def apply(self, tensor: Tensor) -> Tensor:
        """Reduce all elements, where the tensor is, without waiting for the device."""
        values = tensor.detach()
        if not values.is_floating_point():
            values = values.to(torch.float32)
        if self is Reduce.NORM:
            norm: Tensor = torch.linalg.vector_norm(values)
            return norm
        if self is Reduce.MEAN:
            return values.mean()
        if self is Reduce.SUM:
            return values.sum()
        return values.amax() if self is Reduce.MAX else values.amin()
