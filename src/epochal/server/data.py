"""What the watched data loaders of a run gave: figures of each split and each of its epochs."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import msgspec

from epochal.health.data_window import DataWindow, Epoch, SampleSet, number, window_of
from epochal.health.observation import Observation
from epochal.journal.entries import Entry
from epochal.store.run import RunView

_CONTENT = "content"
# A run of many short epochs shows its last ones.
_MOST_EPOCHS = 200
_MOST_LABELS = 100


class DataEpoch(msgspec.Struct, frozen=True):
    """One epoch of a split, over all ranks; shares are estimates from ``compared`` samples."""

    attempt: int
    epoch: int
    samples: int
    batches: int
    complete: bool
    compared: int
    repeated: float | None  # share of samples that came before in the epoch
    padding: float | None
    mean: float | None
    std: float | None


class DataOverlap(msgspec.Struct, frozen=True):
    """The share of an evaluation split that a training split gave as well."""

    training: str
    by: str  # content or index
    share: float
    compared: int
    error: float  # standard error of the share


class DataSplit(msgspec.Struct, frozen=True):
    """A watched loader."""

    name: str
    is_training: bool
    sampler: str
    workers: int
    ranks: int
    dataset_samples: int | None
    on_device: int  # batches with tensors on a device, which were not read
    epochs: list[DataEpoch]
    overlaps: list[DataOverlap]
    labels: dict[str, int]  # of the last epoch
    one_class: float | None  # share of batches with one label, of the last epoch
    lengths: dict[str, int]  # power of two to number of sequences, of the last epoch
    mean_length: float | None
    nonfinite: int
    constant: int


class DataSplits(msgspec.Struct, frozen=True):
    """The splits that a run watches, training data first."""

    splits: list[DataSplit]


def data_splits(run: RunView) -> DataSplits:
    """The watched splits of a run; none if it watches no data."""
    splits: dict[str, _Split] = {}
    for entry in run.entries("data", rank=None):
        window = _window(entry)
        if window is not None:
            split = splits.setdefault(window.name, _Split(window.name))
            split.add(window, entry.position.attempt)
    ordered = sorted(splits.values(), key=lambda split: (not split.is_training, split.name))
    return DataSplits([split.response(ordered) for split in ordered])


def _window(entry: Entry) -> DataWindow | None:
    record = entry.record
    return window_of(Observation("data", None, 0.0, entry.rank, "", {}, {}, record))


class _Epoch:
    """One epoch as its records come in."""

    def __init__(self, number: int) -> None:
        self.counts = Epoch(number)
        self.ended = self.incomplete = 0
        self.lengths: Counter[str] = Counter()
        # Sums over the samples of the records that have the figure: of padding, length, inputs.
        self.sums: dict[str, tuple[float, float]] = {}

    def add(self, window: DataWindow) -> None:
        self.counts.add(window)
        if window.has_ended:
            self.ended += 1
            self.incomplete += window.record.get("complete") is not True
        lengths = window.record.get("lengths")
        known_lengths: dict[str, Any] = lengths if isinstance(lengths, dict) else {}
        counts = known_lengths.get("up_to")
        for edge, count in counts.items() if isinstance(counts, dict) else ():
            if isinstance(count, int) and str(edge).isdecimal():
                self.lengths[str(edge)] += count
        figures = {name: window.record.get(name) for name in ("padding", "mean", "std")}
        for name, value in {**figures, "length": known_lengths.get("mean")}.items():
            given = number(value)
            if given is not None and window.samples:
                total, weight = self.sums.get(name, (0.0, 0.0))
                self.sums[name] = (total + given * window.samples, weight + window.samples)

    def mean_of(self, name: str) -> float | None:
        total, weight = self.sums.get(name, (0.0, 0.0))
        return total / weight if weight and math.isfinite(total) else None

    def response(self, attempt: int, epoch: int) -> DataEpoch:
        kept = self.counts.indices.kept or self.counts.hashes.kept
        compared = kept.total()
        return DataEpoch(
            attempt=attempt,
            epoch=epoch,
            samples=self.counts.samples,
            batches=self.counts.batches,
            complete=self.ended > 0 and not self.incomplete,
            compared=compared,
            repeated=(compared - len(kept)) / compared if compared else None,
            padding=self.mean_of("padding"),
            mean=self.mean_of("mean"),
            std=self.mean_of("std"),
        )


class _Split:
    """One split as its records come in."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.epochs: dict[tuple[int, int], _Epoch] = {}
        self.sets: dict[str, SampleSet] = {}  # content, and indices by rank and dataset
        self.ranks: set[int] = set()
        self.newest: DataWindow | None = None
        self.on_device = self.nonfinite = self.constant = 0

    @property
    def is_training(self) -> bool:
        return self.newest is not None and self.newest.is_training

    def add(self, window: DataWindow, attempt: int) -> None:
        self.newest = window
        self.ranks.add(window.rank)
        epoch = self.epochs.setdefault((attempt, window.epoch), _Epoch(window.epoch))
        epoch.add(window)
        if len(self.epochs) > _MOST_EPOCHS:
            del self.epochs[next(iter(self.epochs))]
        if window.hashes:
            kept = self.sets.setdefault(_CONTENT, SampleSet())
            kept.add(window.hashes, window.hash_bits, is_index=False)
        dataset = window.text("dataset")
        if window.indices and dataset:
            place = f"{attempt} {window.rank} {dataset}"
            kept = self.sets.setdefault(place, SampleSet())
            kept.add(window.indices, window.index_bits, is_index=True)
        self.on_device += window.count("on_device")
        self.nonfinite += window.count("nonfinite_samples")
        self.constant += window.count("constant_samples")

    def response(self, splits: list[_Split]) -> DataSplit:
        assert self.newest is not None
        newest = self.newest
        last = next(reversed(self.epochs.values()))
        counts = last.counts
        training = [split for split in splits if split.is_training]
        return DataSplit(
            name=self.name,
            is_training=self.is_training,
            sampler=newest.text("sampler"),
            workers=newest.count("workers"),
            ranks=len(self.ranks),
            dataset_samples=newest.count("dataset_samples") or None,
            on_device=self.on_device,
            epochs=[one.response(*key) for key, one in sorted(self.epochs.items())],
            overlaps=[]
            if self.is_training
            else [one for split in training for one in self._overlaps(split)],
            labels=dict(counts.labels.most_common(_MOST_LABELS)),
            one_class=counts.of_one_class / counts.labelled if counts.labelled else None,
            lengths=dict(sorted(last.lengths.items(), key=lambda item: int(item[0]))),
            mean_length=last.mean_of("length"),
            nonfinite=self.nonfinite,
            constant=self.constant,
        )

    def _overlaps(self, training: _Split) -> list[DataOverlap]:
        """What is common with a training split: by content, and by index of one dataset."""
        found: dict[str, tuple[int, int]] = {}
        for place in self.sets.keys() & training.sets.keys():
            is_index = place != _CONTENT
            common, total = self.sets[place].common(training.sets[place], is_index=is_index)
            by = "index" if is_index else _CONTENT
            old = found.get(by, (0, 0))
            found[by] = (old[0] + len(common), old[1] + total)
        return [
            DataOverlap(
                training=training.name,
                by=by,
                share=common / total,
                compared=total,
                error=math.sqrt(common / total * (1 - common / total) / total),
            )
            for by, (common, total) in sorted(found.items())
            if total
        ]
