"""``epochal compare``: where runs differ, and what they came to beside the first, or in groups."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import click

from epochal.cli import options
from epochal.cli.command import data_command, full_name, named_runs, reading_store
from epochal.cli.group_tables import group_options, print_groups
from epochal.cli.output import form, remark, say, say_json, table, terminal_columns
from epochal.errors import UsageError
from epochal.records.format import UNKNOWN, format_number, plural
from epochal.store.comparison import ComparedMetric, Comparison, compare, deltas
from epochal.store.store import RunView
from epochal.store.words import most_severe_text, progress_text

_LONGEST_CELL = 40
_MARK = "!"
_LEGEND = f"{_MARK} ended as NaN or infinity, or lost more than half of its progress."


@data_command
@options.runs
@options.metrics
@click.option("-a", "--all", "with_all", is_flag=True, help="Show every metric and setting.")
@click.option("--where", metavar="QUERY", help="Only runs that match: 'config.lr < 3e-4'.")
@group_options
@options.csv
@options.hub
def command(
    runs: tuple[str, ...],
    metrics: tuple[str, ...],
    with_all: bool,
    where: str | None,
    **groups: Any,
) -> None:
    """Compare runs with the first one, or groups of runs with each other.

    \b
    epochal compare baseline wide deep       these three runs
    epochal compare --group-by lr            all runs, in groups of one learning rate
    epochal compare my-sweep --all-but seed  the runs of a project
    epochal compare --importance val/acc     which settings matter
    """
    is_grouped = any(groups[name] is not None for name in ("group_by", "all_but", "importance"))
    if not is_grouped and (form() == "csv" or groups["steps"] or groups["unfinished"]):
        raise UsageError(
            "--csv, --steps and --unfinished go with --group-by, --all-but or --importance."
        )
    with reading_store() as store:
        views: Sequence[RunView] = named_runs(store, runs) if runs else store.runs(where)
        if runs and where is not None:
            wanted = {view.id for view in store.runs(where)}
            views = [view for view in views if view.id in wanted]
        if is_grouped:
            print_groups(views, metrics, **groups)
        elif runs or where is not None:
            _compare(views, metrics, with_all=with_all)
        else:
            raise UsageError("name the runs to compare, or group all runs with --group-by KEYS.")


def _compare(named: Sequence[RunView], metrics: Sequence[str], *, with_all: bool) -> None:
    runs = list({(view.id, view.outline().folder): view for view in named}.values())
    if len(runs) < 2:
        raise UsageError("compare takes two runs or more; the first is what others differ from.")
    found = compare(runs, names=metrics, with_all=with_all)
    if form() == "json":
        data = {"runs": list(map(full_name, runs)), "status": [one.status.state for one in runs]}
        data |= {"config": found.config, "metrics": found.metric_rows()}
        say_json({**data, "left_out": found.left_out})
        return
    say("\n\n".join(_tables(runs, found)))
    if found.left_out:
        remark(f"\n{plural(found.left_out, 'more metric')} of layers and machines: --all.")


def _tables(runs: Sequence[RunView], found: Comparison) -> list[str]:
    infos = [view.info for view in runs]
    forms = zip(*((row.name, f"{row.project}/{row.name}", row.id) for row in infos), strict=True)
    names = next(form for form in forms if len(set(form)) == len(form))
    state = ("status", *(info.status.text for info in infos))
    steps = ("step", *(progress_text(info) or UNKNOWN for info in infos))
    found_in = [most_severe_text(info) for info in infos]
    findings = [("findings", *(text or UNKNOWN for text in found_in))] if any(found_in) else []
    config = [(name, *map(_text, values)) for name, values in found.config.items()]
    metrics = [row for metric in found.metrics for row in _rows(metric)]
    right = tuple(range(1, len(runs) + 1))
    parts = [("RUN", [state, steps, *findings]), ("CONFIG", config), ("METRIC", metrics)]
    tables = [
        table((title, *names), rows, width=terminal_columns(), shrink=(0, *right), right=right)
        for title, rows in parts
        if rows
    ]
    has_marks = any(any(metric.ended_badly()) for metric in found.metrics)
    return [*tables, _LEGEND] if has_marks else tables


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
