"""``define_metric``: what a metric is drawn against, and which way is better."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from epochal.run.run import Run, recorder_of
from epochal.values import element_count
from epochal.wandb.data_types.html import Plotly, is_plotly
from epochal.wandb.data_types.image import Image, is_figure
from epochal.wandb.data_types.media import WBValue
from epochal.wandb.data_types.table import Table
from epochal.wandb.errors import Error
from epochal.wandb.notices import not_supported
from epochal.wandb.plot.custom_chart import CustomChart

# Sorts what one ``log`` call holds: numbers for a record of metrics, the rest by its type.

# Keys that W&B computes itself.
RESERVED = frozenset({"_step", "_runtime", "_wandb"})
# Arrays of more values become a histogram of so many bins.
_BINS = 32
_PLAIN = frozenset({float, int, bool})


def write_row(run: Run, data: Mapping[str, Any], step: int) -> bool:
    """Record what a ``log`` call holds at a step; True if these are plain numbers only."""
    if all(type(value) in _PLAIN for value in data.values()) and not RESERVED & data.keys():
        run.log(data, step)
        return True
    numbers: dict[str, Any] = {}
    others: list[tuple[str, Any]] = []
    for name, value in flatten(data):
        if _is_number(value):
            numbers[name] = value
        elif value is not None:
            others.append((name, value))
    numbers.pop("_timestamp", None)
    for reserved in RESERVED:
        numbers.pop(reserved, None)
    if numbers or not others:
        run.log(numbers, step)
    for name, value in others:
        _write_other(run, name, value, step)
    return False


def flatten(data: Mapping[Any, Any], prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Names and values; those of nested dicts are joined with dots."""
    for key, value in data.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and depth < 32:
            yield from flatten(value, f"{name}.", depth + 1)
        else:
            yield name, value


def _is_number(value: Any) -> bool:
    if type(value) in _PLAIN:
        return True
    if isinstance(value, (str, bytes, WBValue, CustomChart, list, tuple)) or value is None:
        return False
    count = element_count(value)
    if count is not None:
        return count == 1 and hasattr(value, "item")
    return hasattr(value, "__float__") or hasattr(value, "item")


def _write_other(run: Run, name: str, value: Any, step: int) -> None:
    if isinstance(value, (CustomChart, WBValue)):
        value.write_to(run, name, step)
    elif isinstance(value, (str, bytes)):
        text = value if isinstance(value, str) else value.decode("utf-8", "replace")
        recorder_of(run).write_text(name, text, step)
    elif is_figure(value):
        Image(value).write_to(run, name, step)
    elif is_plotly(value):
        Plotly(value).write_to(run, name, step)
    elif hasattr(value, "to_dict") and hasattr(value, "columns"):  # a data frame
        Table(dataframe=value).write_to(run, name, step)
    elif isinstance(value, (list, tuple)):
        _write_list(run, name, list(value), step)
    elif element_count(value) is not None:
        recorder_of(run).write_histogram(name, value, step, bins=_BINS)
    else:
        recorder_of(run).write_text(name, str(value), step)


def _write_list(run: Run, name: str, values: list[Any], step: int) -> None:
    """Record media one by one, numbers as a distribution, and anything else as a text."""
    if any(isinstance(value, (WBValue, CustomChart)) for value in values):
        for number, value in enumerate(values):
            _write_other(run, f"{name}/{number}" if len(values) > 1 else name, value, step)
    elif values and all(_is_number(value) for value in values):
        recorder_of(run).write_histogram(name, list(map(_plain, values)), step, bins=_BINS)
    elif values:
        recorder_of(run).write_text(name, ", ".join(map(str, values)), step)


def _plain(value: Any) -> Any:
    return (
        value
        if type(value) in _PLAIN
        else value.reshape(())
        if hasattr(value, "reshape")
        else value
    )


_SUMMARIES = frozenset({"min", "max", "mean", "best", "last", "copy", "none", "first"})
_GOALS = {"minimize": "min", "min": "min", "maximize": "max", "max": "max"}


@dataclass(frozen=True, slots=True)
class Metric:
    """What ``define_metric`` returns."""

    name: str
    step_metric: str | None = None
    step_sync: bool | None = None
    hidden: bool | None = None
    summary: str | None = None
    goal: str | None = None

    @property
    def wanted(self) -> list[str]:
        """The parts of ``summary``."""
        return [part.strip() for part in (self.summary or "").lower().split(",") if part.strip()]


class StepSync:
    """Adds the last value of a step metric to rows that hold a metric drawn against it."""

    def __init__(self) -> None:
        self._rules: list[tuple[str, str]] = []
        self._last: dict[str, Any] = {}

    def add(self, metric: Metric) -> None:
        """Follow a definition, unless it says ``step_sync=False``."""
        if metric.step_metric is not None and metric.step_sync is not False:
            self._rules.append((metric.name, metric.step_metric))

    def complete(self, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """A row with the step metrics that it lacks."""
        if not self._rules:
            return data
        flat = dict(flatten(data))
        self._last.update({x: flat[x] for _, x in self._rules if x in flat})
        lacking = {
            x: self._last[x]
            for pattern, x in self._rules
            if x in self._last
            and x not in flat
            and any(fnmatchcase(name, pattern) for name in flat if name != x)
        }
        return {**data, **lacking} if lacking else data


def define(run: Run, metric: Metric) -> None:
    """Record the definition of a metric; raises for what W&B does not accept."""
    name: Any = metric.name
    if not isinstance(name, str) or not name:
        raise Error("define_metric() requires non empty name argument")
    unknown = [part for part in metric.wanted if part not in _SUMMARIES]
    if unknown:
        raise Error(f"Unhandled define_metric() arg: summary op: {unknown[0]}")
    if metric.goal is not None and metric.goal not in _GOALS:
        raise Error(f"Unhandled define_metric() arg: goal: {metric.goal}")
    if metric.hidden:
        not_supported("define_metric(hidden=True)", "the metric is shown")
    goal = _GOALS[metric.goal] if metric.goal is not None else _goal_of(metric.wanted)
    if metric.step_metric is not None or goal is not None:
        run.define(metric.name, x=metric.step_metric, goal=goal)


def _goal_of(wanted: list[str]) -> str | None:
    """``summary="min"`` says that less is better."""
    return next((part for part in wanted if part in ("min", "max")), None)
