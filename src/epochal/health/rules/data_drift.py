"""Epochs of one loader have different data."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from epochal.format import format_number
from epochal.health.context import Context
from epochal.health.data_window import DATA_KINDS, DataWindow, number, window_of
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.text import percent
from epochal.health.thresholds import RuleThresholds


@dataclass(slots=True)
class _Epoch:
    """Figures of the inputs and labels of one epoch so far."""

    number: int
    samples: int = 0
    measured: float = 0.0
    total: float = 0.0
    squares: float = 0.0
    labels: Counter[str] = field(default_factory=Counter)

    def add(self, window: DataWindow) -> None:
        """Add a part of the epoch."""
        self.samples += window.samples
        self.labels.update(window.labels)
        mean, std = number(window.record.get("mean")), number(window.record.get("std"))
        if mean is not None and std is not None and abs(mean) < 1e100 and abs(std) < 1e100:
            self.measured += window.samples
            self.total += window.samples * mean
            self.squares += window.samples * (std * std + mean * mean)

    @property
    def mean(self) -> float | None:
        """Of all inputs; None where none were measured."""
        return self.total / self.measured if self.measured else None

    @property
    def std(self) -> float:
        """Of all inputs, around their mean."""
        mean = self.mean or 0.0
        return math.sqrt(max(0.0, self.squares / max(1.0, self.measured) - mean * mean))


class DataDrift(Rule):
    """The inputs or the labels of an epoch differ from those of the first one.

    Only epochs of about the same size are compared.
    """

    name = "data-drift"
    group = "data"
    meaning = "The data changes from epoch to epoch: results of the epochs do not compare."
    healthy = "Every epoch has inputs and labels of the same distribution."
    reports = {
        "info": (
            "The mean of the inputs moved by half their standard deviation, the deviation "
            "doubled or halved, or 20 % of the labels changed. A curriculum does so by design."
        ),
        "warning": (
            "The mean moved by 3 standard deviations, or the deviation changed 8 times: the "
            "inputs are scaled otherwise."
        ),
    }
    needs = "`epochal.watch_data(loader)`, for two epochs."
    kinds = DATA_KINDS
    replaces_text = True

    class Thresholds(RuleThresholds):
        samples: int = 64  # of each epoch; fewer differ by chance
        mean_shift: float = 0.5  # in standard deviations of the inputs
        std_ratio: float = 2.0
        # Harder or other data is not scaled otherwise: so much is a mistake of the preparation.
        grave_shift: float = 3.0
        grave_ratio: float = 8.0
        label_share: float = 0.2  # beyond what chance explains

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._current: dict[tuple[str, int], _Epoch] = {}
        self._first: dict[tuple[str, int], _Epoch] = {}

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Add the record to its epoch; compare when the epoch ends."""
        window = window_of(observation)
        if window is None:
            return ()
        key = (window.name, window.rank)
        epoch = self._current.get(key)
        if epoch is None or epoch.number != window.epoch:
            epoch = self._current[key] = _Epoch(window.epoch)
        epoch.add(window)
        if not window.has_ended or epoch.samples < self.thresholds.samples:
            return ()
        first = self._first.setdefault(key, epoch)
        if first is epoch or not 0.5 <= epoch.samples / first.samples <= 2:
            return ()
        return (self._verdict(window, first, epoch),)

    def forget_from(self, step: int, context: Context) -> None:
        """A new process counts its epochs from 1."""
        self._current.clear()
        self._first.clear()

    def _verdict(self, window: DataWindow, first: _Epoch, epoch: _Epoch) -> Verdict:
        subject = window.subject if window.rank == 0 else f"{window.subject} of rank {window.rank}"
        words = self._moved(first, epoch)
        if words is None:
            return Verdict(subject, active=False)
        evidence: dict[str, float | int | str] = {"epoch": epoch.number, "first": first.number}
        if first.mean is not None and epoch.mean is not None:
            evidence |= {"mean": epoch.mean, "mean before": first.mean}
            evidence |= {"deviation": epoch.std, "deviation before": first.std}
        return Verdict(
            subject,
            active=True,
            severity="warning" if self._is_scaled_otherwise(first, epoch) else "info",
            sentence=f"Epoch {epoch.number} of {window.name!r} has other data than epoch "
            f"{first.number}: {words}.",
            evidence=evidence,
            advice="If no curriculum is meant, check the normalisation, the augmentation and which "
            "files each epoch reads.",
        )

    def _is_scaled_otherwise(self, first: _Epoch, epoch: _Epoch) -> bool:
        limits, before, after = self.thresholds, first.mean, epoch.mean
        if before is None or after is None or first.std <= 0:
            return False
        has_left = abs(after - before) > limits.grave_shift * first.std
        return has_left or not 1 / limits.grave_ratio <= epoch.std / first.std <= limits.grave_ratio

    def _moved(self, first: _Epoch, epoch: _Epoch) -> str | None:
        limits = self.thresholds
        before, after = first.mean, epoch.mean
        if before is not None and after is not None and first.std > 0:
            if abs(after - before) > limits.mean_shift * first.std:
                return (
                    f"the mean of the inputs is {format_number(after)} instead of "
                    f"{format_number(before)}"
                )
            if not 1 / limits.std_ratio <= epoch.std / first.std <= limits.std_ratio:
                return (
                    f"the standard deviation of the inputs is {format_number(epoch.std)} instead "
                    f"of {format_number(first.std)}"
                )
        old, new = sum(first.labels.values()), sum(epoch.labels.values())
        if not old or not new:
            return None
        names = {*first.labels, *epoch.labels}
        moved = sum(abs(epoch.labels[n] / new - first.labels[n] / old) for n in names) / 2
        by_chance = math.sqrt(len(names) / min(old, new))
        if moved - by_chance < limits.label_share:
            return None
        return f"{percent(moved)} of the labels are others"
