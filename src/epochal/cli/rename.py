"""``epochal rename``: show a run under another name."""

from __future__ import annotations

import argparse
from dataclasses import replace

from epochal.cli.command import add_json, add_run, run_of
from epochal.cli.output import remark, say_json


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``rename``."""
    add_run(parser)
    parser.add_argument("name", metavar="NAME", help="the new name; '' restores the original one")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Store the new name beside the run; the folder and what was recorded stay as they are."""
    view = run_of(args)
    old = view.outline().name
    view.relabel(lambda labels: replace(labels, name=args.name or None))
    if args.json:
        say_json(view.info)
    else:
        remark(f"{old!r} is now {view.outline().name!r}.")
    return 0
