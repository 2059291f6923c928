"""``epochal ls``: which runs are there, and how they stand."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING

from epochal.cli.command import add_json, print_json, runs_dir, store_of
from epochal.cli.table import table, terminal_columns
from epochal.console.verbosity import msg
from epochal.format import UNKNOWN, format_number
from epochal.store.answers import RunInfo
from epochal.store.status import format_age

if TYPE_CHECKING:
    from epochal.store.store import RunView


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ls``."""
    parser.add_argument("project", metavar="PROJECT", nargs="?", help="only runs of this project")
    parser.add_argument("-a", "--all", action="store_true", help="hidden runs too")
    parser.add_argument("-n", "--limit", type=int, metavar="N", help="at most N, the newest first")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """List runs, newest first."""
    rows: list[tuple[RunInfo, float | None]] = []
    for view in store_of(args).runs():
        brief = view.brief()
        if args.project not in (None, brief.project) or (brief.hidden and not args.all):
            continue
        if args.limit is not None and len(rows) >= args.limit:
            break
        rows.append((view.info, _last_loss(view)))
    if args.json:
        print_json([{"info": info, "loss": loss} for info, loss in rows])
    elif rows:
        _print(rows)
    else:
        msg("%s", _nothing(args))
    return 0


def _print(rows: list[tuple[RunInfo, float | None]]) -> None:
    now = time.time()
    cells = [
        (
            info.name,
            info.project,
            info.status.text,
            _progress(info),
            UNKNOWN if loss is None else format_number(loss),
            UNKNOWN if info.created is None else format_age(now - info.created),
        )
        for info, loss in rows
    ]
    header = ("NAME", "PROJECT", "STATUS", "STEP", "LOSS", "AGE")
    print(table(header, cells, width=terminal_columns(), shrink=(0, 1), right=(3, 4, 5)))
    for info, _ in rows:
        if info.problem:
            print(f"{info.project}/{info.name}: {info.problem}", file=sys.stderr)


def _progress(info: RunInfo) -> str:
    for done, total, unit in (
        (info.step, info.total_steps, ""),
        (info.epoch, info.num_epochs, "ep "),
    ):
        if done is not None:
            return f"{unit}{done}" if total is None else f"{unit}{done}/{total}"
    return UNKNOWN


def _last_loss(view: RunView) -> float | None:
    metric = view.role("loss")
    if metric is None or 0 not in metric.ranks:
        return None
    return view.series(metric.name, axis=metric.axis).summary.last


def _nothing(args: argparse.Namespace) -> str:
    where = runs_dir(args)
    if args.project is not None:
        return f"No run of project {args.project!r} in {where}."
    return (
        f"No runs in {where} yet. 'epochal demo' records one; in a training, epochal.init() does."
        " Another folder is named with --dir."
    )
