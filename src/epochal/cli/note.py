"""``epochal note``: read or write the note of a run."""

from __future__ import annotations

import argparse
from dataclasses import replace

from epochal.cli.command import add_json, add_run, run_of
from epochal.cli.output import say, say_json


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``note``."""
    add_run(parser)
    parser.add_argument(
        "text", metavar="TEXT", nargs="?", help="the new note, '' for none; without TEXT: print it"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Write the note if a text is given, else print it."""
    view = run_of(args)
    if args.text is not None:
        view.relabel(replace(view.labels, notes=args.text))
    info = view.info
    if args.json:
        say_json(info)
    elif args.text is None and info.notes:
        say(info.notes)
    return 0
