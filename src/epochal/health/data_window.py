"""A ``data`` record as rules see it, the sums of an epoch, and sets of samples."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeGuard

from epochal.health.observation import Observation
from epochal.records import finite

DATA_KINDS = frozenset({"data"})
_MOST_BITS = 48
# A set of so many samples estimates a share with a standard error of 0.5 %.
MOST_KEPT = 10_000
_SHOWN = 8
_ROWS = 32  # samples of a batch that are compared with each other
_NO_ERROR = 0.015


class DataWindow(NamedTuple):
    """Some batches of one epoch of one loader; ``rank`` is whose loader it is."""

    name: str
    rank: int
    epoch: int
    batches: int
    samples: int
    indices: tuple[int, ...]
    index_bits: int
    hashes: tuple[int, ...]
    hash_bits: int
    labels: Mapping[str, int]
    has_ended: bool
    record: Mapping[str, Any]

    @property
    def is_training(self) -> bool:
        """Whether the split is training data."""
        return is_training(self.name)

    def subject(self, check: str = "") -> str:
        """Return what a finding is about: ``data/train``, with a check and a rank above 0."""
        name = f"data/{self.name}" + (f", {check}" if check else "")
        return name if self.rank == 0 else f"{name} of rank {self.rank}"

    @property
    def loader(self) -> tuple[str, int]:
        """Return the key of the loader that it is of."""
        return self.name, self.rank

    def count(self, field: str) -> int:
        """A field that is a whole number; 0 where it is not."""
        return _count(self.record.get(field))

    def text(self, field: str) -> str:
        """A field that is a text; empty where it is not."""
        value = self.record.get(field)
        return value if isinstance(value, str) else ""

    def labelled(self) -> Iterable[tuple[int, int]]:
        """Hashes of samples, each with the label that came with it."""
        given = self.record.get("hash_labels")
        if isinstance(given, list) and len(given) == len(self.hashes):
            for hashed, label in zip(self.hashes, given, strict=True):
                if type(label) is int:
                    yield hashed, label

    def orders(self) -> Iterable[tuple[int, int, int]]:
        """Batches, samples and digest of the order so far."""
        given = self.record.get("orders")
        for one in given if isinstance(given, list) else ():
            if isinstance(one, list) and len(one) == 3 and all(_is_count(item) for item in one):
                yield one[0], one[1], one[2]


def is_training(name: str) -> bool:
    """Whether a split of this name is training data."""
    return "train" in name.lower()


def window_of(observation: Observation) -> DataWindow | None:
    """The window of a ``data`` record; None where it says nothing that can be judged."""
    record = observation.record
    name, epoch = record.get("name"), record.get("epoch")
    if not isinstance(name, str) or not _is_count(epoch):
        return None
    labels = record.get("labels")
    return DataWindow(
        name=name,
        rank=max(0, observation.rank),
        epoch=epoch,
        batches=_count(record.get("batches")),
        samples=_count(record.get("samples")),
        indices=whole_numbers(record.get("indices")),
        index_bits=min(_MOST_BITS, _count(record.get("index_bits"))),
        hashes=whole_numbers(record.get("hashes")),
        hash_bits=min(_MOST_BITS, _count(record.get("hash_bits"))),
        labels={
            str(label): count
            for label, count in (labels.items() if isinstance(labels, dict) else ())
            if _is_count(count)
        },
        has_ended=record.get("ended") is True,
        record=record,
    )


class SampleSet:
    """Identities of samples with how often they came, kept by value: at most so many.

    An identity is kept if its hash ends in ``bits`` zero bits. So two sets keep the same samples,
    once they use as many bits.
    """

    def __init__(self) -> None:
        self.bits = 0
        self.kept: Counter[int] = Counter()

    def add(self, identities: Iterable[int], bits: int, *, is_index: bool) -> None:
        """Take in identities that were kept by so many bits."""
        self._raise_to(bits, is_index=is_index)
        mask = (1 << self.bits) - 1
        for one in identities:
            if not _hash(one, is_index=is_index) & mask:
                self.kept[one] += 1
        while len(self.kept) > MOST_KEPT and self.bits < _MOST_BITS:
            self._raise_to(self.bits + 1, is_index=is_index)

    def common(self, other: SampleSet, *, is_index: bool) -> tuple[list[int], int]:
        """Identities that both keep, and how many this set keeps of those that count."""
        mask = (1 << max(self.bits, other.bits)) - 1
        own = [one for one in self.kept if not _hash(one, is_index=is_index) & mask]
        return [one for one in own if one in other.kept], len(own)

    def _raise_to(self, bits: int, *, is_index: bool) -> None:
        if bits > self.bits:
            self.bits = bits
            mask = (1 << bits) - 1
            for one in [n for n in self.kept if _hash(n, is_index=is_index) & mask]:
                del self.kept[one]


@dataclass(slots=True)
class Epoch:
    """What the records of one epoch of one loader add up to."""

    number: int
    samples: int = 0
    batches: int = 0
    read_batches: int = 0
    labelled: int = 0
    of_one_class: int = 0
    labels: Counter[str] = field(default_factory=Counter)
    indices: SampleSet = field(default_factory=SampleSet)
    hashes: SampleSet = field(default_factory=SampleSet)

    def add(self, window: DataWindow) -> None:
        """Add a part of the epoch."""
        self.samples += window.samples
        self.batches += window.batches
        self.read_batches += window.count("read_batches")
        self.labelled += window.count("labelled_batches")
        self.of_one_class += window.count("one_class_batches")
        self.labels.update(window.labels)
        self.indices.add(window.indices, window.index_bits, is_index=True)
        self.hashes.add(window.hashes, window.hash_bits, is_index=False)


class Epochs(dict[tuple[str, int], Epoch]):
    """The newest epoch of each loader."""

    def add(self, window: DataWindow) -> Epoch:
        """Add a record to its epoch, or begin the next one with it."""
        epoch = self.get(window.loader)
        if epoch is None or epoch.number != window.epoch:
            epoch = self[window.loader] = Epoch(window.epoch)
        epoch.add(window)
        return epoch


def shown(identities: Sequence[int]) -> str:
    """The first of some samples, for evidence."""
    more = len(identities) - _SHOWN
    text = ", ".join(str(one) for one in identities[:_SHOWN])
    return f"{text} and {more:,} more" if more > 0 else text


def numbers(record: Mapping[str, Any], field: str) -> dict[str, float]:
    """Return the finite numbers of an object such as ``association``; empty if there is none."""
    given = record.get(field)
    known = given.items() if isinstance(given, dict) else ()
    return {name: value for name, one in known if (value := number(one)) is not None}


class Association(NamedTuple):
    """How far targets are nearer where inputs are near, with its standard error."""

    value: float
    error: float


def associations(window: DataWindow, batches: int) -> dict[str, Association]:
    """Return how the targets of a split depend on its inputs; empty if too little is known."""
    given = numbers(window.record, "association")
    read = given.get("batches", 0.0)
    if read < batches:
        return {}
    # Pairs of a small dataset come again, which makes no estimate surer.
    samples = window.count("dataset_samples")
    different = max(1.0, (samples / _ROWS) ** 2) if samples else read
    wider = math.sqrt(max(1.0, read / different))
    found = {
        name: Association(given.get(name, 0.0), wider * given.get(error, 0.0))
        for name, error in (("correlation", "error"), ("nearest", "nearest_error"))
    }
    # The same batch over and over has no error, and proves nothing.
    return {name: one for name, one in found.items() if one.error * math.sqrt(read) > _NO_ERROR}


def are_unrelated(found: Mapping[str, Association]) -> bool:
    """Return True if targets do not depend on inputs, as far as can be measured."""
    return len(found) == 2 and all(abs(one.value) < 3 * one.error for one in found.values())


def label_range(record: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return the smallest and the largest label of a record; None if it has no labels."""
    ends = whole_numbers(record.get("label_range"), -(1 << 63))
    return (ends[0], ends[1]) if len(ends) == 2 else None


def number(value: Any) -> float | None:
    """A field that is a finite number."""
    return None if isinstance(value, bool) else finite(value)


def _hash(identity: int, *, is_index: bool) -> int:
    """What decides whether an identity is kept; as ``epochal.torch.data`` computes it."""
    if not is_index:
        return identity
    bits = (identity + 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
    bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
    bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
    return bits ^ (bits >> 31)


def _is_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 64


def _count(value: Any) -> int:
    return value if _is_count(value) else 0


def whole_numbers(values: Any, least: int = 0) -> tuple[int, ...]:
    """Return the whole numbers of a list that are not below ``least``."""
    given = values if isinstance(values, list) else ()
    return tuple(one for one in given if type(one) is int and least <= one < 1 << 64)
