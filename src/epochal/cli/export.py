"""``epochal export``: runs as files for other programs and for people."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO, cast

from epochal.cli.command import add_json, add_run, store_of
from epochal.cli.output import VisibleStream, remark, say_json
from epochal.errors import UsageError
from epochal.exports.export import FORMATS, PICTURES, export_named, new_file, picture_named
from epochal.store.store import RunView

_TABLE = "csv"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``export``."""
    add_run(parser, several=True)
    parser.add_argument(
        "--format",
        choices=[*FORMATS, *PICTURES],
        help="which format (default: what FILE ends in, else csv): csv and log are tables, plain"
        " is 'step kind value', json and jsonl every record, html the page with everything in one"
        " file, svg and png a picture of the loss",
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="where to (default: stdout)")
    parser.add_argument(
        "--rows",
        choices=["epoch", "step"],
        help="rows of csv, log and plain (default: epochs where a run has any, else steps;"
        " plain the other way round)",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Write the runs to the output; a file appears when it is complete."""
    store = store_of(args)
    runs = [store.run(key) for key in args.runs]
    name = args.format or _format_of(args.output)
    if args.output in (None, "-"):
        if name in PICTURES and sys.stdout.isatty():
            raise UsageError(f"{name} is no text for a terminal: name a file with -o.")
        _write(name, runs, _stdout(), args)
        return 0
    with new_file(args.output) as out:
        _write(name, runs, out, args)
    if args.json:
        say_json({"file": args.output, "runs": [view.brief().id for view in runs]})
    else:
        remark(f"{len(runs)} {'run' if len(runs) == 1 else 'runs'} written to {args.output}.")
    return 0


def _stdout() -> TextIO:
    """Exact data for a pipe or a file; a terminal is shown control characters escaped."""
    return cast(TextIO, VisibleStream(sys.stdout)) if sys.stdout.isatty() else sys.stdout


def _write(name: str, runs: Sequence[RunView], out: TextIO, args: argparse.Namespace) -> None:
    if name in PICTURES:
        picture_named(name).write(runs, out.buffer)
    else:
        export_named(name).write(runs, out, rows=args.rows)


def _format_of(output: str | None) -> str:
    """The format that a file's name ends in."""
    ending = Path(output or "").suffix.lower().lstrip(".")
    return ending if ending in FORMATS or ending in PICTURES else _TABLE
