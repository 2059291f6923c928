"""Several streams made one."""

from __future__ import annotations

import enum
from functools import reduce
from operator import add

from torch import Tensor, nn


class MergeOp(enum.Enum):
    """How streams are merged: their sum, or their mean."""

    ADD = "add"
    MEAN = "mean"


class Merge(nn.Module):
    """Adds its inputs, or takes their mean; they must have one shape."""

    def __init__(self, op: MergeOp) -> None:
        super().__init__()
        self.op = op

    def forward(self, *streams: Tensor) -> Tensor:
        """Return the merged stream."""
        total = reduce(add, streams)
        return total / len(streams) if self.op is MergeOp.MEAN else total

    def extra_repr(self) -> str:
        """The operation."""
        return self.op.value
