"""Training batches of one class only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from epochal.health.context import Context
from epochal.health.data_window import DATA_KINDS, DataWindow, window_of
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.text import percent
from epochal.health.thresholds import RuleThresholds


@dataclass(slots=True)
class _Epoch:
    """What an epoch had so far."""

    number: int
    labels: Counter[str] = field(default_factory=Counter)
    samples: int = 0
    batches: int = 0
    labelled: int = 0
    of_one_class: int = 0


class DataOneClass(Rule):
    """Most batches have one label, while the data has several."""

    name = "data-one-class"
    group = "data"
    meaning = "Batches hold one class only: the data is sorted by class."
    healthy = "Every batch is a mixture of the classes."
    reports = {"warning": "Half of the batches have one class, which chance does not explain."}
    needs = "`epochal.watch_data(loader)`, with whole numbers as labels."
    causes = frozenset({"memorising"})
    kinds = DATA_KINDS
    replaces_text = True

    class Thresholds(RuleThresholds):
        batches: int = 4  # fewer may be of one class by chance
        share: float = 0.5
        by_chance: float = 0.1  # the share that the frequencies of the classes explain

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._epochs: dict[tuple[str, int], _Epoch] = {}

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Add the labels of the record to those of its epoch."""
        window = window_of(observation)
        if window is None or not window.is_training or not window.labels:
            return ()
        key = (window.name, window.rank)
        epoch = self._epochs.get(key)
        if epoch is None or epoch.number != window.epoch:
            epoch = self._epochs[key] = _Epoch(window.epoch)
        epoch.labels.update(window.labels)
        epoch.samples += sum(window.labels.values())
        epoch.batches += window.batches
        epoch.labelled += window.count("labelled_batches")
        epoch.of_one_class += window.count("one_class_batches")
        if epoch.labelled < self.thresholds.batches or len(epoch.labels) < 2:
            return ()
        return (self._verdict(window, epoch),)

    def forget_from(self, step: int, context: Context) -> None:
        """A new process counts its epochs from 1."""
        self._epochs.clear()

    def _verdict(self, window: DataWindow, epoch: _Epoch) -> Verdict:
        subject = window.subject if window.rank == 0 else f"{window.subject} of rank {window.rank}"
        share = min(1.0, epoch.of_one_class / epoch.labelled)
        size = max(8.0, min(1e4, epoch.samples / max(1, epoch.batches)))
        total = sum(epoch.labels.values())
        by_chance = sum((count / total) ** size for count in epoch.labels.values()) if total else 1
        if share < self.thresholds.share or by_chance > self.thresholds.by_chance:
            return Verdict(subject, active=False)
        return Verdict(
            subject,
            active=True,
            sentence=f"{percent(share)} of the batches of {window.name!r} have one class only, "
            f"while epoch {window.epoch} has {len(epoch.labels)} classes.",
            evidence={
                "share": share,
                "batches": epoch.labelled,
                "classes": len(epoch.labels),
                "epoch": window.epoch,
            },
            advice="The data is sorted by class, and each step unlearns the others. Shuffle it: "
            "shuffle=True, or a shuffled order of files and a buffer for a stream.",
        )
