"""A ``data`` record as rules see it, and sets of samples that are kept by value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeGuard

from epochal.health.observation import Observation
from epochal.records import finite

DATA_KINDS = frozenset({"data"})
_MOST_BITS = 48
# A set of so many samples estimates a share with a standard error of 0.5 %.
MOST_KEPT = 10_000
_SHOWN = 8


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
    hash_indices: tuple[int | None, ...]
    labels: Mapping[str, int]
    has_ended: bool
    record: Mapping[str, Any]

    @property
    def is_training(self) -> bool:
        """Whether the split is training data."""
        return is_training(self.name)

    @property
    def subject(self) -> str:
        """What a finding about it is about."""
        return f"data/{self.name}"

    def count(self, field: str) -> int:
        """A field that is a whole number; 0 where it is not."""
        return _count(self.record.get(field))

    def text(self, field: str) -> str:
        """A field that is a text; empty where it is not."""
        value = self.record.get(field)
        return value if isinstance(value, str) else ""

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
    hashes = _counts(record.get("hashes"))
    beside = record.get("hash_indices")
    indices = beside if isinstance(beside, list) and len(beside) == len(hashes) else ()
    return DataWindow(
        name=name,
        rank=max(0, observation.rank),
        epoch=epoch,
        batches=_count(record.get("batches")),
        samples=_count(record.get("samples")),
        indices=_counts(record.get("indices")),
        index_bits=min(_MOST_BITS, _count(record.get("index_bits"))),
        hashes=hashes,
        hash_bits=min(_MOST_BITS, _count(record.get("hash_bits"))),
        hash_indices=tuple(one if _is_count(one) else None for one in indices)
        or (None,) * len(hashes),
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


def shown(identities: Sequence[int]) -> str:
    """The first of some samples, for evidence."""
    more = len(identities) - _SHOWN
    text = ", ".join(str(one) for one in identities[:_SHOWN])
    return f"{text} and {more:,} more" if more > 0 else text


def pair_figures(window: DataWindow, field: str) -> dict[str, float]:
    """The finite numbers of an object such as ``association``; empty where there is none."""
    given = window.record.get(field)
    known = given.items() if isinstance(given, dict) else ()
    return {name: value for name, one in known if (value := number(one)) is not None}


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


def _counts(values: Any) -> tuple[int, ...]:
    given = values if isinstance(values, list) else ()
    return tuple(one for one in given if _is_count(one))
