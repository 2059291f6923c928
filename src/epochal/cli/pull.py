"""``epochal pull``: fetch runs from a hub into a folder of this machine."""

from __future__ import annotations

import argparse
import contextlib
from urllib.parse import urlencode

from epochal.cli.command import runs_dir
from epochal.cli.output import one_line, say
from epochal.cli.push import add_hub, client_of
from epochal.errors import RunNotFoundError, UsageError
from epochal.shipping.client import HubClient
from epochal.shipping.fetching import fetch_run

_PAGE = 1000


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``pull``."""
    parser.add_argument(
        "runs", metavar="RUN", nargs="+", help="id, name or project/name of a run on the hub"
    )
    add_hub(parser, "--from")


def run(args: argparse.Namespace) -> int:
    """Fetch each run into ``--dir``; what is there already is not fetched again."""
    with contextlib.closing(client_of(args)) as client:
        for key in args.runs:
            folder = fetch_run(client, id_on_hub(client, key), runs_dir(args))
            say(f"{one_line(key)}: {folder.path}", flush=True)
    return 0


def id_on_hub(client: HubClient, key: str) -> str:
    """The id of the run that a key names on the hub."""
    found, offset = [], 0
    while True:
        answer = client.get_json(f"/api/runs?{urlencode({'limit': _PAGE, 'offset': offset})}")
        rows = answer["rows"]
        for row in rows:
            if row["id"] == key:
                return key
            if key in (row["name"], f"{row['project']}/{row['name']}"):
                found.append(row["id"])
        offset += len(rows)
        if not rows or offset >= answer["total"]:
            break
    if not found:
        raise RunNotFoundError(f"there is no run {key!r} on {client.url}.")
    if len(found) > 1:
        raise UsageError(f"{key!r} names {len(found)} runs on {client.url}: give an id.")
    return str(found[0])
