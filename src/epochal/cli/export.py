"""``epochal export``: runs as files for other programs and for people."""

from __future__ import annotations

import argparse
import sys

from epochal.cli.command import add_json, add_run, print_json, store_of
from epochal.console.verbosity import msg
from epochal.exports.export import FORMATS, export_named, new_file


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``export``."""
    add_run(parser, several=True)
    parser.add_argument(
        "--format", choices=list(FORMATS), default="csv", help="which format (default: csv)"
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="where to (default: stdout)")
    parser.add_argument(
        "--rows",
        choices=["epoch", "step"],
        help="rows of csv and log (default: epochs where a run has any, else steps)",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Write the runs to the output; a file appears when it is complete."""
    store = store_of(args)
    runs = [store.run(key) for key in args.runs]
    export = export_named(args.format)
    if args.output in (None, "-"):
        export.write(runs, sys.stdout, rows=args.rows)
        return 0
    with new_file(args.output) as out:
        export.write(runs, out, rows=args.rows)
    if args.json:
        print_json({"file": args.output, "runs": [view.brief().id for view in runs]})
    else:
        msg("%s", f"{len(runs)} {'run' if len(runs) == 1 else 'runs'} written to {args.output}.")
    return 0
