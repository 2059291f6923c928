"""Reads batches where they are collated, and sends what it read to the training process.

The collate function of a loader is replaced while an iterator is made. A batch then travels with
its facts, and the iterator takes them apart before anybody sees the pair.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from torch.utils.data import default_collate, get_worker_info
from torch.utils.data._utils.pin_memory import pin_memory

from epochal.guard import Fault, Guard
from epochal.torch.data.batch_facts import BatchFacts, count_samples, read_batch
from epochal.torch.data.pair_figures import PairReader

MEMBER = "watch_data"
# Reading may take this share of the time; above it, fewer batches are read.
MOST_SHARE = 0.005
_JUDGED_READS = 4
# So much is read in any case: a small dataset is read whole.
_ALLOWANCE_S = 0.1
_MOST_STRIDE = 1024


class BatchWithFacts:
    """A batch with what was read of it, and the fault that kept it from being read."""

    __slots__ = ("batch", "facts", "fault")

    def __init__(self, batch: Any, facts: BatchFacts | None, fault: Fault | None = None) -> None:
        self.batch, self.facts, self.fault = batch, facts, fault

    def pin_memory(self, device: str | None = None) -> BatchWithFacts:
        """Pin the batch, as the loader would have done."""
        pin: Callable[..., Any] = pin_memory
        return BatchWithFacts(pin(self.batch, device), self.facts, self.fault)


class BatchReader:
    """Reads every batch, or every so many-th where that takes too long.

    The share is that of the time between two batches: of the training's own time without workers,
    of a worker's otherwise.
    """

    def __init__(self, pad: int | None, *, stride: int = 1) -> None:
        self.stride = stride
        self._pad = pad
        self._pairs = PairReader()
        self._index = -1
        self._guard: Guard | None = None  # made where batches are read, which may be in a worker
        self._fault: Fault | None = None  # the first one, until it is sent
        self._spent = 0.0
        self._spent_before = 0.0
        self._reads = 0
        self._since: float | None = None

    def read(self, batch: Any, samples: Any, *, is_stacked: bool = False) -> BatchFacts | None:
        """The facts of a batch, only its size where it is left out; None if it cannot be read."""
        if self._guard is None:
            self._guard = Guard(self._keep_fault)
        if not self._guard.is_disabled(MEMBER):
            return self._guard.run(MEMBER, self._read, batch, samples, is_stacked)
        return self._guard.run(MEMBER, count_samples, batch, samples)

    def _read(self, batch: Any, samples: Any, is_stacked: bool) -> BatchFacts:
        self._index += 1
        if self._index % self.stride:
            facts = count_samples(batch, samples)
        else:
            began = time.thread_time()
            facts = read_batch(batch, samples, pad=self._pad, is_stacked=is_stacked)
            facts.pair = self._pairs.read(batch, facts.samples)
            self._judge(time.thread_time() - began, time.perf_counter())
        facts.stride = self.stride
        worker = get_worker_info()
        facts.worker = None if worker is None else worker.id
        return facts

    def _keep_fault(self, fault: Fault) -> None:
        self._fault = fault

    def take_fault(self) -> Fault | None:
        """The first fault of reading, once."""
        fault, self._fault = self._fault, None
        return fault

    def _judge(self, took_s: float, at: float) -> None:
        if self._since is None:
            self._since = at  # the first read loads code, too
            return
        self._spent += took_s
        self._reads += 1
        if self._reads < _JUDGED_READS:
            return
        excess = self._spent / max(at - self._since, 1e-9) / MOST_SHARE
        self._spent_before += self._spent
        if excess > 1 and self._spent_before > _ALLOWANCE_S:
            more = 1 << math.ceil(math.log2(excess))
            self.stride = min(_MOST_STRIDE, self.stride * more)
        elif excess < 0.25 and self.stride > 1:
            self.stride //= 2
        self._since, self._spent, self._reads = at, 0.0, 0


class WatchedCollate:
    """A collate function that gives the batch together with its facts."""

    def __init__(
        self, collate: Callable[[Any], Any], reader: BatchReader, *, is_batched: bool
    ) -> None:
        self._collate = collate
        self._is_batched = is_batched  # whether it is given the samples of a batch as a list
        self._is_stacked = is_batched and collate is default_collate
        self._reader = reader

    def __call__(self, samples: Any) -> BatchWithFacts:
        """Collate as the loader's own function does, then read the batch."""
        batch = self._collate(samples)
        is_list = self._is_batched and isinstance(samples, (list, tuple))
        facts = self._reader.read(
            batch, samples if is_list else None, is_stacked=is_list and self._is_stacked
        )
        return BatchWithFacts(batch, facts, self._reader.take_fault())
