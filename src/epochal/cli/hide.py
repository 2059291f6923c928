"""``epochal hide``: leave runs out of lists, or show them again."""

from __future__ import annotations

import argparse
from dataclasses import replace

from epochal.cli.command import add_json, add_run, add_where, chosen_runs, store_of
from epochal.cli.output import remark, say_json


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``hide``."""
    add_run(parser, several=True, optional=True)
    add_where(parser)
    parser.add_argument("--undo", action="store_true", help="show the runs again")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Hide runs; the runs themselves stay as they are."""
    views = chosen_runs(
        store_of(args), args.runs, args.where, usage="name runs, or give --where QUERY"
    )
    for view in views:
        view.relabel(lambda labels: replace(labels, hidden=not args.undo))
    infos = [view.info for view in views]
    if args.json:
        say_json(infos)
    else:
        what = f"{infos[0].project}/{infos[0].name}" if len(infos) == 1 else f"{len(infos):,} runs"
        be = "is" if len(infos) == 1 else "are"
        again = "'epochal ls --all' lists hidden runs."
        remark(f"{what} {be} {'shown again' if args.undo else 'hidden'}. {again * (not args.undo)}")
    return 0
