"""``epochal compare``: where runs differ, and what they came to beside the first, or in groups."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import click

from epochal.cli.command import (
    cli_command,
    comma_list,
    csv_option,
    hub_option,
    json_option,
    named_runs,
    reading_store,
    runs_argument,
    unfinished_option,
)
from epochal.cli.group_tables import Form, print_groups, print_importance
from epochal.cli.output import remark, say, say_json
from epochal.cli.table import table, terminal_columns
from epochal.cli.words import most_severe_text, progress_text
from epochal.errors import UsageError
from epochal.format import UNKNOWN, format_number, plural
from epochal.store.comparison import ComparedMetric, Comparison, compare, deltas
from epochal.store.groups import CHOICES, Choice
from epochal.store.row import RunRow
from epochal.store.store import RunView

_LONGEST_CELL = 40
_MARK = "!"
_LEGEND = f"{_MARK} ended as no number, or far above its best."


@cli_command
@runs_argument
@click.option(
    "-m",
    "--metric",
    "metrics",
    multiple=True,
    metavar="NAME",
    help="Only metrics of this name or ending: loss also selects eval/loss.",
)
@click.option(
    "-a",
    "--all",
    "with_all",
    is_flag=True,
    help="Also show what is equal, and metrics of layers and machines.",
)
@click.option(
    "--group-by",
    metavar="KEYS",
    help="Group runs by keys of the configuration, with commas between: lr,model.",
)
@click.option("--all-but", metavar="KEYS", help="Group by every key that differs but these: seed.")
@click.option(
    "--importance",
    metavar="METRIC",
    help="Rank the keys of the configuration by how much a metric depends on them.",
)
@click.option("--where", metavar="QUERY", help="Only runs that match: 'config.lr < 3e-4'.")
@click.option(
    "--value",
    type=click.Choice(CHOICES),
    default="last",
    help="The value of a run that counts in groups (default: last).",
)
@click.option("--at", type=float, metavar="STEP", help="The value at this step instead.")
@click.option("--steps", is_flag=True, help="Numbers at each step, with --csv or --json.")
@unfinished_option
@hub_option
@csv_option
@json_option
def command(
    runs: tuple[str, ...],
    metrics: tuple[str, ...],
    with_all: bool,
    group_by: str | None,
    all_but: str | None,
    importance: str | None,
    where: str | None,
    value: Choice,
    at: float | None,
    steps: bool,
    unfinished: bool,
    hub: str | None,
    as_csv: bool,
    as_json: bool,
) -> None:
    """Compare runs with the first one, or groups of runs with each other.

    \b
    epochal compare baseline wide deep      these three runs
    epochal compare --group-by lr           all runs, in groups of one learning rate
    epochal compare my-sweep --all-but seed the runs of a project
    epochal compare --importance val/acc    which settings matter
    """
    is_grouped = group_by is not None or all_but is not None
    if not is_grouped and importance is None:
        if where is not None or unfinished or as_csv or steps:
            raise UsageError(
                "--where, --unfinished, --csv and --steps go with --group-by, --all-but or"
                " --importance."
            )
        with reading_store(hub) as store:
            _compare(list(map(store.run, runs)), metrics, with_all=with_all, as_json=as_json)
        return
    if is_grouped and importance is not None:
        raise UsageError("--importance takes no groups: it looks at every key of the config.")
    if steps and not (as_csv or as_json):
        raise UsageError("--steps prints numbers for programs: add --csv or --json.")
    if as_csv and as_json:
        raise UsageError("--csv and --json exclude each other.")
    form: Form = "csv" if as_csv else "json" if as_json else "table"
    with reading_store(hub) as store:
        views: Sequence[RunView] = named_runs(store, runs) if runs else store.runs(where)
        if runs and where is not None:
            wanted = {view.id for view in store.runs(where)}
            views = [view for view in views if view.id in wanted]
        if importance is not None:
            print_importance(
                views, importance, value=value, at=at, unfinished=unfinished, form=form
            )
            return
        print_groups(
            views,
            metrics=metrics,
            by=comma_list(group_by),
            by_all_but=comma_list(all_but),
            value=value,
            at=at,
            steps=steps,
            unfinished=unfinished,
            form=form,
        )


def _compare(
    named: Sequence[RunView], metrics: Sequence[str], *, with_all: bool, as_json: bool
) -> None:
    runs = list({(view.id, view.outline().folder): view for view in named}.values())
    if len(runs) < 2:
        raise UsageError("compare takes two runs or more; the first is what others differ from.")
    found = compare(runs, names=metrics, with_all=with_all)
    if as_json:
        say_json(_as_data(runs, found))
        return
    say("\n\n".join(_tables(runs, found)))
    if found.left_out:
        remark(f"\n{plural(found.left_out, 'more metric')} of layers and machines: --all.")


def _as_data(runs: Sequence[RunView], found: Comparison) -> dict[str, Any]:
    infos = [view.info for view in runs]
    return {
        "runs": [
            {"id": row.id, "name": row.name, "status": row.status.state, "step": row.step}
            for row in infos
        ],
        "config": found.config,
        "metrics": [
            {
                "name": metric.name,
                "goal": metric.goal,
                "values": metric.values(),
                "deltas": deltas(metric.values()),
                "last": metric.last(),
                "ended_badly": metric.ended_badly(),
            }
            for metric in found.metrics
        ],
        "left_out": found.left_out,
    }


def _tables(runs: Sequence[RunView], found: Comparison) -> list[str]:
    infos = [view.info for view in runs]
    names = [info.name for info in infos]
    if len(set(names)) < len(names):
        names = [f"{info.project}/{info.name}" for info in infos]
    if len(set(names)) < len(names):
        names = [info.id for info in infos]
    state = ("status", *(info.status.text for info in infos))
    steps = ("step", *(progress_text(info) or UNKNOWN for info in infos))
    config = [(name, *map(_text, values)) for name, values in found.config.items()]
    metrics = [row for metric in found.metrics for row in _rows(metric)]
    right = tuple(range(1, len(runs) + 1))
    parts = [("RUN", [state, steps, *_findings(infos)]), ("CONFIG", config), ("METRIC", metrics)]
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
