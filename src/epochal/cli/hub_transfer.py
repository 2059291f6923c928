"""``epochal hub push`` and ``hub pull``: copy runs to a hub and from it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from epochal.cli import options
from epochal.cli.command import (
    ERROR,
    check_own,
    cli_command,
    local_store,
    named_runs,
    reading_store,
    runs_dir,
)
from epochal.cli.output import complain, one_line, remark, say
from epochal.errors import UsageError
from epochal.records.format import plural
from epochal.settings import read_settings
from epochal.shipping.client import HubClient, HubError, check_url, hub_token, linked_token
from epochal.shipping.fetching import fetch_run
from epochal.shipping.worker import ship_now
from epochal.store.local.trash import is_live
from epochal.store.remote.catalog import hub_address
from epochal.store.run import RunView

_REFRESH_S = 2.0
_ADDRESS = "Address of the hub (default: the setting hub.url)."


@cli_command
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=options.RUN)
@click.option("--to", "hub", metavar="URL", help=_ADDRESS)
@click.option("--watch", is_flag=True, help="Go on sending what is written, until Ctrl-C.")
def push(runs: tuple[str, ...], hub: str | None, watch: bool) -> int:
    """Send runs to a hub, from where the last push stopped. RUN may be a project.

    The exit code is 2 if a run could not be sent.
    """
    removed: set[str] = set()
    with hub_client(hub) as client:
        while True:
            num_failed = 0
            for view in named_runs(local_store(), runs):
                num_failed += not _push(view, client, removed, watch=watch)
            if not watch:
                return ERROR if num_failed else 0
            if num_failed:
                remark("What could not be sent is tried again.")
            time.sleep(_REFRESH_S)


@contextlib.contextmanager
def hub_client(url: str | None) -> Iterator[HubClient]:
    """A connection to a hub, by default that of the settings."""
    address = hub_address(url or "")
    token = linked_token(address) or hub_token(read_settings())
    client = HubClient(check_url(address), token)
    with contextlib.closing(client):
        yield client


def _push(view: RunView, client: HubClient, removed: set[str], *, watch: bool) -> bool:
    """Send what is new of a run; ``removed`` are runs that were deleted on the hub."""
    # Nobody asked for this run in particular; one that is being written comes back.
    is_removable = watch and not is_live(view.info)
    if is_removable and view.id in removed:
        return True
    name = one_line(view.outline().name)
    try:
        shipped = ship_now(
            check_own(view),
            client,
            bytes_per_s=read_settings().hub_bytes_per_s,
            unless_removed=is_removable,
            compare_files=not watch,  # each file was compared when it was sent
        )
    except HubError as error:
        complain(f"epochal: {name}: {error}")
        if error.status == 410:
            removed.add(view.id)
        return error.status == 410
    counts = ((shipped.lines, "record"), (shipped.files, "file"))
    sent = " and ".join(plural(count, noun) for count, noun in counts if count)
    if sent or not watch:
        sent = f"{sent} sent" if sent else "nothing to send"
        say(f"{name}: {sent}; the hub has everything.", flush=True)
    return True


@cli_command
@click.argument("runs", metavar="RUN...", nargs=-1, required=True)
@click.option("--from", "hub", metavar="URL", help=_ADDRESS)
@click.option("--catalog", metavar="ADDRESS", help="Copy from this database into a folder instead.")
@click.option("--bucket", metavar="ADDRESS", help="The bucket of that database.")
def pull(
    runs: tuple[str, ...], hub: str | None, catalog: str | None, bucket: str | None
) -> int | None:
    """Fetch runs of a hub into the folder of runs, by id, name or project/name.

    What is there already is not fetched again. 'hub pull DIR --catalog … --bucket …' makes a folder
    that 'hub serve DIR' serves, with the trash, tokens, links, boards and the audit log; with runs
    after DIR, it has only these. The exit code is then 1 if something differs.
    """
    if catalog is not None or bucket is not None:
        if catalog is None or bucket is None or hub is not None:
            raise UsageError("--catalog and --bucket belong together, without --from.")
        return _pull_cluster(Path(runs[0]).expanduser(), catalog, bucket, runs[1:])
    with hub_client(hub) as client:
        for key in runs:
            folder = fetch_run(client, id_on_hub(hub, key), runs_dir())
            say(f"{one_line(key)}: {folder.path}", flush=True)
    return None


def _pull_cluster(root: Path, catalog: str, bucket: str, names: Sequence[str]) -> int:
    from epochal.cli.hub_operations import report_copy
    from epochal.hub.copying import cluster_data, copy_hub, folder_data

    root.mkdir(parents=True, exist_ok=True)
    with folder_data(root) as target, cluster_data(catalog, bucket) as source:
        return report_copy(copy_hub(source, target, names=names, tell=remark))


def id_on_hub(hub: str | None, key: str) -> str:
    """The id of the run that a key names on a hub."""
    with reading_store(hub or "") as store:
        return store.run(key).id
