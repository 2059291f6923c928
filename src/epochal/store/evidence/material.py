"""What the sections of an evidence sheet are made of, read from a run once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from epochal.health.data_window import DataWindow, is_training, window_of
from epochal.health.observation import Observation
from epochal.journal.metrics import Metric
from epochal.journal.row import RunRow
from epochal.records import Record
from epochal.series.importance import Importance
from epochal.series.series import Series
from epochal.series.summary import Summary
from epochal.store.metrics import by_importance
from epochal.store.run import RunView

# Of a longer series only the summary is shown: reading it would take too long.
_MOST_POINTS = 200_000
_MOST_CURVES = 12
_SHOWN_NAMES = 6
# Several of these rows are one table, so a name must leave room for its numbers.
_LONGEST_NAME = 60


@dataclass(frozen=True, slots=True)
class Fact:
    """A line of the sheet. Lines of a high ``rank`` are left out first where space is short."""

    text: str
    rank: int = 1


Section = Callable[["Material"], Iterator[Fact]]


class Material:
    """A run as the sections see it: summaries by name, events by name, batches, main curves."""

    def __init__(self, view: RunView) -> None:
        self.view = view
        self.row: RunRow = view.info
        self.metrics: Sequence[Metric] = by_importance(view.metrics())
        self.events = _by_name(view)
        self.windows = _windows(view)

    @cached_property
    def summaries(self) -> Mapping[str, Summary]:
        """The summary of each series of its lowest rank; steps come before epochs and times."""
        known: dict[str, Summary] = {}
        for series in sorted(self.view.known.metrics, key=_axis_order):
            if series.name not in known and series.summary is not None:
                known[series.name] = series.summary
        for metric in self.main:  # steps that came twice: only the points of these are worth it
            if metric.name not in known:
                known[metric.name] = self.view.summary(metric.name, rank=metric.ranks[0])
        return known

    @cached_property
    def main(self) -> Sequence[Metric]:
        """Every metric that the program logged, the most important first."""
        named: dict[str, Metric] = {}
        for metric in self.metrics:
            if metric.axis != "time" and metric.importance <= Importance.OWN:
                named.setdefault(metric.name, metric)
        return list(named.values())

    @cached_property
    def evaluated(self) -> Mapping[str, Metric]:
        """The metrics of evaluations, and scores."""
        return {
            metric.name: metric
            for metric in self.main
            if metric.importance == Importance.EVALUATION or metric.role == "eval_loss"
        }

    @cached_property
    def curves(self) -> Sequence[Series]:
        """The points of the most important metrics that are not too long to be read."""
        return [
            self.view.series(metric.name, rank=metric.ranks[0], axis=metric.axis)
            for metric in self.main[:_MOST_CURVES]
            if 0 < self._count(metric) <= _MOST_POINTS
        ]

    def _count(self, metric: Metric) -> int:
        summary = self.summaries.get(metric.name)
        return summary.count if summary is not None else 0

    def by_prefix(self, prefix: str, suffix: str = "") -> dict[str, Summary]:
        """The summaries of a family of series, such as ``grads/NAME/norm``, by the name inside."""
        return {
            name[len(prefix) : len(name) - len(suffix)]: summary
            for name, summary in self.summaries.items()
            if name.startswith(prefix) and name.endswith(suffix)
        }

    def of_role(self, role: str) -> tuple[str, Summary] | None:
        """The name and the summary of the metric that plays a role."""
        metric = self.view.role(role)
        summary = None if metric is None else self.summaries.get(metric.name)
        return None if metric is None or summary is None else (metric.name, summary)

    def newest(self, event: str) -> Record:
        """The newest event of a name; empty where there is none."""
        records = self.events.get(event)
        return records[-1] if records else {}

    @cached_property
    def splits(self) -> Sequence[str]:
        """The names of the watched data sets, training data first."""
        names = dict.fromkeys(window.name for window in self.windows)
        return sorted(names, key=lambda name: not is_training(name))

    def of_split(self, split: str) -> list[DataWindow]:
        """The records of one data set, in order."""
        return [window for window in self.windows if window.name == split]

    @property
    def classes(self) -> int | None:
        """How many classes the targets of the training data have; None if they are none."""
        for window in self.windows:
            targets = window.record.get("targets")
            if is_training(window.name) and isinstance(targets, Mapping) and "entropy" in targets:
                return max(len(self.labels(window.name)), int(targets.get("classes", 0))) or None
        return None

    def labels(self, split: str) -> Mapping[str, int]:
        """How often each label of a split was read, in all recorded batches."""
        total: defaultdict[str, int] = defaultdict(int)
        for window in self.of_split(split):
            for label, count in window.labels.items():
                total[label] += count
        return total


def _axis_order(series: Any) -> tuple[bool, bool, int]:
    return series.axis == "time", series.axis != "step", series.rank


def _by_name(view: RunView) -> dict[str, list[Record]]:
    events: defaultdict[str, list[Record]] = defaultdict(list)
    for entry in view.events():
        events[str(entry.record.get("name"))].append(entry.record)
    return dict(events)


def _windows(view: RunView) -> list[DataWindow]:
    entries = view.entries("data", rank=0)
    seen = (Observation("data", None, 0.0, e.rank, "", {}, {}, e.record) for e in entries)
    return [window for each in seen if (window := window_of(each)) is not None]


def digits(value: Any) -> str:
    """A value in four digits, or a whole number with its thousands."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "?"}[value]
    if isinstance(value, (int, np.integer)):
        return f"{value:,}"
    if isinstance(value, (float, np.floating)):
        value = value + 0.0  # no minus before a zero
        return f"{value:,.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:.4g}"
    return str(value)


def percent(share: float) -> str:
    """A share in three digits: ``11.8 %``."""
    return f"{100 * share:.3g} %"


def short(name: str) -> str:
    """A name that fits into a line; its end tells more than its beginning."""
    return name if len(name) <= _LONGEST_NAME else f"…{name[1 - _LONGEST_NAME :]}"


def listed(names: Iterable[str], most: int = _SHOWN_NAMES) -> str:
    """The first of some names, and how many more there are."""
    every = list(names)
    more = f" and {len(every) - most:,} more" if len(every) > most else ""
    return ", ".join(map(short, every[:most])) + more


def fields_text(record: Mapping[str, Any], *, without: Iterable[str] = ()) -> str:
    """The fields of a record, each with its name; what is nested is left to the record."""
    hidden = {"log", "t", "name", "step", *without}
    return ", ".join(
        f"{key} {_plain(value)}"
        for key, value in record.items()
        if key not in hidden and _is_flat(value)
    )


def _is_flat(value: Any) -> bool:
    nested = any(isinstance(item, (list, dict)) for item in value) if _is_list(value) else False
    return not isinstance(value, Mapping) and not nested


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))


def _plain(value: Any) -> str:
    return listed(map(digits, value)) if _is_list(value) else short(digits(value))
