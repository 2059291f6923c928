"""``epochal hub doctor``, ``migrate``, ``upgrade`` and ``rebuild``: what operators of hubs run."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

import click

from epochal.cli.command import ERROR, FINDINGS, cli_command, data_command
from epochal.cli.output import complain, remark, said_json, say, table
from epochal.errors import UsageError
from epochal.records.format import plural

if TYPE_CHECKING:
    from epochal.hub.copying import Copied

_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
_catalog = click.option(
    "--catalog", metavar="ADDRESS", required=True, help="The PostgreSQL database."
)
_bucket = click.option(
    "--bucket", metavar="ADDRESS", required=True, help="The bucket with the runs."
)


@data_command
@click.argument("folder", metavar="[DIR]", required=False, type=_FOLDER)
@click.option("--catalog", metavar="ADDRESS", help="The PostgreSQL database of several hubs.")
@click.option("--bucket", metavar="ADDRESS", help="The bucket with their runs.")
def doctor(folder: Path | None, catalog: str | None, bucket: str | None) -> int:
    """Check what a hub needs: its folder, or its database and bucket; changes nothing.

    An object is written to the bucket and deleted again. The exit code is 1 if there is an error;
    warnings leave it at 0.
    """
    from epochal.hub.doctor import check_cluster, check_folder

    if folder is not None and catalog is None and bucket is None:
        checks = check_folder(folder)
    elif folder is None and catalog is not None and bucket is not None:
        checks = check_cluster(catalog, bucket)
    else:
        raise UsageError("name the folder DIR of a hub, or --catalog and --bucket.")
    if not said_json(checks):
        rows = [(check.level, check.name, check.text) for check in checks]
        say(table(("RESULT", "CHECK", ""), rows))
    return FINDINGS if any(check.level == "error" for check in checks) else 0


@cli_command
@click.argument("folder", metavar="DIR", type=_FOLDER)
@_catalog
@_bucket
def migrate(folder: Path, catalog: str, bucket: str) -> int:
    """Copy all that the hub in the folder DIR keeps into a database and a bucket.

    Stop the hub over DIR first; nothing in it is changed. Runs, the trash, labels, files, tokens,
    links, boards and the audit log are copied, and compared afterwards. If this is interrupted, run
    it again. The exit code is 1 if something differs.
    """
    from epochal.hub.copying import cluster_data, copy_hub, folder_data

    with folder_data(folder) as source, cluster_data(catalog, bucket) as target:
        return report_copy(copy_hub(source, target, tell=remark))


def report_copy(copied: Copied) -> int:
    """Print what was copied, and what differs; the exit code."""
    for problem in copied.problems:
        complain(f"epochal: {problem}")
    say(
        f"{plural(copied.num_runs, 'run')} with {plural(copied.num_records, 'record')} and"
        f" {plural(copied.num_files, 'file')}, and {plural(copied.num_documents, 'document')}"
        " (tokens, links, boards, log), were read back and are the same on both sides."
    )
    if copied.num_trashed:
        say(f"The trash has had {plural(copied.num_trashed, 'run')} already.")
    return FINDINGS if copied.problems else 0


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
