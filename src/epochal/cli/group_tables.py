"""The part of ``epochal compare`` that is about groups of runs: tables, CSV and JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from epochal.cli.command import unfinished_text
from epochal.cli.output import hint, say, say_csv, say_json
from epochal.cli.table import table, terminal_columns
from epochal.errors import UsageError
from epochal.format import UNKNOWN, format_number
from epochal.series.aggregate import Numbers
from epochal.store.groups import (
    UNCOUNTED,
    Choice,
    GroupRow,
    GroupTable,
    GroupTables,
    RunGroups,
    Standing,
    default_metrics,
    groups_of,
    level_text,
    series_rows,
)
from epochal.store.importance import Importance, Interaction, importance
from epochal.store.store import RunView
from epochal.store.unfinished import Unfinished

Form = Literal["table", "csv", "json"]
_MOST_METRICS = 8
# Terminals of so many columns have room for the standard error and the quartiles too.
_WIDE = 110
_LEGEND = "* has the best mean."


def print_groups(
    runs: Sequence[RunView],
    *,
    metrics: Sequence[str],
    by: Sequence[str] | None,
    by_all_but: Sequence[str] | None,
    value: Choice,
    at: float | None,
    steps: bool,
    unfinished: bool,
    form: Form,
) -> None:
    """Print the runs in groups: a table for each metric, or the numbers at each step."""
    groups = groups_of(runs, by=by, by_all_but=by_all_but, unfinished=unfinished)
    members = groups.grouping.members
    if not members:
        raise UsageError("there is no run to group.")
    metrics = metrics or default_metrics(members)[:_MOST_METRICS]
    if steps:
        _print_steps(groups, metrics, form)
        return
    tables = [groups.table(metric, value=value, at=at) for metric in metrics]
    if form == "csv":
        rows = [_csv_row(groups, one, row) for one in tables for row in one.rows]
        _print_csv(rows, [one.unfinished for one in tables])
    elif form == "json":
        grouping = groups.grouping
        keys = (grouping.keys, grouping.varying, grouping.repeats)
        say_json(GroupTables(*keys, len(grouping.members), tables, []))
    else:
        say("\n\n".join(_block(groups, one) for one in tables))


def _print_csv(rows: Sequence[Mapping[str, Any]], unfinished: Sequence[Unfinished]) -> None:
    say_csv(rows)
    for sentence in dict.fromkeys(map(unfinished_text, unfinished)):
        if sentence:
            hint(sentence)


def _print_steps(groups: RunGroups, metrics: Sequence[str], form: Form) -> None:
    found = [one for metric in metrics for one in groups.series(metric)]
    rows = [row for one in found for row in series_rows(one)]
    if form == "csv":
        _print_csv(rows, [one.unfinished for one in found])
        return
    marks = [
        {"metric": one.metric, "group": one.group.label, "dropouts": one.dropouts} for one in found
    ]
    unfinished = {one.metric: one.unfinished for one in found}
    say_json({"keys": groups.keys, "steps": rows, "dropouts": marks, "unfinished": unfinished})


def _csv_row(groups: RunGroups, found: GroupTable, row: GroupRow) -> dict[str, Any]:
    names = ("n", *UNCOUNTED, *Numbers.__struct_fields__[1:])
    return {
        "metric": found.metric,
        **dict(zip(groups.keys, row.values, strict=True)),
        "members": len(row.members),
        **{name: getattr(row, name) for name in names},
    }


def _block(groups: RunGroups, found: GroupTable) -> str:
    width = terminal_columns()
    is_wide = width >= _WIDE
    header = (*groups.keys, "N", "MEAN", "95 %", "MEDIAN", "STD", "MIN", "MAX")
    header += ("SE", "QUARTILES") if is_wide else ()
    rows = [
        _row(one, is_best=index == found.best, is_wide=is_wide)
        for index, one in enumerate(found.rows)
    ]
    right = range(len(groups.keys), len(header))
    text = table(header, rows, width=width, shrink=range(len(groups.keys)), right=tuple(right))
    better = {"min": " (better: less)", "max": " (better: more)", None: ""}[found.goal]
    legend = [_LEGEND] if found.best is not None else []
    remarks = [*legend, *_uncounted(found), found.verdict]
    return "\n".join([f"{found.metric}{better}", text, *remarks])


def _row(row: GroupRow, *, is_best: bool, is_wide: bool) -> tuple[str, ...]:
    members = len(row.members)
    half = (row.high - row.low) / 2
    return (
        *map(level_text, row.values),
        str(row.n) if row.n == members else f"{row.n} of {members}",
        f"{'* ' if is_best else ''}{_number(row.mean)}",
        UNKNOWN if math.isnan(half) else f"± {format_number(half)}",
        *map(_number, (row.median, row.std, row.min, row.max)),
        *((_number(row.se), f"{_number(row.q25)} – {_number(row.q75)}") if is_wide else ()),
    )


def _uncounted(found: GroupTable) -> list[str]:
    """What became of members that do not count."""
    words: dict[Standing, str] = {
        "nonfinite": "ended as nan or infinity",
        "missing": "never logged it",
    }
    counts = {name: sum(getattr(row, name) for row in found.rows) for name in words}
    said = [f"{count} {words[name]}" for name, count in counts.items() if count]
    unfinished = unfinished_text(found.unfinished)
    return [*([f"Not counted: {', '.join(said)}."] if said else []), *filter(None, [unfinished])]


def print_importance(
    runs: Sequence[RunView],
    metric: str,
    *,
    value: Choice,
    at: float | None,
    unfinished: bool,
    form: Form,
) -> None:
    """Print which keys of the configuration a metric depends on."""
    found = importance(runs, metric, value=value, at=at, unfinished=unfinished)
    if form == "csv":
        rows = [
            {
                "metric": found.metric,
                "key": one.key,
                "score": one.score,
                "level": each.label,
                "num_runs": each.num_runs,
                "nonfinite": each.nonfinite,
                **{name: getattr(each, name) for name in Numbers.__struct_fields__},
            }
            for one in found.parameters
            for each in one.levels
        ]
        _print_csv(rows, [found.unfinished])
    elif form == "json":
        say_json(found)
    else:
        say("\n\n".join(_importance_blocks(found)))


def _importance_blocks(found: Importance) -> list[str]:
    blocks = [found.sentence]
    if found.parameters:
        header = ("KEY", "EXPLAINS", "SPEARMAN", "P", "BEST AT", "VERDICT")
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
        columns = terminal_columns()
        blocks.append(table(header, rows, width=columns, shrink=(0, 4), right=(1, 2, 3)))
    if found.interaction is not None:
        blocks.append(_heat_map(found.metric, found.interaction))
    said = []
    if found.nonfinite:
        said.append(f"{found.nonfinite} ended as nan or infinity and count as the worst")
    if found.missing:
        said.append(f"{found.missing} never logged it")
    if said:
        blocks.append(f"Of {found.num_runs + found.missing} runs {'; '.join(said)}.")
    return [*blocks, *filter(None, [unfinished_text(found.unfinished)])]


def _heat_map(metric: str, one: Interaction) -> str:
    """The means of two keys as a table; the number of runs where it is not the usual one."""
    counts = [n for row in one.n for n in row if n > 0]
    usual = int(np.median(counts)) if counts else 0
    header = (f"{one.keys[0]} \\ {one.keys[1]}", *one.columns)
    rows = [
        (label, *(_cell(mean, n, usual) for mean, n in zip(means, row, strict=True)))
        for label, means, row in zip(one.rows, one.mean, one.n, strict=True)
    ]
    right = tuple(range(1, len(header)))
    text = table(header, rows, width=terminal_columns(), shrink=(0, *right), right=right)
    return f"Mean of {metric}, over {usual} runs where no number is given\n{text}"


def _cell(mean: float, n: int, usual: int) -> str:
    return _number(mean) if n in (0, usual) else f"{_number(mean)} ({n})"


def _number(value: float) -> str:
    return UNKNOWN if math.isnan(value) else format_number(value)
