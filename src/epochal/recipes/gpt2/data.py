"""Batches of windows of tokens: shuffled anew each epoch, apart on each rank, and resumable.

A window is a context and the token after it. Windows are drawn block by block: the order of the
blocks is drawn for each epoch and kept in the checkpoint; inside a block it follows from the seed.
The position counts the windows of all ranks, so every rank knows where all of them are.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from epochal.errors import UsageError
from epochal.recipes.gpt2.place import Place
from epochal.recipes.gpt2.shards import Shard
from epochal.torch.rng import Rng

# The order inside one is in memory, that of the blocks is in every checkpoint.
BLOCK_WINDOWS = 1 << 16


@dataclass(frozen=True, slots=True)
class Batch:
    """What one rank trains on at once, with what all ranks do at that moment.

    `num_targets` counts the targets that count in the loss, `all_targets` those of every rank,
    `all_tokens` the tokens every rank reads, padding left out.
    """

    inputs: Tensor
    targets: Tensor
    num_targets: int
    all_targets: int
    all_tokens: int


class Batches(Protocol):
    """Where a training gets its batches from."""

    def next(self) -> Batch:
        """The next batch of this rank."""

    def validation(self, num_batches: int) -> Iterator[Batch]:
        """This rank's share of what the training is judged by, the same every time."""

    def state_dict(self) -> dict[str, Any]:
        """Where it is."""

    def load_state_dict(self, state_dict: dict[str, Any], /) -> None:
        """Go on from there."""


@dataclass(frozen=True, slots=True)
class _Block:
    shard: int
    first: int
    count: int


class WindowBatches:
    """Batches of windows of shards."""

    def __init__(
        self,
        train: Sequence[Shard],
        validation: Sequence[Shard],
        *,
        context_length: int,
        batch_size: int,
        seed: int,
        place: Place,
        block_windows: int = BLOCK_WINDOWS,
    ) -> None:
        self._shards = list(train)
        self._context = context_length
        self._batch = batch_size
        self._seed = seed
        self._place = place
        self._blocks = list(_blocks(self._shards, context_length, block_windows))
        self._validation = [
            (shard, first)
            for shard in validation
            for first in range((len(shard) - 1) // context_length)
        ]
        self.num_windows = sum(block.count for block in self._blocks)
        self._at_once = batch_size * place.world_size
        if self.num_windows < self._at_once:
            raise UsageError(
                f"the data has {self.num_windows} windows of --context_length {context_length}: "
                f"too few for --mini_batch_size {batch_size} on {place.world_size} ranks."
            )
        self.epoch = 0
        self._position = 0
        self._order: list[int] = []
        self._ends: list[int] = []
        self._inside: dict[int, list[int]] = {}
        self._begin_epoch(0)

    def next(self) -> Batch:
        """The next batch of this rank; what does not fill a batch of all ranks is left out."""
        if self._position + self._at_once > self.num_windows:
            self._begin_epoch(self.epoch + 1)
        start = self._position + self._place.rank * self._batch
        self._position += self._at_once
        return self._made([self._window(place) for place in range(start, start + self._batch)])

    def validation(self, num_batches: int) -> Iterator[Batch]:
        """The first windows kept apart, as many as that many full batches have."""
        size, place = self._batch, self._place
        chosen = self._validation[: num_batches * self._at_once]
        mine = chosen[place.rank :: place.world_size]
        for start in range(0, len(mine), size):
            rows = [_row(s, first, self._context) for s, first in mine[start : start + size]]
            yield self._made(rows)

    def state_dict(self) -> dict[str, Any]:
        """The epoch, its order of blocks, how far it is, and what it is an order of."""
        return {
            "epoch": self.epoch,
            "position": self._position,
            "order": list(self._order),
            "seed": self._seed,
            "data": self._fingerprint(),
        }

    def load_state_dict(self, state_dict: dict[str, Any], /) -> None:
        """Go on in the saved order; raises UsageError when the data is not what it was."""
        if list(state_dict["data"]) != self._fingerprint():
            raise UsageError(
                "the data is not what it was when the checkpoint was saved: its files, their "
                "lengths or --context_length have changed."
            )
        self._seed = state_dict["seed"]
        self._begin_epoch(state_dict["epoch"], order=list(state_dict["order"]))
        self._position = state_dict["position"]

    def _fingerprint(self) -> list[Any]:
        return [self._context, len(self._blocks), *([s.name, len(s)] for s in self._shards)]

    def _begin_epoch(self, epoch: int, *, order: list[int] | None = None) -> None:
        if order is None:
            order = list(range(len(self._blocks)))
            Rng(seed_of(self._seed, epoch)).shuffle(order)
        self.epoch, self._position = epoch, 0
        self._order = order
        self._ends = list(accumulate(self._blocks[number].count for number in order))
        self._inside = {}

    def _window(self, place: int) -> npt.NDArray[np.uint16]:
        """The tokens at a place of this epoch's order."""
        turn = bisect_right(self._ends, place)
        number = self._order[turn]
        block = self._blocks[number]
        if number not in self._inside:
            inside = list(range(block.count))
            Rng(seed_of(self._seed, self.epoch, number)).shuffle(inside)
            # A batch reaches over two blocks at most times; older ones are done with.
            kept = list(self._inside.items())[-1:]
            self._inside = {**dict(kept), number: inside}
        offset = place - (self._ends[turn] - block.count)
        first = block.first + self._inside[number][offset]
        return _row(self._shards[block.shard], first, self._context)

    def _made(self, rows: list[npt.NDArray[np.uint16]]) -> Batch:
        windows = torch.from_numpy(np.stack(rows).astype(np.int64))
        device = self._place.device
        if device.type == "cuda":
            windows = windows.pin_memory().to(device, non_blocking=True)
        count = len(rows) * self._context
        everybody = count * self._place.world_size
        return Batch(windows[:, :-1], windows[:, 1:], count, everybody, everybody)


def _blocks(shards: Sequence[Shard], context: int, size: int) -> Iterator[_Block]:
    for index, shard in enumerate(shards):
        count = (len(shard) - 1) // context
        for first in range(0, count, size):
            yield _Block(index, first, min(size, count - first))


def _row(shard: Shard, window: int, context: int) -> npt.NDArray[np.uint16]:
    start = window * context
    return shard.tokens[start : start + context + 1]


def seed_of(*parts: int) -> int:
    """One number from several, so that neighbouring seeds and epochs have nothing in common."""
    digest = hashlib.sha256(repr(parts).encode()).digest()
    return int.from_bytes(digest[:8], "little")
