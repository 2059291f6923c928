"""The data sets of a run in numbers: sizes, distinct samples, labels, order, shared contents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from epochal.health.data_window import DataWindow, SampleSet, is_training, numbers
from epochal.records.format import plural
from epochal.records.values import as_float
from epochal.store.evidence.material import Fact, Material, digits, fields_text, percent, short

_MOST_LABELS = 5
_OF_SAMPLES = ("nonfinite", "constant")


def data(material: Material) -> Iterator[Fact]:
    """What watched loaders gave, and what the program recorded of its data sets."""
    for split in material.splits:
        windows = material.of_split(split)
        yield from _sizes(split, windows)
        yield from _labels(split, windows, material.labels(split))
        yield from _inputs(split, windows)
    yield from _shared(material.windows)
    for entry in material.view.entries("dataset")[:4]:
        yield Fact(f"dataset: {fields_text(entry.record)}", 2)


def sizes(material: Material) -> Iterator[Fact]:
    """The size of each data set, and how many distinct samples it has."""
    for split in material.splits:
        yield from _sizes(split, material.of_split(split))


def _sizes(split: str, windows: Sequence[DataWindow]) -> Iterator[Fact]:
    yield _size(split, windows)
    yield from _contents(split, windows)


def _size(split: str, windows: Sequence[DataWindow]) -> Fact:
    first = windows[0]
    size = first.count("dataset_samples")
    kind = first.text("dataset").rpartition("-")[0]
    of = f"{kind or 'samples'}" + (f" of {size:,} samples" if size else "")
    samples, batches = sum(w.samples for w in windows), sum(w.batches for w in windows)
    epochs = plural(len({window.epoch for window in windows}), "epoch")
    how = ", ".join(part for part in (first.text("sampler"), _workers(first)) if part)
    text = f"{short(split)}: {of}; {samples:,} samples read in {batches:,} batches, {epochs}"
    return Fact(f"{text}; {how}" if how else text, 0)


def _workers(window: DataWindow) -> str:
    workers = window.record.get("workers")
    return f"{workers} workers" if isinstance(workers, int) else ""


def _contents(split: str, windows: Sequence[DataWindow]) -> Iterator[Fact]:
    """Distinct samples of the first epoch by content, and whether later epochs keep its order."""
    first = [window for window in windows if window.epoch == windows[0].epoch]
    kept = _sample_set(first)
    counts = kept.kept.total()
    if counts:
        share = len(kept.kept) / counts
        most = max(kept.kept.values())
        about = "" if kept.bits == 0 else "about "
        read = sum(window.samples for window in first)
        yield Fact(
            f"{short(split)}: {about}{share * read:,.0f} distinct contents in the {read:,} samples"
            f" of epoch {first[0].epoch}; the most frequent came {plural(most, 'time')}",
            0,
        )
    orders = _orders(windows)
    if len(orders) > 1:
        same = len(set(orders)) == 1
        text = "the same in every epoch" if same else "another in each epoch"
        known = text if same or len(set(orders)) == len(orders) else "partly repeated"
        yield Fact(f"{short(split)}: order of samples {known} ({len(orders)} epochs)", 2)


def _sample_set(windows: Sequence[DataWindow]) -> SampleSet:
    kept = SampleSet()
    for window in windows:
        kept.add(window.hashes, window.hash_bits, is_index=False)
    return kept


def _orders(windows: Sequence[DataWindow]) -> list[int]:
    """The digest of the first batch of each epoch."""
    digests: dict[int, int] = {}
    for window in windows:
        for batches, _, digest in window.orders():
            if batches == 1:
                digests.setdefault(window.epoch, digest)
    return list(digests.values())


def _labels(split: str, windows: Sequence[DataWindow], labels: Mapping[str, int]) -> Iterator[Fact]:
    name = short(split)
    total = sum(labels.values())
    if total:
        ordered = sorted(labels.items(), key=lambda item: -item[1])
        shares = ", ".join(f"{label} {percent(n / total)}" for label, n in ordered[:_MOST_LABELS])
        more = f" and {len(labels) - _MOST_LABELS} more" if len(labels) > _MOST_LABELS else ""
        yield Fact(f"{name} labels: {len(labels):,} classes of {total:,} labels: {shares}{more}", 0)
    labelled = sum(window.count("labelled_batches") for window in windows)
    if labelled:
        alike = sum(window.count("one_class_batches") for window in windows)
        yield Fact(f"{name} labels: {alike:,} of {labelled:,} batches have a single class", 0)
    latest = _latest(windows, "targets")
    if latest:
        range_of = next((w.record["label_range"] for w in windows if "label_range" in w.record), ())
        ends = f", range {' to '.join(map(str, range_of))}" if range_of else ""
        yield Fact(f"{name} targets: {fields_text(latest)}{ends}", 1)
    linked = _latest(windows, "association")
    if {"correlation", "error", "nearest", "nearest_error"} <= linked.keys():
        yield Fact(
            f"{name}: distances of inputs and targets correlate by {digits(linked['correlation'])}"
            f" ± {digits(linked['error'])} within batches (0: independent), of the nearest inputs"
            f" by {digits(linked['nearest'])} ± {digits(linked['nearest_error'])}",
            1,
        )
    telling = _latest(windows, "telling")
    if telling:
        yield Fact(f"{name}: features with one value for each class: {fields_text(telling)}", 0)


def _latest(windows: Sequence[DataWindow], field: str) -> dict[str, Any]:
    """The newest figures, which are of most samples."""
    given = [window.record[field] for window in windows if field in window.record]
    return dict(given[-1]) if given and isinstance(given[-1], Mapping) else {}


def _inputs(split: str, windows: Sequence[DataWindow]) -> Iterator[Fact]:
    first, name = windows[0].record, short(split)
    parts = [f"{key} {digits(first[key])}" for key in ("mean", "std", "padding") if key in first]
    lengths = numbers(first, "lengths")
    if "mean" in lengths:
        parts.append(f"mean length {digits(lengths['mean'])}")
    if "features" in first:
        parts.append(f"{first.get('constant_features')} of {first['features']} features constant")
    for kind in _OF_SAMPLES:
        count = sum(window.count(f"{kind}_samples") for window in windows)
        parts += [f"{count:,} {kind} samples"] if count else []
    if parts:
        yield Fact(f"{name} inputs: {', '.join(parts)}", 1)


def _shared(windows: Sequence[DataWindow]) -> Iterator[Fact]:
    """How many contents of each evaluation split are among those of the training data."""
    training = _sample_set([window for window in windows if is_training(window.name)])
    for split in dict.fromkeys(w.name for w in windows if not is_training(w.name)):
        own = _sample_set([window for window in windows if window.name == split])
        common, of_own = own.common(training, is_index=False)
        if of_own and training.kept:
            share = percent(as_float(len(common)) / of_own)
            yield Fact(f"{short(split)}: {share} of its contents are in the training data", 0)
