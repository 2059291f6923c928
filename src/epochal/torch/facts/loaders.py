"""Data loaders of the training that nobody passed to ``watch_data``: their waits and batches.

``__next__`` of torch's loader iterators is replaced by a function that calls it, until the run
ends. It times the wait for each batch in the thread that trains, and reads the batches as
``watch_data`` does, but in a thousandth of the time at most and without indices of samples. A
loader is training data once a gradient or a step came between two of its batches, and evaluation
data if a whole pass after the first step had none. Until then nothing is written. Other iterables,
and loaders that other threads read, are not seen.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

from torch.utils.data import default_collate
from torch.utils.data.dataloader import _BaseDataLoaderIter

from epochal.base.guard import attempt
from epochal.journal.line import now
from epochal.run.run import Run
from epochal.torch.data.watch import EpochWatch, LoaderWatch, WatchedCollate, loader_facts
from epochal.torch.guarded import guarded_hook

_MOST_SHARE = 0.001
# A program that makes a dataset in each iteration has no splits; only the waits are recorded.
_MOST_DATASETS = 8
_TRAINING, _EVALUATION = "train", "eval"
_LEAST_BATCHES, _FIRST_S, _LATEST_S = 20, 5.0, 60.0


class Loaders:
    """The loaders of a training, whose progress counts its gradients and steps."""

    def __init__(self, run: Run, progress: Callable[[], int]) -> None:
        self._run = run
        self._progress = progress
        self.thread: int | None = None  # the one that trains
        self._passes: weakref.WeakKeyDictionary[Any, _Pass] = weakref.WeakKeyDictionary()
        self._datasets: weakref.WeakKeyDictionary[Any, _Dataset] = weakref.WeakKeyDictionary()
        self._num_datasets = 0
        self._splits: Counter[str] = Counter()
        self._last: Any = None
        self._waits = _Waits(run)
        self._original: Any = None

    def start(self) -> None:
        """Replace ``__next__`` of loader iterators."""
        original: Any = _BaseDataLoaderIter.__next__

        def __next__(iterator: Any) -> Any:  # noqa: N807 (tracebacks show the name)
            began = time.perf_counter()
            try:
                batch = original(iterator)
            except StopIteration:
                self.end_pass(iterator)
                raise
            self.take(iterator, batch, began)
            return batch

        self._original = original, __next__
        _BaseDataLoaderIter.__next__ = __next__  # type: ignore[method-assign, assignment]

    def stop(self) -> None:
        """Restore what was replaced, and write the last wait."""
        original, own = self._original
        if _BaseDataLoaderIter.__next__ is own:
            _BaseDataLoaderIter.__next__ = original  # type: ignore[method-assign]
        self._waits.write()
        self._passes.clear()
        self._datasets.clear()

    @guarded_hook("facts")
    def take(self, iterator: Any, batch: Any, began: float) -> None:
        """Take in a batch that a loader returned."""
        if self._is_elsewhere():
            return
        ended, progress = time.perf_counter(), self._progress()
        current = self._passes.get(iterator)
        if current is None or iterator._num_yielded == 1:
            current = self._passes[iterator] = self._begin(iterator, progress)
        elif progress > current.progress:
            self._name(current.dataset, _TRAINING)
            if self._last is current:
                self._waits.add(ended - began, began - current.left_at)
        current.progress = progress
        current.read(iterator, batch)
        self._last, current.left_at = current, time.perf_counter()

    @guarded_hook("facts")
    def end_pass(self, iterator: Any) -> None:
        """Take in the end of a pass over a loader."""
        current = self._passes.pop(iterator, None)
        if current is None or self._is_elsewhere():
            return
        progress = self._progress()
        if progress > current.progress:
            self._name(current.dataset, _TRAINING)
        elif current.is_evaluation(progress) and not _is_trained_on(current.dataset):
            self._name(current.dataset, _EVALUATION)
        current.end()

    def _is_elsewhere(self) -> bool:
        is_other = self.thread not in (None, threading.get_ident())
        return is_other or self._run.state == "finished"

    def _begin(self, iterator: Any, progress: int) -> _Pass:
        if isinstance(iterator._collate_fn, WatchedCollate):
            return _Pass(None, progress)
        dataset = iterator._dataset
        known, error = attempt(self._datasets.get, dataset)
        if known is None and error is None and self._num_datasets < _MOST_DATASETS:
            self._num_datasets += 1
            known = _Dataset(self._run, iterator)
            error = attempt(self._datasets.__setitem__, dataset, known)[1]
        return _Pass(None if error is not None else known, progress)

    def _name(self, dataset: _Dataset | None, split: str) -> None:
        """Write what is read of a dataset, as training or evaluation data."""
        if dataset is None:
            return
        dataset.watch.is_ready = True
        if dataset.split != split:
            dataset.split = split
            self._splits[split] += 1
            number = self._splits[split]
            dataset.watch.rename(split if number == 1 else f"{split}-{number}")


def _is_trained_on(dataset: _Dataset | None) -> bool:
    return dataset is not None and dataset.split == _TRAINING


class _Dataset:
    """One dataset of the training, whose split has no name while nobody knows what it is for."""

    def __init__(self, run: Run, iterator: Any) -> None:
        workers = int(iterator._num_workers)
        facts, _ = loader_facts(iterator._dataset, iterator._index_sampler, workers)
        self.watch = LoaderWatch("", run, facts | {"guessed": True}, most_share=_MOST_SHARE)
        self.watch.is_ready = False
        self.split = ""


class _Pass:
    """One pass over a loader."""

    def __init__(self, dataset: _Dataset | None, progress: int) -> None:
        self.progress = self._began_at = progress
        self.left_at = 0.0
        self.dataset = dataset
        self._epoch: EpochWatch | None = None
        if dataset is not None:
            dataset.watch.is_ready = False  # the model may also be evaluated on training data
            self._epoch = dataset.watch.begin()

    def read(self, iterator: Any, batch: Any) -> None:
        """Read a batch, if it is due."""
        if self.dataset is None or self._epoch is None:
            return
        watch = self.dataset.watch
        is_stacked = iterator._collate_fn is default_collate
        facts = watch.reader.read(batch, None, is_stacked=is_stacked)
        watch.note(watch.reader.take_fault())
        self._epoch.take(facts, None)

    def is_evaluation(self, progress: int) -> bool:
        """Whether a whole pass after the first step of the training had no gradient."""
        return progress == self._began_at > 0

    def end(self) -> None:
        """End a pass that returned all batches."""
        if self._epoch is not None:
            self._epoch.end(is_complete=True)


class _Waits:
    """The share of the time that a training waits for its loaders."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._batches, self._wait_s, self._work_s = 0, 0.0, 0.0
        self._interval_s = _FIRST_S

    def add(self, wait_s: float, work_s: float) -> None:
        """Take in the wait for a batch, and the time since the batch before it."""
        self._batches += 1
        self._wait_s += wait_s
        self._work_s += work_s
        if self._wait_s + self._work_s >= self._interval_s:
            self._interval_s = min(_LATEST_S, 2 * self._interval_s)
            self.write()

    def write(self) -> None:
        """Write the means since the last record, if they are of enough batches."""
        total_s = self._wait_s + self._work_s
        if self._batches < _LEAST_BATCHES or self._run.step < 0 or total_s <= 0:
            return
        metrics = {
            "time/data_wait": self._wait_s / total_s,
            "time/data_wait_ms": 1000 * self._wait_s / self._batches,
        }
        self._run.write(
            {"log": "metrics", "t": now(), "step": self._run.step, "m": metrics}, silent=True
        )
        self._batches, self._wait_s, self._work_s = 0, 0.0, 0.0
