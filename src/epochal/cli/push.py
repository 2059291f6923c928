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
from epochal.shipping.client import HubClient, HubError, check_url, hub_token, linked_token
from epochal.shipping.worker import Shipped, ship_now
from epochal.store.local.trash import is_live

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
    return HubClient(check_url(url), linked_token(url) or hub_token(settings))


def run(args: argparse.Namespace) -> int:
    """Send each run; 1 when one could not be sent."""
    removed: set[str] = set()
    with contextlib.closing(client_of(args)) as client:
        while True:
            num_failed = _push_all(args, client, removed)
            if not args.watch:
                return 1 if num_failed else 0
            time.sleep(_LOOK_EVERY_S)


def _push_all(args: argparse.Namespace, client: HubClient, removed: set[str]) -> int:
    """Send what there is; ``removed`` are runs that were deleted on the hub, and stay so."""
    num_failed = 0
    for view in runs_of(args):
        check_own(view)
        # Nobody asked for this run in particular; one that is being written comes back.
        is_removable = args.watch and not is_live(view.info)
        if is_removable and view.id in removed:
            continue
        name, rate = view.outline().name, read_settings().hub_bytes_per_s
        try:
            shipped = ship_now(
                RunFolder(view.path),
                client,
                bytes_per_s=rate,
                unless_removed=is_removable,
                compare_files=not args.watch,  # each file was compared when it was sent
            )
        except HubError as error:
            complain(f"epochal: {one_line(name)}: {error}")
            if error.status == 410:
                removed.add(view.id)
            else:
                num_failed += 1
            continue
        if any(shipped) or not args.watch:
            say(f"{one_line(name)}: {_sent(shipped)}; the hub has everything.", flush=True)
    if args.watch and num_failed:
        remark("What could not be sent is tried again.")
    return num_failed


def _sent(shipped: Shipped) -> str:
    counts = ((shipped.lines, "record"), (shipped.files, "file"))
    words = [f"{count:,} {noun}{'' if count == 1 else 's'}" for count, noun in counts if count]
    return f"{' and '.join(words)} sent" if words else "nothing to send"
