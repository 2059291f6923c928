"""Epochs of the training data have the same order."""

from __future__ import annotations

from collections.abc import Iterable

from epochal.health.context import Context
from epochal.health.data_window import DATA_KINDS, DataWindow, window_of
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.thresholds import RuleThresholds

_MOST_EPOCHS = 64


class DataOrder(Rule):
    """The samples of an epoch come in the order of an earlier epoch."""

    name = "data-order"
    group = "data"
    meaning = "The training data has the same order in every epoch: it is not shuffled."
    healthy = "Every epoch has another order."
    reports = {
        "info": "A stream gives the same samples in the same order again.",
        "warning": "The sampler gives the same indices in the same order again.",
    }
    needs = "`epochal.watch_data(loader)`, for two epochs."
    kinds = DATA_KINDS

    class Thresholds(RuleThresholds):
        batches: int = 2  # a full batch has no order that matters
        samples: int = 16  # fewer may have the same order by chance

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        # By split and rank, then by batches: the digest of each epoch that got so far.
        self._digests: dict[tuple[str, int], dict[int, dict[int, int]]] = {}

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Compare with the digests that earlier epochs had after as many batches."""
        window = window_of(observation)
        if window is None or not window.is_training:
            return ()
        known = self._digests.setdefault((window.name, window.rank), {})
        same: tuple[int, int, int] | None = None
        has_compared = False
        for batches, samples, digest in window.orders():
            if batches < self.thresholds.batches or samples < self.thresholds.samples:
                continue
            epochs = known.setdefault(batches, {})
            has_compared = has_compared or any(epoch != window.epoch for epoch in epochs)
            earlier = [one for one, other in epochs.items() if other == digest]
            if earlier and earlier[0] < window.epoch:
                same = (earlier[0], batches, samples)
            if len(epochs) < _MOST_EPOCHS:
                epochs[window.epoch] = digest
        if not has_compared:
            return ()
        return (self._verdict(window, same),)

    def forget_from(self, step: int, context: Context) -> None:
        """A new process counts its epochs from 1."""
        self._digests.clear()

    def _verdict(self, window: DataWindow, same: tuple[int, int, int] | None) -> Verdict:
        subject = window.subject if window.rank == 0 else f"{window.subject} of rank {window.rank}"
        if same is None:
            return Verdict(subject, active=False)
        earlier, batches, samples = same
        sampler = window.text("sampler")
        return Verdict(
            subject,
            active=True,
            severity="warning" if sampler else "info",
            sentence=f"Epoch {window.epoch} of {window.name!r} has the order of epoch {earlier}: "
            f"its first {batches:,} batches ({samples:,} samples) are the same.",
            evidence={
                "epoch": window.epoch,
                "same as epoch": earlier,
                "batches": batches,
                "samples": samples,
                **({"sampler": sampler} if sampler else {}),
                **({"indices": _first(window)} if window.indices else {}),
            },
            advice=_advice(sampler),
        )


def _first(window: DataWindow) -> str:
    return ", ".join(str(index) for index in window.indices[:8])


def _advice(sampler: str) -> str:
    if "Distributed" in sampler:
        return "Call sampler.set_epoch(epoch) before every epoch: the order depends on it."
    if sampler == "SequentialSampler":
        return "Pass shuffle=True to the DataLoader of the training data."
    if sampler:
        return f"{sampler} gives the same order again: do not set its seed in every epoch."
    return "Shuffle the stream, for example its shards and a buffer of samples, with a new seed."
