"""A body applied to every piece of a stream."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from epochal.errors import UsageError

Pieces = Literal["each", "over", "slices"]


class Map(nn.Module):
    """Applies `body` to every row of the first dimension, or to slices of the last one.

    Rows keep their dimension of one. With `batched` the body is called once for all pieces, which
    is right for a body that treats the rows of a batch alike, and much faster.
    """

    def __init__(
        self, body: nn.Module, pieces: Pieces, *, slices: int = 0, batched: bool = False
    ) -> None:
        super().__init__()
        self.body = body
        self.pieces = pieces
        self.slices = slices
        self.batched = batched

    def forward(self, stream: Tensor, *references: Any) -> Tensor:
        """Return the pieces put together again, in their order."""
        if self.pieces == "slices":
            return self._sliced(stream, references)
        if self.batched:
            whole: Tensor = self.body(stream, *references)
            return whole
        rows = [self.body(row, *references) for row in torch.split(stream, 1)]
        return torch.cat(rows)

    def extra_repr(self) -> str:
        """What the pieces are."""
        what = f"{self.slices} slices" if self.pieces == "slices" else "each row"
        return f"{what}, batched" if self.batched else what

    def _sliced(self, stream: Tensor, references: tuple[Any, ...]) -> Tensor:
        width = stream.shape[-1]
        if width % self.slices:
            raise UsageError(
                f"map().slices({self.slices}) needs a last dimension that it divides, got {width}."
            )
        if not self.batched:
            pieces = [self.body(piece, *references) for piece in stream.chunk(self.slices, -1)]
            return torch.cat(pieces, -1)
        rows = stream.reshape(-1, width // self.slices)
        mapped: Tensor = self.body(rows, *references)
        return mapped.reshape(*stream.shape[:-1], self.slices * mapped.shape[-1])
