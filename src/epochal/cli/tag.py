"""``epochal tag``: add, remove or print the tags of a run."""

from __future__ import annotations

import argparse
from dataclasses import replace

from epochal.cli.command import add_json, add_run, run_of
from epochal.cli.output import one_line, say, say_json
from epochal.errors import UsageError


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``tag``."""
    add_run(parser)
    parser.add_argument("tags", metavar="TAG", nargs="*", help="tags to add")
    parser.add_argument(
        "-r", "--remove", metavar="TAG", action="append", default=[], help="a tag to remove"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Change the tags, then print those there are."""
    view = run_of(args)
    had = view.brief().tags
    if "" in args.tags:
        raise UsageError("TAG must not be empty.")
    missing = [tag for tag in args.remove if tag not in had]
    if missing:
        raise UsageError(f"{view.brief().name!r} has no tag {missing[0]!r} to remove.")
    tags = tuple(tag for tag in dict.fromkeys((*had, *args.tags)) if tag not in args.remove)
    if tags != had:
        view.relabel(replace(view.labels, tags=tags))
    if args.json:
        say_json(view.info)
    else:
        for tag in tags:
            say(one_line(tag))
    return 0
