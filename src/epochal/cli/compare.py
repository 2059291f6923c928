"""``epochal compare``: where runs differ, and what they came to beside the first, or in groups."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from typing import Any

from epochal.cli import group_tables
from epochal.cli.command import add_hub_reading, add_json, add_run, reading_store
from epochal.cli.output import say, say_json
from epochal.cli.table import table, terminal_columns
from epochal.cli.words import most_severe_text, progress_text
from epochal.errors import UsageError
from epochal.format import UNKNOWN, format_number
from epochal.store.comparison import ComparedMetric, Comparison, compare, deltas
from epochal.store.row import RunRow
from epochal.store.store import RunView

_LONGEST_CELL = 40
_MARK = "!"
_LEGEND = f"{_MARK} ended as no number, or far above its best."


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``compare``."""
    add_run(parser, several=True, optional=True)
    parser.add_argument(
        "-m",
        "--metric",
        action="append",
        default=[],
        metavar="NAME",
        help="only metrics of this name or ending: loss also selects eval/loss",
    )
    parser.add_argument(
        "-a", "--all", action="store_true", help="also show configuration that is equal in all runs"
    )
    group_tables.configure(parser)
    add_hub_reading(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Compare runs with the first, or in groups."""
    if group_tables.is_asked_for(args):
        return group_tables.run(args)
    if args.where is not None or args.unfinished:
        option = "--unfinished" if args.unfinished else "--where"
        raise UsageError(f"{option} goes with --group-by, --all-but or --importance.")
    with reading_store(args) as store:
        named = map(store.run, args.runs)
        runs = list({(view.id, view.outline().folder): view for view in named}.values())
        if len(runs) < 2:
            raise UsageError(
                "compare takes two runs or more; the first is what others differ from."
            )
        found = compare(runs, names=args.metric)
        config = found.config if args.all else found.differences()
        if args.json:
            say_json(_as_data(runs, found, config))
        else:
            say("\n\n".join(_tables(runs, found, config)))
    return 0


def _as_data(runs: Sequence[RunView], found: Comparison, config: Any) -> dict[str, Any]:
    return {
        "runs": [view.info for view in runs],
        "config": config,
        "metrics": [
            {
                "name": metric.name,
                "axis": metric.axis,
                "goal": metric.goal,
                "values": metric.values(),
                "deltas": deltas(metric.values()),
                "last": metric.last(),
                "ended_badly": metric.ended_badly(),
                "summaries": metric.summaries,
            }
            for metric in found.metrics
        ],
    }


def _tables(runs: Sequence[RunView], found: Comparison, config: Any) -> list[str]:
    infos = [view.info for view in runs]
    names = [info.name for info in infos]
    if len(set(names)) < len(names):
        names = [f"{info.project}/{info.name}" for info in infos]
    if len(set(names)) < len(names):
        names = [info.id for info in infos]
    state = ("status", *(info.status.text for info in infos))
    steps = ("step", *(progress_text(info) or UNKNOWN for info in infos))
    differing = [(name, *map(_text, values)) for name, values in config.items()]
    metrics = [row for metric in found.metrics for row in _rows(metric)]
    right = tuple(range(1, len(runs) + 1))
    parts = [("RUN", [state, steps, *_findings(infos)]), ("CONFIG", differing), ("METRIC", metrics)]
    tables = [
        table((title, *names), rows, width=terminal_columns(), shrink=(0, *right), right=right)
        for title, rows in parts
        if rows
    ]
    has_marks = any(any(metric.ended_badly()) for metric in found.metrics)
    return [*tables, _LEGEND] if has_marks else tables


def _findings(infos: Sequence[RunRow]) -> list[tuple[str, ...]]:
    found = [most_severe_text(info) for info in infos]
    return [("findings", *(text or UNKNOWN for text in found))] if any(found) else []


def _rows(metric: ComparedMetric) -> Iterator[tuple[str, ...]]:
    """The best and the last where better is known, else the last alone."""
    values = list(map(_value, metric.values(), deltas(metric.values())))
    if metric.goal is None or metric.axis == "none":
        yield metric.name, *values
        return
    yield f"{metric.name} best ({metric.goal})", *values
    last = map(_value, metric.last(), deltas(metric.last()))
    marks = (f"{_MARK} " if is_bad else "" for is_bad in metric.ended_badly())
    yield f"{metric.name} last", *map(str.__add__, marks, last)


def _value(value: float | None, delta: float | None) -> str:
    if value is None:
        return UNKNOWN
    text = format_number(value)
    if not delta or not math.isfinite(delta):
        return text
    return f"{text} ({'+' if delta > 0 else ''}{format_number(delta)})"


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= _LONGEST_CELL else f"{text[: _LONGEST_CELL - 1]}…"
