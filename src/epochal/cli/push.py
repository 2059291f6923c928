"""``epochal push``: send runs to a hub, from where it stopped; with --watch, as they grow."""

from __future__ import annotations

import argparse
import contextlib
import time

from epochal.cli.command import add_run, check_own, runs_of
from epochal.cli.output import complain, one_line, remark, say
from epochal.errors import UsageError
from epochal.journal.layout import RunFolder
from epochal.settings import read_settings
from epochal.shipping.client import HubClient, HubError
from epochal.shipping.credentials import hub_token
from epochal.shipping.worker import ship_now

_LOOK_EVERY_S = 2.0


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``push``."""
    add_run(parser, several=True)
    add_hub(parser, "--to")
    parser.add_argument(
        "--watch", action="store_true", help="go on sending what is written, until Ctrl-C"
    )


def add_hub(parser: argparse.ArgumentParser, option: str) -> None:
    """Add the option that names a hub."""
    parser.add_argument(
        option, metavar="URL", dest="hub", help="address of the hub (default: the setting hub.url)"
    )


def client_of(args: argparse.Namespace) -> HubClient:
    """A connection to the hub that is meant."""
    settings = read_settings()
    url = args.hub or settings.hub
    if url is None:
        raise UsageError("no hub is known: give its address, or set EPOCHAL_HUB.")
    return HubClient(url, hub_token(settings))


def run(args: argparse.Namespace) -> int:
    """Send each run; 1 when one could not be sent."""
    with contextlib.closing(client_of(args)) as client:
        while True:
            num_failed = _push_all(args, client)
            if not args.watch:
                return 1 if num_failed else 0
            time.sleep(_LOOK_EVERY_S)


def _push_all(args: argparse.Namespace, client: HubClient) -> int:
    num_failed = 0
    for view in runs_of(args):
        check_own(view)
        name, rate = view.brief().name, read_settings().hub_bytes_per_s
        try:
            num_lines = ship_now(RunFolder(view.path), client, bytes_per_s=rate)
        except HubError as error:
            complain(f"epochal: {one_line(name)}: {error}")
            num_failed += 1
            continue
        if num_lines or not args.watch:
            say(f"{one_line(name)}: {num_lines:,} records sent", flush=True)
    if args.watch and num_failed:
        remark("What could not be sent is tried again.")
    return num_failed
