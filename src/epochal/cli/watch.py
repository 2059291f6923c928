"""``epochal watch``: runs live in the terminal, without a browser."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from epochal.cli.command import add_hub_reading, follows_links, rules_now, store_of
from epochal.cli.output import say_lines
from epochal.store.lookup import is_address

if TYPE_CHECKING:
    from epochal.store.local.store import LocalStore
    from epochal.store.remote.store import RemoteStore
    from epochal.tui.state import AppState

_PLAIN_COLUMNS = 100


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``watch``."""
    parser.add_argument(
        "what",
        metavar="RUN|DIR",
        nargs="?",
        help="a run (id, name, project/name, folder), a folder of runs or a file of another"
        " tracker (default: the folder of --dir)",
    )
    parser.add_argument(
        "-c",
        "--compare",
        metavar="RUN",
        action="append",
        default=[],
        help="compare with this run; may be repeated",
    )
    parser.add_argument(
        "--once", action="store_true", help="print the state once and exit (as in a pipe)"
    )
    add_hub_reading(parser)


def run(args: argparse.Namespace) -> int:
    """Watch until ``q``; without a terminal, print once."""
    from epochal.tui.state import AppState

    store, key = _opened(args)
    with store:
        chosen = None if key is None else store.run(key)
        state = AppState(store, chosen=chosen, compared=[store.run(one) for one in args.compare])
        # Keys come from stdin, what is shown on the screen goes through stderr.
        streams = (sys.stdin, sys.stdout, sys.stderr)
        if args.once or not all(stream.isatty() for stream in streams):
            return _print_once(state)
        return _watch(state)


def _opened(args: argparse.Namespace) -> tuple[LocalStore | RemoteStore, str | None]:
    """The runs that are meant, and the one among them that was named."""
    from epochal.store.local.store import open_store

    if is_address(args.what):
        args.hub, args.what = args.what, None
    if args.hub is not None:
        from epochal.store.remote.store import hub_address, open_remote

        return open_remote(hub_address(args.hub), rules=rules_now()), args.what
    if args.what is None:
        return store_of(args), None
    path = Path(args.what).expanduser()
    if not path.exists():
        return store_of(args), args.what
    return open_store(path, follow_links=follows_links(args), rules=rules_now()), None


def _print_once(state: AppState) -> int:
    from epochal.tui.once import print_once

    columns, now = shutil.get_terminal_size((_PLAIN_COLUMNS, 0)).columns, time.time()
    is_ascii = not _has_unicode(sys.stdout.encoding)
    say_lines(print_once(state, columns=columns, now=now, is_ascii=is_ascii))
    return 0 if state.run is not None else 1


def _has_unicode(encoding: str | None) -> bool:
    try:
        return bool("⣿".encode(encoding or "ascii"))
    except (LookupError, UnicodeEncodeError):
        return False


def _watch(state: AppState) -> int:
    from epochal.tui.app import WatchApp

    # An exported size would go before that of the terminal, and never change with it.
    for name in ("COLUMNS", "LINES"):
        os.environ.pop(name, None)
    app = WatchApp(state)
    # Without mouse support the terminal's own selection of text keeps working.
    app.run(mouse=False)
    if app.problem is not None:
        raise app.problem
    return app.return_code or 0
