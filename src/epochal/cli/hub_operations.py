"""``epochal hub upgrade`` and ``rebuild``: what operators of several hubs run."""

from __future__ import annotations

import contextlib
from pathlib import Path

import click

from epochal.cli.command import ERROR, cli_command
from epochal.cli.output import complain, remark, say
from epochal.records.format import plural

_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
_catalog = click.option(
    "--catalog", metavar="ADDRESS", required=True, help="The PostgreSQL database."
)
_bucket = click.option(
    "--bucket", metavar="ADDRESS", required=True, help="The bucket with the runs."
)


@cli_command
@_catalog
def upgrade(catalog: str) -> None:
    """Bring the tables of a database to the version that this program needs.

    Stop the hubs and make a backup first. It may be run twice, and by two people at once.
    """
    from epochal.store.cluster.database import Database
    from epochal.store.cluster.schema import VERSION

    with contextlib.closing(Database(catalog)) as database:
        for version in database.upgrade():
            remark(f"The tables have the version {version} now.")
        say(f"The tables of {database.address} have the version {VERSION}, which is the newest.")


@cli_command
@_catalog
@_bucket
@click.option("--add", "adds", is_flag=True, help="Add what a database with runs lacks.")
@click.option(
    "--leave-out", "leaves_out", is_flag=True, help="Go on without runs that cannot be read."
)
def rebuild(catalog: str, bucket: str, adds: bool, leaves_out: bool) -> int:
    """Make the database of several hubs anew from their bucket, when it was lost.

    Stop the hubs first. After a restore of an older backup of the database, run this with --add
    before any hub starts: runs that are missing are added, and the others get what the bucket has
    more. The exit code is 2 if a run could not be read.
    """
    from epochal.hub.opening import open_cluster
    from epochal.store.cluster.rebuilding import NOT_IN_BUCKET
    from epochal.store.cluster.rebuilding import rebuild as rebuild_catalog

    with open_cluster(catalog, bucket) as runs:
        done = rebuild_catalog(runs, adds=adds, leaves_out=leaves_out, tell=remark)
    for problem in done.problems:
        complain(f"epochal: {problem}")
    renewed = f", {done.num_renewed:,} renewed" if done.num_renewed else ""
    known = f", and {done.num_known:,} were there already" if done.num_known else ""
    say(f"{plural(done.num_added, 'run')} added{renewed}{known}.")
    remark(NOT_IN_BUCKET)
    return ERROR if done.problems else 0
