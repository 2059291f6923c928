"""Watches what a data loader gives: one ``data`` record a minute at most, and one for each epoch.

A loader stays the object it is, with a subclass of its own class. While it makes an iterator, its
collate function also reads the batches, and its sampler notes the indices it gives. A batch then
travels with its facts, and the iterator takes them apart again. So the loop, and what stands
between (Accelerate moves batches to a device), get what they always got. Only private names that
torch has had since 2.4 are used, and no attribute of the loader is left changed.
"""

from __future__ import annotations

import itertools
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from torch.utils.data import DataLoader, IterableDataset, default_collate, get_worker_info
from torch.utils.data._utils.pin_memory import pin_memory

from epochal.base.guard import Fault, Guard, attempt
from epochal.errors import UsageError
from epochal.journal.line import encode, now
from epochal.records import Record
from epochal.run.current import given_or_current, guard_of
from epochal.run.run import Run
from epochal.torch.data.batch import (
    MOST_IDENTITIES,
    BatchFacts,
    Sampled,
    Window,
    count_samples,
    previous_attempt_fields,
    read_batch,
)
from epochal.torch.data.pairs import FIRST_BATCHES, PairFigures, PairReader
from epochal.torch.guarded import guarded_hook

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

    def __init__(self, *, stride: int = 1, most_share: float = MOST_SHARE) -> None:
        self.stride = stride
        self._most_share = most_share
        self._pairs = PairReader()
        self._index = -1
        self._guard: Guard | None = None  # made where batches are read, which may be in a worker
        self._faults: list[Fault] = []  # until they are sent
        self._spent = 0.0
        self._spent_before = 0.0
        self._reads = 0
        self._since: float | None = None

    def read(self, batch: Any, samples: Any, *, is_stacked: bool = False) -> BatchFacts | None:
        """The facts of a batch, only its size where it is left out; None if it cannot be read."""
        if self._guard is None:
            self._guard = Guard(self._faults.append)
        if not self._guard.is_disabled(MEMBER):
            return self._guard.run(MEMBER, self._read, batch, samples, is_stacked)
        return self._guard.run(MEMBER, count_samples, batch, samples)

    def _read(self, batch: Any, samples: Any, is_stacked: bool) -> BatchFacts:
        self._index += 1
        if self._index % self.stride:
            facts = count_samples(batch, samples)
        else:
            began = time.thread_time()
            facts = read_batch(batch, samples, is_stacked=is_stacked)
            facts.pair = self._pairs.read(batch, facts.samples)
            self._judge(time.thread_time() - began, time.perf_counter())
        facts.stride = self.stride
        worker = get_worker_info()
        facts.worker = None if worker is None else worker.id
        return facts

    def take_fault(self) -> Fault | None:
        """The next fault of reading, once."""
        return self._faults.pop(0) if self._faults else None

    def _judge(self, took_s: float, at: float) -> None:
        if self._since is None:
            self._since = at  # the first read loads code, too
            return
        self._spent += took_s
        self._reads += 1
        if self._reads < _JUDGED_READS:
            return
        excess = self._spent / max(at - self._since, 1e-9) / self._most_share
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


# -- loaders over their epochs --------------------------------------------------------------------


L = TypeVar("L")
# Seconds between records: soon at first, once a minute later.
_FIRST_S, _LATEST_S = 5.0, 60.0
# Bytes that may be written: so many a second (0.9 MB an hour), and so many at once.
_BYTES_A_SECOND, _MOST_BYTES = 240.0, 65536.0
_RECORD_BYTES, _IDENTITY_BYTES = 800.0, 34.0

_dataset_numbers: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
_numbers = itertools.count(1)


class LoaderWatch:
    """What is known of one loader over all its epochs.

    Nothing is written while ``is_ready`` is False: it is not known yet what the batches are for.
    """

    def __init__(
        self, name: str, run: Run, facts: Record, *, most_share: float = MOST_SHARE
    ) -> None:
        self.reader = BatchReader(most_share=most_share)
        self.is_ready = True
        self.run = run
        self._facts = facts
        self._epochs = 0
        self._current: EpochWatch | None = None
        self.indices, self.hashes = Sampled(), Sampled()
        self.pairs = PairFigures()
        self._first_step = run.step
        self._bytes, self._filled_at = _MOST_BYTES, time.monotonic()
        self._interval_s = _FIRST_S
        self._written_at: float | None = None
        self.rename(name)
        run.on_finish(self.end)

    def rename(self, name: str) -> None:
        """Give the split a name, before its first record."""
        self._name = name
        self._earlier: Record = attempt(previous_attempt_fields, self.run, name)[0] or {}

    @property
    def is_over(self) -> bool:
        """Whether the run takes no records any more."""
        return self.run.state == "finished"

    def begin(self) -> EpochWatch:
        """Begin an epoch: one pass over the loader."""
        self.end()
        # A loader with a state makes an iterator only to ask for it.
        self._epochs += self._current is None or self._current.has_batches
        self._current = EpochWatch(self, self._epochs)
        return self._current

    def note(self, fault: Fault | None) -> None:
        """Record what kept a batch from being read, maybe in a worker."""
        if fault is not None:
            guard_of(self.run).adopt(fault)

    def end(self) -> None:
        """End the epoch that was left before the loader was exhausted."""
        if self._current is not None:
            self._current.end(is_complete=False)

    def is_due(self, batches: int) -> bool:
        """Whether a record is due after so many batches of an epoch that goes on.

        The first comes when the first batches are counted, later ones by the clock.
        """
        if not self.is_ready:
            return False
        if self._written_at is None:
            return batches >= FIRST_BATCHES
        return time.monotonic() - self._written_at >= self._interval_s

    def write(self, epoch: int, window: Window, *, ended: bool, complete: bool) -> bool:
        """Write a record of a window; False where too much was written lately."""
        if self.is_over or not self.is_ready:
            return True
        at = time.monotonic()
        self._bytes = min(_MOST_BYTES, self._bytes + _BYTES_A_SECOND * (at - self._filled_at))
        self._filled_at = at
        if self._bytes < _RECORD_BYTES:
            return False
        # A quarter of what may be written: the next epoch may end soon.
        room = int((self._bytes - _RECORD_BYTES) / 4 / _IDENTITY_BYTES)
        fields = window.fields(max(0, min(MOST_IDENTITIES, room)))
        record: Record = {"log": "data", "t": now(), "name": self._name}
        if self.run.step != self._first_step:
            record["step"] = self.run.step
        record |= {"epoch": epoch, **self._facts, **fields, **self._earlier}
        self._earlier = {}
        if ended:
            record |= {"ended": True, "complete": complete}
        self.run.write(record, silent=True)
        self._bytes -= len(encode(record))
        self._written_at = at
        self._interval_s = min(2 * self._interval_s, _LATEST_S)
        return True


class EpochWatch:
    """One pass over a loader."""

    def __init__(self, of: LoaderWatch, epoch: int) -> None:
        self._of = of
        self._run = of.run
        self._epoch = epoch
        self._window = Window(of.indices, of.hashes, of.pairs)
        self._is_over = False

    @property
    def has_batches(self) -> bool:
        """Whether anything was given."""
        return self._window.all_batches > 0

    @guarded_hook(MEMBER)
    def take(self, facts: BatchFacts | None, index: Any) -> None:
        """Take in one batch; ``index`` is what the sampler gave for it, None where unknown."""
        if self._is_over or self._of.is_over:
            return
        self._window.add(facts, _whole_numbers(index))
        if facts is not None:
            self._of.reader.stride = facts.stride  # where the next epoch begins
        if self._of.is_due(self._window.all_batches) and self._of.write(
            self._epoch, self._window, ended=False, complete=False
        ):
            self._window.begin()

    @guarded_hook(MEMBER)
    def end(self, *, is_complete: bool) -> None:
        """The last batch was given, or the loop left the loader."""
        if self._is_over:
            return
        self._is_over = True
        if self.has_batches:
            self._window.note_order()
            self._of.write(self._epoch, self._window, ended=True, complete=is_complete)


def _whole_numbers(index: Any) -> np.ndarray[Any, Any] | None:
    if index is None:
        return None
    given, _ = attempt(np.asarray, index)
    if given is None or given.dtype.kind not in "iu" or given.ndim > 1:
        return None
    return given.reshape(-1)


# -- loaders of torch -----------------------------------------------------------------------------


class _RecordingSampler:
    """An index sampler that keeps what it gives until its batch arrives."""

    def __init__(self, sampler: Any, base: Any) -> None:
        self._sampler = sampler
        self._base = base  # indices of the dataset below a Subset; None if there is none
        self.given: deque[Any] = deque()

    def __iter__(self) -> Iterator[Any]:
        given: deque[Any] = deque()
        self.given = given  # an older iterator keeps its own
        return self._noted(iter(self._sampler), given)

    def __len__(self) -> int:
        return len(self._sampler)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sampler, name)

    def _noted(self, indices: Iterator[Any], given: deque[Any]) -> Iterator[Any]:
        for index in indices:
            known = index
            if self._base is not None:
                numbers = _whole_numbers(index)
                known = None if numbers is None else attempt(self._base.__getitem__, numbers)[0]
            given.append(known)
            yield index


def _watch_loader(loader: DataLoader[Any], watch: LoaderWatch, base: Any) -> None:
    """Give a loader a class of its own, whose iterators tell what they give."""
    kind: Any = type(loader)
    # Batches must come in the order of their indices. A loader with a state keeps its sampler's.
    has_indices = (
        not isinstance(loader.dataset, IterableDataset)
        and getattr(loader, "in_order", True)
        and not hasattr(loader, "state_dict")
    )
    making: list[_RecordingSampler] = []  # the sampler of the iterator that is being made

    class Watched(kind):  # type: ignore[misc]
        @property
        def _index_sampler(self) -> Any:
            return making[0] if making else super()._index_sampler

        def _get_iterator(self) -> Any:
            if watch.is_over:
                return super()._get_iterator()
            collate = self.collate_fn
            noted = _RecordingSampler(super()._index_sampler, base) if has_indices else None
            if noted is not None:
                making.append(noted)
            # Past DataLoader.__setattr__, which other libraries replace.
            reader = watch.reader
            if self.num_workers:
                reader = BatchReader(stride=reader.stride)  # one for each worker
            self.__dict__["collate_fn"] = WatchedCollate(
                collate, reader, is_batched=self._auto_collation
            )
            try:
                iterator = super()._get_iterator()
            finally:
                self.__dict__["collate_fn"] = collate
                making.clear()
            _watch_iterator(iterator, watch, noted)
            return iterator

        def __reduce_ex__(self, protocol: Any) -> Any:
            # A copy in another process is not watched.
            return kind.__new__, (kind,), dict(self.__dict__)

    Watched.__name__, Watched.__qualname__ = kind.__name__, kind.__qualname__
    Watched.__module__ = kind.__module__
    Watched._unwatched_class = kind
    loader.__class__ = Watched


def _watch_iterator(iterator: Any, watch: LoaderWatch, noted: _RecordingSampler | None) -> None:
    kind: Any = type(iterator)
    epoch = watch.begin()
    given = noted.given if noted is not None else deque()

    class Watched(kind):  # type: ignore[misc]
        def _next_data(self, *args: Any) -> Any:
            try:
                data = super()._next_data(*args)
            except StopIteration:
                epoch.end(is_complete=True)
                raise
            index = given.popleft() if given else None
            if not isinstance(data, BatchWithFacts):
                return data
            watch.note(data.fault)
            epoch.take(data.facts, index)
            return data.batch

        def _reset(self, *args: Any, **options: Any) -> None:
            """Persistent workers begin another epoch."""
            nonlocal epoch, given
            super()._reset(*args, **options)
            epoch = watch.begin()
            given = noted.given if noted is not None else deque()

    Watched.__name__, Watched.__qualname__ = kind.__name__, kind.__qualname__
    Watched.__module__ = kind.__module__
    iterator.__class__ = Watched


def _facts_of(loader: DataLoader[Any]) -> tuple[Record, Any]:
    """What is known of a loader, and the indices of the dataset below its subsets."""
    batched = loader.batch_sampler
    sampler = loader.sampler if batched is None else batched  # one of a stream has no length
    return loader_facts(loader.dataset, sampler, int(loader.num_workers))


def loader_facts(given: Any, sampler: Any, workers: int) -> tuple[Record, Any]:
    """What is known of a loader of this dataset, and the indices below the dataset's subsets."""
    dataset, base = given, None
    while hasattr(dataset, "dataset") and hasattr(dataset, "indices"):
        indices, _ = attempt(np.asarray, dataset.indices)
        if indices is None or indices.dtype.kind not in "iu":
            break
        base = indices if base is None else indices[base]
        dataset = dataset.dataset
    facts: Record = {"dataset": f"{type(dataset).__name__}-{_number_of(dataset)}"}
    if not isinstance(given, IterableDataset):
        size, _ = attempt(len, given)
        facts |= {} if size is None else {"dataset_samples": size}
        facts["sampler"] = type(getattr(sampler, "sampler", None) or sampler).__name__
    facts["workers"] = workers
    return facts, base


def _number_of(dataset: Any) -> int:
    """Equal for loaders of one dataset object, and for no other object of this process."""
    known, error = attempt(_dataset_numbers.get, dataset)
    if error is not None:
        return id(dataset)  # it cannot be referred to weakly
    if known is None:
        known = next(_numbers)
        attempt(_dataset_numbers.__setitem__, dataset, known)
    return known


# -- other iterables ------------------------------------------------------------------------------


def _watched_batches(batches: Iterator[Any], watch: LoaderWatch) -> Iterator[Any]:
    epoch, reader = watch.begin(), watch.reader
    for batch in batches:
        epoch.take(None if watch.is_over else reader.read(batch, None), None)
        watch.note(reader.take_fault())
        yield batch
    epoch.end(is_complete=True)


class WatchedIterable:
    """A list, a generator or another iterable of batches."""

    def __init__(self, batches: Iterable[Any], watch: LoaderWatch) -> None:
        self._batches, self._watch = batches, watch
        is_iterator = isinstance(batches, Iterator)
        self._one_pass = _watched_batches(iter(batches), watch) if is_iterator else None

    def __iter__(self) -> Iterator[Any]:
        if self._one_pass is not None:
            return self._one_pass
        return _watched_batches(iter(self._batches), self._watch)

    def __next__(self) -> Any:
        if self._one_pass is None:
            raise TypeError(f"{type(self._batches).__name__!r} object is not an iterator")
        return next(self._one_pass)

    def __len__(self) -> int:
        return len(self._batches)  # type: ignore[arg-type]

    def __bool__(self) -> bool:
        return bool(self._batches)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batches, name)


def watch_data(loader: L, name: str = "train", run: Run | None = None) -> L:
    """Record what a data loader gives, and return that loader.

    Args:
        loader: A ``DataLoader``, or any other iterable, which comes back wrapped.
        name: The split: one with "train" in it is training data, any other is evaluation data.
        run: The run that records it, by default the current one.

    Returns:
        The loader, for your loop.
    """
    if not name or type(name) is not str:
        raise UsageError(f"name={name!r} must be a non-empty text, such as 'train' or 'eval'.")
    if not hasattr(loader, "__iter__"):
        kind = type(loader).__name__
        raise UsageError(f"watch_data() takes a data loader or another iterable, not {kind}.")
    run = given_or_current(run, "watch_data()")
    unwatched = getattr(type(loader), "_unwatched_class", None)
    if unwatched is not None:
        loader.__class__ = unwatched  # the last call counts
    if isinstance(loader, DataLoader) and hasattr(loader, "_get_iterator"):
        facts, base = _facts_of(loader)
        _watch_loader(loader, LoaderWatch(name, run, facts), base)
        return loader
    return WatchedIterable(loader, LoaderWatch(name, run, {}))  # type: ignore[return-value]
