"""Samples come more than once within an epoch."""

from __future__ import annotations

from collections.abc import Iterable

from epochal.health.context import Context
from epochal.health.data_window import DATA_KINDS, DataWindow, SampleSet, shown, window_of
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.text import percent
from epochal.health.thresholds import RuleThresholds

# Samplers that repeat samples by design.
_REPEATING = ("WeightedRandomSampler",)


class DataRepeated(Rule):
    """Samples that a loader gives again before its epoch ends.

    Content that comes again may be a copy in the dataset, or a stream that begins again: a note.
    An index that comes again, or content once for each worker, is a mistake of the loading.
    """

    name = "data-repeated"
    group = "data"
    meaning = "Samples come several times within one epoch, and others perhaps not at all."
    healthy = "Each sample comes once in an epoch."
    reports = {
        "info": "5 % of the samples have content that came before in the epoch.",
        "warning": (
            "2 % of the indices come again, or every worker gives the same samples. Or each sample "
            "that is kept came in half of 16 batches or more: one batch comes again and again."
        ),
    }
    needs = "`epochal.watch_data(loader)`."
    kinds = DATA_KINDS
    replaces_text = True

    class Thresholds(RuleThresholds):
        least: int = 32  # samples kept; fewer say nothing about a share
        index_share: float = 0.02  # a distributed sampler fills its last batch with a few
        content_share: float = 0.05  # datasets have some copies
        worker_share: float = 0.5  # of samples that come once for each worker
        # Batches, and the share of them that each kept sample is in, if all are the same one.
        batches: int = 16
        in_batches: float = 0.5

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._epochs: dict[tuple[str, int], tuple[int, bool]] = {}
        self._sets: dict[tuple[str, int], SampleSet] = {}
        self._batches: dict[tuple[str, int], int] = {}  # of the epoch, as far as they were read

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Count the samples of the epoch so far."""
        window = window_of(observation)
        if window is None or window.text("sampler") in _REPEATING:
            return ()
        is_index = bool(window.indices)
        key = (window.name, window.rank)
        if self._epochs.get(key) != (window.epoch, is_index):
            self._epochs[key], self._sets[key] = (window.epoch, is_index), SampleSet()
            self._batches[key] = 0
        self._batches[key] += window.count("read_batches")
        samples, bits = window.hashes, window.hash_bits
        if is_index:
            samples, bits = window.indices, window.index_bits
        kept = self._sets[key]
        kept.add(samples, bits, is_index=is_index)
        if self._is_one_batch(window, kept, self._batches[key]):
            return (self._one_batch(window, kept, self._batches[key]),)
        if len(kept.kept) < self.thresholds.least and not window.has_ended:
            return ()
        return (self._verdict(window, kept, is_index=is_index),)

    def forget_from(self, step: int, context: Context) -> None:
        """A new process counts its epochs from 1."""
        self._epochs.clear()
        self._sets.clear()

    def _is_one_batch(self, window: DataWindow, kept: SampleSet, batches: int) -> bool:
        """Whether each kept sample is in most batches, of a dataset that has more than one."""
        limits = self.thresholds
        total = sum(kept.kept.values())
        if batches < limits.batches or total < limits.least:
            return False
        if min(kept.kept.values()) < limits.in_batches * batches:
            return False
        size = window.samples / max(1, window.batches)
        return window.count("dataset_samples") > 2 * size

    def _one_batch(self, window: DataWindow, kept: SampleSet, batches: int) -> Verdict:
        often = sum(kept.kept.values()) / len(kept.kept)
        return Verdict(
            _subject(window),
            active=True,
            severity="warning",
            sentence=f"The same batch comes again and again in epoch {window.epoch} of "
            f"{window.name!r}: each of its samples that were kept came {often:.0f} times in "
            f"{batches:,} batches, of a dataset of {window.count('dataset_samples'):,}.",
            evidence={"times": often, "batches": batches, "different": len(kept.kept)},
            advice="Take the next batch in each step: check where the iterator of the loader is "
            "made, and that no batch of a test is left in the loop.",
        )

    def _verdict(self, window: DataWindow, kept: SampleSet, *, is_index: bool) -> Verdict:
        subject = _subject(window)
        total = sum(kept.kept.values())
        again = [one for one, times in kept.kept.items() if times > 1]
        if total < self.thresholds.least or len(again) < 3:
            return Verdict(subject, active=False)
        share = (total - len(kept.kept)) / total
        workers = window.count("workers")
        each = [one for one in again if kept.kept[one] % workers == 0] if workers > 1 else []
        is_of_workers = not is_index and len(each) > self.thresholds.worker_share * len(kept.kept)
        limit = self.thresholds.index_share if is_index else self.thresholds.content_share
        if share < limit:
            return Verdict(subject, active=False)
        what = "indices" if is_index else "samples, by content,"
        cause = f" Each of {workers} workers gives the same ones." if is_of_workers else ""
        evidence: dict[str, float | int | str] = {
            "share": share,
            "counted": total,
            "different": len(kept.kept),
            "epoch": window.epoch,
            "most often": max(kept.kept.values()),
        }
        if is_index:
            evidence["indices"] = shown(sorted(again))
        return Verdict(
            subject,
            active=True,
            severity="warning" if is_index or is_of_workers else "info",
            sentence=f"In epoch {window.epoch} of {window.name!r}, {percent(share)} of the {what} "
            f"came before in the same epoch.{cause}",
            evidence=evidence,
            advice=_advice(is_index=is_index, is_of_workers=is_of_workers),
        )


def _subject(window: DataWindow) -> str:
    return window.subject if window.rank == 0 else f"{window.subject} of rank {window.rank}"


def _advice(*, is_index: bool, is_of_workers: bool) -> str:
    if is_of_workers:
        return (
            "Every worker has a copy of the IterableDataset. Give each its own part with "
            "torch.utils.data.get_worker_info()."
        )
    if is_index:
        return "Check the sampler: it draws with replacement, or its list of indices has copies."
    return "Remove copies from the dataset, or start another epoch where the stream begins again."
