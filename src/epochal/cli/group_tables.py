"""The part of ``epochal compare`` that is about groups of runs: tables, CSV and JSON."""

from __future__ import annotations

import argparse
import csv
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from epochal.cli.command import add_unfinished, named_runs, reading_store, unfinished_text
from epochal.cli.output import hint, say, say_json
from epochal.cli.table import table, terminal_columns
from epochal.errors import UsageError
from epochal.format import UNKNOWN, format_number
from epochal.series.aggregate import Numbers
from epochal.store.groups import (
    CHOICES,
    UNCOUNTED,
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

_MOST_METRICS = 8
# Terminals of so many columns have room for the standard error and the quartiles too.
_WIDE = 110
_LEGEND = "* has the best mean."


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments about groups to ``compare``."""
    group = parser.add_argument_group("groups", "without RUN, all runs; a project means its runs")
    group.add_argument(
        "--group-by",
        metavar="KEYS",
        help="group runs by keys of the config, with commas between: lr,model",
    )
    group.add_argument(
        "--all-but", metavar="KEYS", help="group by every key that differs but these: seed"
    )
    group.add_argument(
        "--importance",
        metavar="METRIC",
        help="rank the keys of the config by how much a metric depends on them",
    )
    group.add_argument(
        "--where", metavar="QUERY", help="only runs that match a query: 'config.lr < 3e-4'"
    )
    group.add_argument(
        "--value",
        choices=CHOICES,
        default="last",
        help="the value of a run that counts (default: last)",
    )
    group.add_argument("--at", type=float, metavar="STEP", help="the value at this step instead")
    group.add_argument(
        "--steps", action="store_true", help="numbers at each step, with --csv or --json"
    )
    group.add_argument("--csv", action="store_true", help="print CSV")
    add_unfinished(group)


def is_asked_for(args: argparse.Namespace) -> bool:
    """Whether the arguments ask for groups."""
    return any(one is not None for one in (args.group_by, args.all_but, args.importance))


def run(args: argparse.Namespace) -> int:
    """Print groups of runs, or which keys of their configs matter."""
    if args.steps and not (args.csv or args.json):
        raise UsageError("--steps prints numbers for programs: add --csv or --json.")
    if args.csv and args.json:
        raise UsageError("--csv and --json exclude each other.")
    with reading_store(args) as store:
        runs: Sequence[RunView] = named_runs(store, args) if args.runs else store.runs(args.where)
        if args.runs and args.where is not None:
            wanted = {run.id for run in store.runs(args.where)}
            runs = [run for run in runs if run.id in wanted]
        if args.importance is not None:
            _print_importance(args, runs)
            return 0
        groups = groups_of(
            runs,
            by=_keys(args.group_by),
            by_all_but=_keys(args.all_but),
            unfinished=args.unfinished,
        )
        members = groups.grouping.members
        if not members:
            raise UsageError("there is no run to group.")
        metrics = args.metric or default_metrics(members)[:_MOST_METRICS]
        if args.steps:
            _print_steps(groups, metrics, as_json=args.json)
        else:
            _print_values(args, groups, metrics)
    return 0


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as CSV with a header; every column that any row has, numbers with all their digits."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _csv_cell(value) for name, value in row.items()} for row in rows)
    return text.getvalue().rstrip("\n")


def _print_csv(rows: Sequence[Mapping[str, Any]], unfinished: Sequence[Unfinished]) -> None:
    say(csv_text(rows))
    for sentence in dict.fromkeys(map(unfinished_text, unfinished)):
        if sentence:
            hint(sentence)


def _print_steps(groups: RunGroups, metrics: Sequence[str], *, as_json: bool) -> None:
    found = [one for metric in metrics for one in groups.series(metric)]
    rows = [row for one in found for row in series_rows(one)]
    if not as_json:
        _print_csv(rows, [one.unfinished for one in found])
        return
    marks = [
        {"metric": one.metric, "group": one.group.label, "dropouts": one.dropouts} for one in found
    ]
    unfinished = {one.metric: one.unfinished for one in found}
    say_json({"keys": groups.keys, "steps": rows, "dropouts": marks, "unfinished": unfinished})


def _print_values(args: argparse.Namespace, groups: RunGroups, metrics: Sequence[str]) -> None:
    tables = [groups.table(metric, value=args.value, at=args.at) for metric in metrics]
    if args.csv:
        rows = [_csv_row(groups, one, row) for one in tables for row in one.rows]
        _print_csv(rows, [one.unfinished for one in tables])
    elif args.json:
        grouping = groups.grouping
        keys = (grouping.keys, grouping.varying, grouping.repeats)
        say_json(GroupTables(*keys, len(grouping.members), tables, []))
    else:
        say("\n\n".join(_block(groups, one) for one in tables))


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


def _print_importance(args: argparse.Namespace, runs: Sequence[RunView]) -> None:
    if args.group_by is not None or args.all_but is not None:
        raise UsageError("--importance takes no groups: it looks at every key of the config.")
    found = importance(
        runs, args.importance, value=args.value, at=args.at, unfinished=args.unfinished
    )
    if args.csv:
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
    elif args.json:
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


def _csv_cell(value: Any) -> Any:
    return "" if value is None or (isinstance(value, float) and math.isnan(value)) else value


def _keys(text: str | None) -> list[str] | None:
    if text is None:
        return None
    return [key.strip() for key in text.split(",") if key.strip()]
