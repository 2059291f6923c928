"""``epochal import``: copy runs of other trackers into run folders."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial

import click

from epochal.base.guard import Guard
from epochal.base.http import HttpError
from epochal.cli.command import ERROR, data_command, runs_dir, shared
from epochal.cli.output import complain, remark, said_json, say
from epochal.errors import FormatError, InternalError, UsageError
from epochal.exchange.imports.copying import Copied, copy_run
from epochal.exchange.imports.foreign import Source, SourceRun
from epochal.exchange.imports.registry import open_source


@data_command
@click.argument("sources", metavar="SOURCE...", nargs=-1, required=True)
@click.option("--project", help="Project of the runs (default: from the source).")
@click.option("--name", help="Name of the run, if the source has only one.")
@click.option("-n", "--dry-run", is_flag=True, help="List the runs, copy nothing.")
def command(sources: tuple[str, ...], project: str | None, name: str | None, dry_run: bool) -> int:
    """Copy runs of other trackers into the folder of runs.

    SOURCE is a TensorBoard or W&B folder, an mlflow.db or the http://… of an MLflow server, an Aim
    repository, a Trackio .db, a training.json, .csv or .jsonl. The exit code is 2 if a file is
    damaged.
    """
    found = [(source, run) for path in sources for source, run in _runs_in(path)]
    if name is not None and len(found) != 1:
        raise UsageError(f"--name names one run, and there are {len(found)}: leave it out.")
    if dry_run:
        _list(found)
        return 0
    root, guard, num_damaged, copies = runs_dir(), Guard(), 0, list[Copied]()
    for source, run in found:
        copy = partial(copy_run, source, run, root=root, project=project, name=name)
        try:
            copied = guard.explained(f"importer {source.label}", copy)
        except (FormatError, InternalError, HttpError) as error:  # other runs are not affected
            complain(f"epochal: {run.path}: {error}")
            num_damaged += 1
            continue
        copies.append(copied)
        num_damaged += len(copied.problems)
        for problem in copied.problems:
            complain(f"epochal: {problem}")
        remark(_line(copied))
    said_json([{**asdict(copied), "folder": str(copied.folder)} for copied in copies])
    return ERROR if num_damaged else 0


def _runs_in(path: str) -> list[tuple[Source, SourceRun]]:
    source = open_source(path, follow_links=shared().follow_links)
    if source is None:
        raise UsageError(f"{path} has no runs of another tracker to import.")
    return [(source, run) for run in source.runs()]


def _list(found: list[tuple[Source, SourceRun]]) -> None:
    rows = [
        {name: getattr(run.identity, name) for name in ("id", "project", "name")}
        | {"format": source.label}
        for source, run in found
    ]
    for row in () if said_json(rows) else rows:
        say(f"{row['project']}/{row['name']}  {row['format']}")


def _line(copied: Copied) -> str:
    label = f"{copied.project}/{copied.name}"
    if copied.outcome == "unchanged":
        return f"{label}: nothing new since it was imported"
    again = " again" if copied.outcome == "updated" else ""
    return f"{label}: {copied.records} records imported{again}, in {copied.folder}"
