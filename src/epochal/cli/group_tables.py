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
from epochal.store.difference import Difference, differences, verdict
from epochal.store.groups import (
    CHOICES,
    GroupSeries,
    GroupValue,
    Standing,
    best_index,
    default_metrics,
    level_text,
)
from epochal.store.importance import Importance, Interaction, importance, level_rows
from epochal.store.run_groups import RunGroups, groups_of, series_rows, value_row
from epochal.store.store import RunView

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
        "--forest", action="store_true", help="with --importance: also a forest of scikit-learn"
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
        members = [member for group in groups for member in group.members]
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


def _print_csv(
    rows: Sequence[Mapping[str, Any]], found: Sequence[GroupSeries | GroupValue | Importance]
) -> None:
    say(csv_text(rows))
    for sentence in dict.fromkeys(unfinished_text(one.unfinished) for one in found):
        if sentence:
            hint(sentence)


def _print_steps(groups: RunGroups, metrics: Sequence[str], *, as_json: bool) -> None:
    found = [groups.series(metric) for metric in metrics]
    every = [one for of_metric in found for one in of_metric]
    rows = [row for one in every for row in series_rows(one)]
    if not as_json:
        _print_csv(rows, every)
        return
    marks = [
        {"metric": one.metric, "group": one.group.label, "dropouts": one.dropouts} for one in every
    ]
    unfinished = {one[0].metric: one[0].unfinished for one in found if one}
    say_json({"keys": groups.keys, "steps": rows, "dropouts": marks, "unfinished": unfinished})


def _print_values(args: argparse.Namespace, groups: RunGroups, metrics: Sequence[str]) -> None:
    found = []
    for metric in metrics:
        values = groups.values(metric, value=args.value, at=args.at)
        found.append((values, differences(groups.grouping, values)))
    if args.csv:
        every = [one for values, _ in found for one in values]
        _print_csv([value_row(one) for one in every], every)
    elif args.json:
        say_json({"keys": groups.keys, "metrics": [_as_data(groups, *one) for one in found]})
    else:
        say("\n\n".join(_block(groups, *one) for one in found))


def _as_data(
    groups: RunGroups, values: Sequence[GroupValue], found: Sequence[Difference]
) -> dict[str, Any]:
    best = best_index(values)
    return {
        "metric": values[0].metric,
        "goal": values[0].goal,
        "groups": [
            {"label": one.group.label, **value_row(one), "runs": one.members} for one in values
        ],
        "best": best,
        "verdict": verdict(groups.grouping, values, found),
        "differences": found,
        "unfinished": values[0].unfinished,
    }


def _block(groups: RunGroups, values: Sequence[GroupValue], found: Sequence[Difference]) -> str:
    best = best_index(values)
    metric, goal = values[0].metric, values[0].goal
    width = terminal_columns()
    is_wide = width >= _WIDE
    header = (*groups.keys, "N", "MEAN", "95 %", "MEDIAN", "STD", "MIN", "MAX")
    header += ("SE", "QUARTILES") if is_wide else ()
    rows = [_row(one, is_best=index == best, is_wide=is_wide) for index, one in enumerate(values)]
    right = range(len(groups.keys), len(header))
    text = table(header, rows, width=width, shrink=range(len(groups.keys)), right=tuple(right))
    title = metric if goal is None else f"{metric} (better: {'less' if goal == 'min' else 'more'})"
    remarks = [*_uncounted(values), verdict(groups.grouping, values, found)]
    return "\n".join([title, text, *([_LEGEND] if best is not None else []), *remarks])


def _row(one: GroupValue, *, is_best: bool, is_wide: bool) -> tuple[str, ...]:
    row = one.numbers.row(0)
    n, members = int(row["n"]), len(one.members)
    half = (row["high"] - row["low"]) / 2
    return (
        *map(level_text, one.group.values),
        str(n) if n == members else f"{n} of {members}",
        f"{'* ' if is_best else ''}{_number(row['mean'])}",
        UNKNOWN if math.isnan(half) else f"± {format_number(half)}",
        *(_number(row[name]) for name in ("median", "std", "min", "max")),
        *((_number(row["se"]), " – ".join(_number(row[q]) for q in ("q25", "q75"))) * is_wide),
    )


def _uncounted(values: Sequence[GroupValue]) -> list[str]:
    """What became of members that do not count."""
    words: dict[Standing, str] = {
        "nonfinite": "ended as nan or infinity",
        "missing": "never logged it",
    }
    counts = {name: sum(one.count(name) for one in values) for name in words}
    said = [f"{count} {words[name]}" for name, count in counts.items() if count]
    unfinished = unfinished_text(values[0].unfinished)
    return [*([f"Not counted: {', '.join(said)}."] if said else []), *filter(None, [unfinished])]


def _print_importance(args: argparse.Namespace, runs: Sequence[RunView]) -> None:
    if args.group_by is not None or args.all_but is not None:
        raise UsageError("--importance takes no groups: it looks at every key of the config.")
    found = importance(
        runs,
        args.importance,
        value=args.value,
        at=args.at,
        forest=args.forest,
        unfinished=args.unfinished,
    )
    if args.csv:
        _print_csv([row for one in found.parameters for row in level_rows(found, one)], [found])
    elif args.json:
        say_json(found)
    else:
        say("\n\n".join(_importance_blocks(found)))


def _importance_blocks(found: Importance) -> list[str]:
    blocks = [found.sentence]
    if found.parameters:
        has_forest = found.forest_score is not None
        header: tuple[str, ...] = ("KEY", "EXPLAINS", "SPEARMAN", "P", "BEST AT", "VERDICT")
        rows = [
            (
                " = ".join((one.key, *one.same_as)),
                UNKNOWN if math.isnan(one.score) else f"{100 * one.score:.0f} %",
                _number(one.spearman),
                UNKNOWN if math.isnan(one.p) else f"{one.p:.2g}",
                (one.best if one.verdict == "matters" else None) or UNKNOWN,
                one.verdict,
                *(
                    (UNKNOWN if one.forest is None else f"{100 * one.forest:.0f} %",)
                    if has_forest
                    else ()
                ),
            )
            for one in found.parameters
        ]
        if has_forest:
            header = (*header, "FOREST")
        right = (1, 2, 3, *((6,) if has_forest else ()))
        blocks.append(table(header, rows, width=terminal_columns(), shrink=(0, 4), right=right))
    if found.forest_score is not None:
        score = format_number(found.forest_score)
        blocks.append(f"The forest explains {score} of the variance out of bag (R²).")
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
