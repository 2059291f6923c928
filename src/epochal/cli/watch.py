"""``epochal watch``: runs live in the terminal, without a browser."""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from epochal.cli import options
from epochal.cli.command import ERROR, cli_command, reading_store, run_of, shared
from epochal.cli.output import say_lines
from epochal.store.lookup import is_address

if TYPE_CHECKING:
    from epochal.cli.tui.state import AppState

_PLAIN_COLUMNS = 100


@cli_command
@click.argument("what", metavar="[RUN|DIR]", required=False, type=options.RUN)
@click.option(
    "-c", "--compare", metavar="RUN", multiple=True, type=options.RUN, help="Draw this run too."
)
@click.option("--once", is_flag=True, help="Print the state once and exit, as in a pipe.")
@options.hub
def command(what: str | None, compare: tuple[str, ...], once: bool) -> int:
    """Follow runs live in the terminal; q quits.

    Name a run, a folder of runs or a file of another tracker.
    """
    from epochal.cli.tui.state import AppState

    hub, key = (what, None) if is_address(what) else (None, what)
    place = key if key is not None and Path(key).expanduser().exists() else None
    with reading_store(hub, place) as store:
        key = None if place is not None and shared().hub is None else key
        chosen = None if key is None else run_of(store, key)
        state = AppState(store, chosen=chosen, compared=[run_of(store, name) for name in compare])
        # Keys come from stdin, what is shown on the screen goes through stderr.
        streams = (sys.stdin, sys.stdout, sys.stderr)
        if once or not all(stream.isatty() for stream in streams):
            return _print_once(state)
        return _watch(state)


def _print_once(state: AppState) -> int:
    from epochal.cli.tui.once import print_once

    columns = shutil.get_terminal_size((_PLAIN_COLUMNS, 0)).columns
    say_lines(print_once(state, columns=columns, now=time.time()))
    return 0 if state.run is not None else ERROR


def _watch(state: AppState) -> int:
    from epochal.cli.tui.app import WatchApp

    # An exported size would go before that of the terminal, and never change with it.
    for name in ("COLUMNS", "LINES"):
        os.environ.pop(name, None)
    app = WatchApp(state)
    # Without mouse support the terminal's own selection of text keeps working.
    app.run(mouse=False)
    if app.problem is not None:
        raise app.problem
    return app.return_code or 0
