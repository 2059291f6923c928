"""``epochal compare``: where runs differ, and what they came to beside the first, or in groups."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any, TypeVar

import click

from epochal.cli import options, output
from epochal.cli.command import data_command, full_name, named_runs, reading_store, unfinished_text
from epochal.cli.output import form, remark, say, say_json, table, terminal_columns
from epochal.compare.groups import (
    CHOICES,
    Choice,
    GroupRow,
    GroupSeries,
    GroupTable,
    GroupTables,
    RunGroups,
    default_metrics,
    group_members,
    level_text,
    members_of,
    series_rows,
)
from epochal.compare.importance import Importance
from epochal.compare.importance import importance as ranked
from epochal.errors import UsageError
from epochal.records.format import UNKNOWN, format_number, plural
from epochal.store.comparison import ComparedMetric, Comparison, compare, deltas
from epochal.store.run import RunView
from epochal.store.words import progress_text, state_text

_F = TypeVar("_F", bound=Callable[..., Any])
_MOST_METRICS = 8
_VALUE = click.Choice(CHOICES)
_UNCOUNTED_WORDS = {"nonfinite": "ended as nan or infinity", "missing": "never logged it"}
_OPTIONS = (
    click.option("--group-by", metavar="KEYS", help="Group runs by configuration: lr,model."),
    click.option("--all-but", metavar="KEYS", help="Group by all that differs but these: seed."),
    click.option("--importance", metavar="METRIC", help="Rank which settings a metric depends on."),
    click.option(
        "--value", type=_VALUE, default="last", help="Which value of a run counts (last)."
    ),
    click.option("--at", type=float, metavar="STEP", help="Count the value at this step instead."),
    click.option("--steps", is_flag=True, help="Numbers at each step, with --csv or --json."),
    options.unfinished,
)


def group_options(function: _F) -> _F:
    """The options of ``compare`` that are about groups."""
    return reduce(lambda inner, option: option(inner), reversed(_OPTIONS), function)


def print_groups(
    runs: Sequence[RunView],
    metrics: Sequence[str],
    *,
    group_by: str | None,
    all_but: str | None,
    importance: str | None,
    value: Choice,
    at: float | None,
    steps: bool,
    unfinished: bool,
) -> None:
    """Print runs in groups, a table for each metric, or which settings matter."""
    if steps and output.form() == "text":
        raise UsageError("--steps prints numbers for programs: add --csv or --json.")
    if importance is not None:
        if output.form() == "csv" or group_by is not None or all_but is not None:
            raise UsageError("--importance looks at every key: it takes no groups and no --csv.")
        found = ranked(runs, importance, value=value, at=at, unfinished=unfinished)
        if not output.said_json(found):
            output.say("\n\n".join(_importance_blocks(found)))
        return
    by, but = options.comma_list(group_by), options.comma_list(all_but)
    groups = group_members(members_of(runs), by=by, all_but=but, unfinished=unfinished)
    if not groups.members:
        raise UsageError("there is no run to group.")
    metrics = metrics or default_metrics(groups.members)[:_MOST_METRICS]
    if steps:
        curves = [curve for metric in metrics for curve in groups.series(metric)]
        output.say_rows([row for one in curves for row in series_rows(one)])
        _hint_unfinished(curves)
        return
    tables = [groups.table(metric, value=value, at=at) for metric in metrics]
    if output.form() == "csv":
        output.say_csv([row for one in tables for row in one.records(groups.keys)])
        _hint_unfinished(tables)
    elif output.form() == "json":
        named = (groups.keys, groups.varying, groups.repeats)
        output.say_json(GroupTables(*named, len(groups.members), tables, []))
    else:
        output.say("\n\n".join(_block(groups, one) for one in tables))


def _hint_unfinished(found: Sequence[GroupTable] | Sequence[GroupSeries]) -> None:
    for sentence in {unfinished_text(one.unfinished) for one in found} - {""}:
        output.hint(sentence)


def _block(groups: RunGroups, found: GroupTable) -> str:
    header = (*groups.keys, "N", "MEAN", "95 %", "MEDIAN", "STD", "MIN", "MAX")
    rows = [_row(one, is_best=at == found.best) for at, one in enumerate(found.rows)]
    keys = range(len(groups.keys))
    right = range(len(groups.keys), len(header))
    text = output.table(header, rows, width=output.terminal_columns(), shrink=keys, right=right)
    better = {"min": " (better: less)", "max": " (better: more)", None: ""}[found.goal]
    counts = {name: sum(getattr(row, name) for row in found.rows) for name in _UNCOUNTED_WORDS}
    left_out = [f"{count} {_UNCOUNTED_WORDS[name]}" for name, count in counts.items() if count]
    remarks = [
        "* has the best mean." if found.best is not None else "",
        f"Not counted: {', '.join(left_out)}." if left_out else "",
        unfinished_text(found.unfinished),
        found.verdict,
    ]
    return "\n".join([f"{found.metric}{better}", text, *filter(None, remarks)])


def _row(row: GroupRow, *, is_best: bool) -> tuple[str, ...]:
    members = len(row.members)
    half = (row.high - row.low) / 2
    return (
        *map(level_text, row.values),
        str(row.n) if row.n == members else f"{row.n} of {members}",
        f"{'* ' if is_best else ''}{_number(row.mean)}",
        UNKNOWN if math.isnan(half) else f"± {format_number(half)}",
        *map(_number, (row.median, row.std, row.min, row.max)),
    )


def _importance_blocks(found: Importance) -> list[str]:
    rows = [
        (
            " = ".join((one.key, *one.same_as)),
            UNKNOWN if math.isnan(one.score) else f"{100 * one.score:.0f} %",
            _number(one.spearman),
            UNKNOWN if math.isnan(one.p) else f"{one.p:.2g}",
            (one.best if one.verdict == "matters" else None) or UNKNOWN,
            one.verdict,
        )
        for one in found.parameters
    ]
    header = ("KEY", "EXPLAINS", "SPEARMAN", "P", "BEST AT", "VERDICT")
    text = output.table(
        header, rows, width=output.terminal_columns(), shrink=(0, 4), right=(1, 2, 3)
    )
    counts = (found.nonfinite, found.missing)
    words = ("ended as nan or infinity and count as the worst", "never logged it")
    said = [f"{count} {word}" for count, word in zip(counts, words, strict=True) if count]
    of_all = f"Of {found.num_runs + found.missing} runs {'; '.join(said)}." if said else ""
    blocks = [found.sentence, text if rows else "", of_all, unfinished_text(found.unfinished)]
    return list(filter(None, blocks))


def _number(value: float) -> str:
    return UNKNOWN if math.isnan(value) else format_number(value)


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
    states = [state_text(info) for info in infos]
    known = [("diagnosis", *(text or UNKNOWN for text in states))] if any(states) else []
    config = [(name, *map(_text, values)) for name, values in found.config.items()]
    metrics = [row for metric in found.metrics for row in _rows(metric)]
    right = tuple(range(1, len(runs) + 1))
    parts = [("RUN", [state, steps, *known]), ("CONFIG", config), ("METRIC", metrics)]
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
