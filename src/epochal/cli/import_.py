"""``epochal import``: runs of other trackers, copied into run folders."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial

from epochal.cli.command import add_json, follows_links, runs_dir
from epochal.cli.output import complain, remark, say, say_json
from epochal.errors import FormatError, InternalError, UsageError
from epochal.guard import Guard
from epochal.imports.copying import Copied, copy_run
from epochal.imports.foreign import Source, SourceRun
from epochal.imports.http_api import ServerError
from epochal.imports.registry import open_source


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``import``."""
    parser.add_argument(
        "sources",
        metavar="SOURCE",
        nargs="+",
        help="TensorBoard or W&B folder, mlflow.db or http://… of an MLflow server, Aim repository,"
        " Trackio .db, training.json, .csv or .jsonl",
    )
    parser.add_argument("--project", help="project of the runs (default: from the source)")
    parser.add_argument("--name", help="name of the run, if the source has only one")
    parser.add_argument("-n", "--dry-run", action="store_true", help="list the runs, copy nothing")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Copy every run of every source; 1 when a file is damaged."""
    found = [(source, run) for path in args.sources for source, run in _runs_in(path, args)]
    if args.name is not None and len(found) != 1:
        raise UsageError(f"--name names one run, and there are {len(found)}: leave it out.")
    if args.dry_run:
        return _list(found, as_json=args.json)
    root, guard, damaged, copies = runs_dir(args), Guard(), False, list[Copied]()
    for source, run in found:
        copy = partial(copy_run, source, run, root=root, project=args.project, name=args.name)
        try:
            copied = guard.explained(f"importer {source.label}", copy)
        except (
            FormatError,
            InternalError,
            ServerError,
        ) as error:  # the other runs are not affected
            complain(f"epochal: {run.path}: {error}")
            damaged = True
            continue
        copies.append(copied)
        damaged |= bool(copied.problems)
        for problem in copied.problems:
            complain(f"epochal: {problem}")
        if not args.json:
            remark(_line(copied))
    if args.json:
        say_json([{**_row(copied), "folder": str(copied.folder)} for copied in copies])
    return int(damaged)


def _runs_in(path: str, args: argparse.Namespace) -> Sequence[tuple[Source, SourceRun]]:
    source = open_source(path, follow_links=follows_links(args))
    if source is None:
        raise UsageError(f"{path} has no runs of another tracker to import.")
    return [(source, run) for run in source.runs()]


def _list(found: Sequence[tuple[Source, SourceRun]], *, as_json: bool) -> int:
    rows = [
        {
            "id": run.identity.id,
            "project": run.identity.project,
            "name": run.identity.name,
            "format": source.label,
        }
        for source, run in found
    ]
    if as_json:
        say_json(rows)
    else:
        for row in rows:
            say(f"{row['project']}/{row['name']}  {row['format']}")
    return 0


def _row(copied: Copied) -> dict[str, object]:
    return {
        "id": copied.id,
        "project": copied.project,
        "name": copied.name,
        "outcome": copied.outcome,
        "records": copied.records,
        "problems": copied.problems,
    }


def _line(copied: Copied) -> str:
    label = f"{copied.project}/{copied.name}"
    if copied.outcome == "unchanged":
        return f"{label}: nothing new since it was imported"
    again = " again" if copied.outcome == "updated" else ""
    return f"{label}: {copied.records} records imported{again}, in {copied.folder}"
