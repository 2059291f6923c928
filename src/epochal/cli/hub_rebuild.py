"""``epochal hub rebuild``: makes the catalog of hubs anew from their bucket."""

from __future__ import annotations

import click

from epochal.cli.command import ERROR, cli_command
from epochal.cli.output import complain, remark, say
from epochal.records.format import plural


@cli_command
@click.option("--catalog", metavar="ADDRESS", required=True, help="The PostgreSQL database.")
@click.option("--bucket", metavar="ADDRESS", required=True, help="The bucket with the runs.")
@click.option("--add", "adds", is_flag=True, help="Add missing runs to a database that has some.")
@click.option(
    "--leave-out", "leaves_out", is_flag=True, help="Go on without runs that cannot be read."
)
def rebuild(catalog: str, bucket: str, adds: bool, leaves_out: bool) -> int:
    """Make the database of several hubs anew from their bucket, when it was lost.

    Stop the hubs first. After a restore of an older backup of the database, run this with --add
    before any hub starts. The exit code is 2 if a run could not be read.
    """
    from epochal.hub.opening import open_cluster
    from epochal.store.cluster.rebuilding import NOT_IN_BUCKET
    from epochal.store.cluster.rebuilding import rebuild as rebuild_catalog

    with open_cluster(catalog, bucket) as runs:
        done = rebuild_catalog(runs, adds=adds, leaves_out=leaves_out, tell=remark)
    for problem in done.problems:
        complain(f"epochal: {problem}")
    known = f", and {done.num_known:,} were there already" if done.num_known else ""
    say(f"{plural(done.num_added, 'run')} added{known}.")
    remark(NOT_IN_BUCKET)
    return ERROR if done.problems else 0
