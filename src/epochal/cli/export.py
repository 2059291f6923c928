"""``epochal export``: runs as files for other programs and for people."""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TextIO, cast

from epochal.atomic_file import new_text_file
from epochal.cli.command import (
    WHOLE_PROJECTS,
    add_hub_reading,
    add_json,
    add_run,
    named_runs,
    reading_store,
)
from epochal.cli.output import VisibleStream, remark, say_json
from epochal.errors import UsageError
from epochal.exports.export import BINARY, FORMATS, export_named
from epochal.guard import Guard
from epochal.journal.layout import slugify
from epochal.store.store import RunView

_TABLE = "csv"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``export``."""
    add_run(parser, several=True, more=WHOLE_PROJECTS)
    parser.add_argument(
        "--format",
        choices=[*FORMATS, *BINARY],
        help="format (default: by the suffix of FILE, else csv): csv and parquet are tables, jsonl"
        " has every record, html is the page in one file",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="output file (default: stdout); in a folder, one file for each run",
    )
    parser.add_argument(
        "--rows",
        choices=["epoch", "step"],
        help="rows of csv and parquet (default: epochs if a run has any, else steps)",
    )
    add_hub_reading(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Write the runs to the output; a file appears when it is complete."""
    with reading_store(args) as store:
        return _export(named_runs(store, args), args)


def _export(runs: Sequence[RunView], args: argparse.Namespace) -> int:
    name = args.format or _format_of(args.output)
    if args.output is not None and Path(args.output).is_dir():
        return _write_each(name, runs, Path(args.output), args)
    if args.output in (None, "-"):
        if name in BINARY and sys.stdout.isatty():
            raise UsageError(f"{name} cannot be printed on a terminal: name a file with -o.")
        _write(name, runs, _stdout(), args)
        return 0
    with new_text_file(args.output) as out:
        _write(name, runs, out, args)
    if args.json:
        say_json({"file": args.output, "runs": [view.outline().id for view in runs]})
    else:
        remark(f"{len(runs)} {'run' if len(runs) == 1 else 'runs'} written to {args.output}.")
    return 0


def _write_each(name: str, runs: Sequence[RunView], folder: Path, args: argparse.Namespace) -> int:
    """Write a file for each run into a folder."""
    files: dict[str, str] = {}
    for view in runs:
        info = view.outline()
        stem = slugify(f"{info.project}-{info.name}")
        number = next(n for n in itertools.count(1) if _numbered(stem, n, name) not in files)
        file = _numbered(stem, number, name)
        with new_text_file(folder / file) as out:
            _write(name, [view], out, args)
        files[file] = info.id
    if args.json:
        say_json([{"file": str(folder / file), "run": run_id} for file, run_id in files.items()])
    else:
        remark(f"{len(files)} {'file' if len(files) == 1 else 'files'} written to {folder}.")
    return 0


def _numbered(stem: str, number: int, ending: str) -> str:
    return f"{stem}.{ending}" if number == 1 else f"{stem}-{number}.{ending}"


def _stdout() -> TextIO:
    """Exact data for a pipe or a file; a terminal is shown control characters escaped."""
    return cast(TextIO, VisibleStream(sys.stdout)) if sys.stdout.isatty() else sys.stdout


def _write(name: str, runs: Sequence[RunView], out: TextIO, args: argparse.Namespace) -> None:
    file = out.buffer if name in BINARY else out
    write = partial(export_named(name).write, runs, file, rows=args.rows)
    Guard().explained(f"exporter {name}", write)


def _format_of(output: str | None) -> str:
    """The format that a file's name ends in."""
    ending = Path(output or "").suffix.lower().lstrip(".")
    return ending if ending in FORMATS or ending in BINARY else _TABLE
