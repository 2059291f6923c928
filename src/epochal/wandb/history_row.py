"""Sorts what one ``log`` call holds: numbers for a record of metrics, the rest by its type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from epochal.run.run import Run
from epochal.values import element_count
from epochal.wandb.data_types.html import Plotly, is_plotly
from epochal.wandb.data_types.image import Image, is_figure
from epochal.wandb.data_types.media import WBValue
from epochal.wandb.data_types.table import Table
from epochal.wandb.plot.custom_chart import CustomChart

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
        run.log_text(name, text, step)
    elif is_figure(value):
        Image(value).write_to(run, name, step)
    elif is_plotly(value):
        Plotly(value).write_to(run, name, step)
    elif hasattr(value, "to_dict") and hasattr(value, "columns"):  # a data frame
        Table(dataframe=value).write_to(run, name, step)
    elif isinstance(value, (list, tuple)):
        _write_list(run, name, list(value), step)
    elif element_count(value) is not None:
        run.log_histogram(name, value, step, bins=_BINS)
    else:
        run.log_text(name, str(value), step)


def _write_list(run: Run, name: str, values: list[Any], step: int) -> None:
    """Record media one by one, numbers as a distribution, and anything else as a text."""
    if any(isinstance(value, (WBValue, CustomChart)) for value in values):
        for number, value in enumerate(values):
            _write_other(run, f"{name}/{number}" if len(values) > 1 else name, value, step)
    elif values and all(_is_number(value) for value in values):
        run.log_histogram(name, [_plain(value) for value in values], step, bins=_BINS)
    elif values:
        run.log_text(name, ", ".join(str(value) for value in values), step)


def _plain(value: Any) -> Any:
    return (
        value
        if type(value) in _PLAIN
        else value.reshape(())
        if hasattr(value, "reshape")
        else value
    )
