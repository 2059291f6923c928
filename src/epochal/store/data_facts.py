"""What the watched data loaders of a run gave, and where two runs differ in that.

Samples are compared by hashes of their content, which are sampled by value: so the same sample is
kept in both runs, or in neither. Only the first epoch that was recorded counts, because runs of
different lengths have different numbers of epochs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from epochal.records import finite
from epochal.store.answers import Entry
from epochal.values import as_float

# Fewer hashes of samples say too little about a share.
_FEWEST_HASHES = 20
_LEAST_SHARED = 0.9
_LEAST_SHIFT = 0.1
_LEAST_SCALE = 0.1
_LEAST_LABELS = 0.1
_LEAST_PADDING = 0.05


class DataDifference(NamedTuple):
    """A difference in the data of two runs, with its weight and the reason for it."""

    key: str
    left: Any
    right: Any
    weight: float
    reason: str


class SplitFacts(msgspec.Struct, frozen=True, eq=False):
    """One split in the first epoch that was recorded; None and empty where nothing is known."""

    dataset: str | None
    size: int | None
    sampler: str | None
    bits: int
    hashes: frozenset[int]
    orders: Mapping[int, int]
    mean: float | None
    std: float | None
    labels: Mapping[str, int]
    padding: float | None
    nonfinite: int
    samples: int


def split_facts(entries: Iterable[Entry]) -> dict[str, SplitFacts]:
    """The splits of ``data`` records of one rank."""
    by_split: dict[str, list[Mapping[str, Any]]] = {}
    for entry in entries:
        by_split.setdefault(entry.name or "data", []).append(entry.record)
    return {name: _facts_of(records) for name, records in by_split.items()}


def data_differences(
    left: Mapping[str, SplitFacts], right: Mapping[str, SplitFacts]
) -> Iterator[DataDifference]:
    """Where the splits that both runs watched differ."""
    for name in left:
        if name in right:
            for one in _differences(left[name], right[name]):
                yield one._replace(key=f"{name} {one.key}")


def _facts_of(records: Sequence[Mapping[str, Any]]) -> SplitFacts:
    epoch = min((_whole(one.get("epoch")) or 0 for one in records), default=0)
    first = [one for one in records if (_whole(one.get("epoch")) or 0) == epoch]
    bits = max((_whole(one.get("hash_bits")) or 0 for one in first), default=0)
    hashes = {one for record in first for one in _list(record, "hashes") if isinstance(one, int)}
    labels: Counter[str] = Counter()
    for record in first:
        found = record.get("labels")
        labels.update(found if isinstance(found, Mapping) else {})
    told = first[0] if first else {}
    return SplitFacts(
        dataset=_text(told.get("dataset")),
        size=_whole(told.get("dataset_samples")),
        sampler=_text(told.get("sampler")),
        bits=bits,
        hashes=_with_bits(hashes, bits),
        orders={
            one[0]: one[2]
            for record in first
            for one in _list(record, "orders")
            if isinstance(one, (list, tuple)) and len(one) == 3
        },
        mean=_mean(first, "mean"),
        std=_mean(first, "std"),
        labels=labels,
        padding=_mean(first, "padding"),
        nonfinite=sum(_whole(one.get("nonfinite_samples")) or 0 for one in first),
        samples=sum(_whole(one.get("samples")) or 0 for one in first),
    )


def _differences(left: SplitFacts, right: SplitFacts) -> Iterator[DataDifference]:
    if left.size != right.size and None not in (left.size, right.size):
        reason = "The datasets have different numbers of samples."
        yield DataDifference("dataset size", left.size, right.size, 0.8, reason)
    kinds = [
        None if one.dataset is None else one.dataset.rpartition("-")[0] for one in (left, right)
    ]
    if kinds[0] != kinds[1] and None not in kinds:
        yield DataDifference(
            "dataset class", kinds[0], kinds[1], 0.6, "The datasets are of different classes."
        )
    if left.sampler != right.sampler and None not in (left.sampler, right.sampler):
        reason = "Samples are chosen in another way, such as without shuffling."
        yield DataDifference("sampler", left.sampler, right.sampler, 0.6, reason)
    yield from _contents(left, right)
    yield from _inputs(left, right)
    if (apart := _apart(left.labels, right.labels)) > _LEAST_LABELS:
        texts = [_label_text(one.labels) for one in (left, right)]
        reason = f"{apart:.0%} of the labels would have to change to make the shares equal."
        yield DataDifference("labels", texts[0], texts[1], 0.7, reason)
    if bool(left.nonfinite) != bool(right.nonfinite):
        reason = "Inputs that are not finite spoil every step that sees them."
        key = "samples not finite"
        yield DataDifference(key, left.nonfinite, right.nonfinite, 0.85, reason)
    if abs((left.padding or 0.0) - (right.padding or 0.0)) > _LEAST_PADDING:
        reason = "Another share of the positions is padding."
        yield DataDifference("padding", left.padding, right.padding, 0.4, reason)


def _contents(left: SplitFacts, right: SplitFacts) -> Iterator[DataDifference]:
    bits = max(left.bits, right.bits)
    sets = [_with_bits(one.hashes, bits) for one in (left, right)]
    least = min(map(len, sets))
    shared = len(sets[0] & sets[1]) / least if least else math.nan
    # Two short looks at a large dataset see different samples of it.
    are_whole = all(one.size is not None and one.samples >= one.size for one in (left, right))
    is_other = least >= _FEWEST_HASHES and are_whole and shared < _LEAST_SHARED
    if is_other:
        reason = (
            f"{shared:.0%} of {least} sampled contents of the first epoch are in both runs."
            " Random augmentation changes contents too."
        )
        texts = [f"{len(one)} hashes" for one in sets]
        yield DataDifference("contents", texts[0], texts[1], 0.45 + 0.35 * (1 - shared), reason)
    steps = left.orders.keys() & right.orders.keys()
    if steps and not is_other:
        last = max(steps)
        if left.orders[last] != right.orders[last]:
            digests = [f"{one.orders[last] & 0xFFFFFFFF:08x}" for one in (left, right)]
            reason = "Another order of the same samples is noise, as another seed is."
            yield DataDifference("order", digests[0], digests[1], 0.1, reason)


def _inputs(left: SplitFacts, right: SplitFacts) -> Iterator[DataDifference]:
    if left.mean is None or right.mean is None or left.std is None or right.std is None:
        return
    scale = max(left.std, right.std)
    shift = abs(left.mean - right.mean)
    if scale <= 0 or (
        shift <= _LEAST_SHIFT * scale and abs(left.std - right.std) <= _LEAST_SCALE * scale
    ):
        return
    texts = [f"mean {one.mean:.3g}, deviation {one.std:.3g}" for one in (left, right)]
    reason = "Inputs are on another scale: look at normalisation."
    yield DataDifference("inputs", texts[0], texts[1], 0.85, reason)


def _apart(left: Mapping[str, int], right: Mapping[str, int]) -> float:
    """Half of the differences between two sets of shares: 0 for equal ones, 1 for disjoint ones."""
    sums = [sum(one.values()) for one in (left, right)]
    if min(sums) < 100:
        return 0.0
    keys = {*left, *right}
    return sum(abs(left.get(k, 0) / sums[0] - right.get(k, 0) / sums[1]) for k in keys) / 2


def _label_text(labels: Mapping[str, int]) -> str:
    total = sum(labels.values())
    most = sorted(labels.items(), key=lambda one: -one[1])[:3]
    told = ", ".join(f"{label} {count / total:.0%}" for label, count in most)
    return f"{len(labels)} labels: {told}"


def _with_bits(hashes: Iterable[int], bits: int) -> frozenset[int]:
    mask = (1 << min(bits, 64)) - 1  # hashes have 64 bits
    return frozenset(one for one in hashes if not one & mask)


def _mean(records: Sequence[Mapping[str, Any]], name: str) -> float | None:
    """The mean over records, by their numbers of samples."""
    found = [
        (as_float(one[name]), max(1.0, finite(one.get("samples")) or 0.0))
        for one in records
        if isinstance(one.get(name), (int, float))
    ]
    total = sum(weight for _, weight in found)
    return sum(value * weight for value, weight in found) / total if total else None


def _list(record: Mapping[str, Any], name: str) -> Sequence[Any]:
    found = record.get(name)
    return found if isinstance(found, (list, tuple)) else ()


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
