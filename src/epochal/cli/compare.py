"""``epochal compare``: where runs differ, and what they came to beside the first."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from epochal.cli.command import add_json, add_run, print_json, store_of
from epochal.cli.table import table, terminal_columns
from epochal.cli.words import progress_text
from epochal.errors import UsageError
from epochal.format import UNKNOWN, format_number
from epochal.store.comparison import Comparison, compare
from epochal.store.store import RunView

_LONGEST_CELL = 40


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``compare``."""
    add_run(parser, several=True)
    parser.add_argument(
        "-m", "--metric", action="append", default=[], metavar="NAME", help="only these metrics"
    )
    parser.add_argument(
        "-a", "--all", action="store_true", help="configuration that is the same in all runs too"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Compare runs with the first."""
    with store_of(args) as store:
        runs = list({view.place: view for view in map(store.run, args.runs)}.values())
        if len(runs) < 2:
            raise UsageError(
                "compare takes two runs or more; the first is what others differ from."
            )
        found = compare(runs, names=args.metric)
        config = found.config if args.all else found.differences()
        if args.json:
            print_json(_as_data(runs, found, config))
        else:
            print("\n\n".join(_tables(runs, found, config)))
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
                "deltas": metric.deltas(),
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
    metrics = [
        (_label(metric.name, metric.goal), *map(_value, metric.values(), metric.deltas()))
        for metric in found.metrics
    ]
    right = tuple(range(1, len(runs) + 1))
    parts = [("RUN", [state, steps]), ("CONFIG", differing), ("METRIC", metrics)]
    return [
        table((title, *names), rows, width=terminal_columns(), shrink=(0, *right), right=right)
        for title, rows in parts
        if rows
    ]


def _label(name: str, goal: str | None) -> str:
    return name if goal is None else f"{name} ({goal})"


def _value(value: float | None, delta: float | None) -> str:
    if value is None:
        return UNKNOWN
    text = format_number(value)
    if not delta:
        return text
    return f"{text} ({'+' if delta > 0 else ''}{format_number(delta)})"


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= _LONGEST_CELL else f"{text[: _LONGEST_CELL - 1]}…"
