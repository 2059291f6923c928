"""``epochal watch``: runs live in the terminal, without a browser."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import click
from rich.text import Text

from epochal.cli import options
from epochal.cli.command import ERROR, cli_command, reading_store, run_of, shared
from epochal.cli.output import say_lines
from epochal.cli.tui.chart import View, curves_of, draw_chart, title
from epochal.cli.tui.state import AppState
from epochal.cli.tui.text import printable, run_line
from epochal.cli.tui.vitals import finding_lines, findings_of, vital_lines, vitals_of
from epochal.store.lookup import is_address
from epochal.store.progress import progress_of

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


_CHART_ROWS, _FINDING_ROWS = 16, 12

# Stretches of text, each in one style.
Pieces = list[tuple[str, str]]


def print_once(state: AppState, *, columns: int, now: float) -> Iterator[Pieces]:
    """The chosen run as it is at the Unix time ``now``, line by line."""
    yield from map(_pieces, _lines(state, columns, now))


def _lines(state: AppState, columns: int, now: float) -> Iterator[Text]:
    run = state.run
    if run is None:
        yield Text("No runs here yet.")
        return
    yield run_line(run.info, progress_of(run, run.info, now=now), columns=columns)
    if state.trouble:
        yield Text(f"  {printable(state.trouble)}", "bad")
    findings = findings_of(run)
    metric, view = state.metric(None), View()
    if metric is not None:
        curves, axis = curves_of(run, metric, view, state.compared)
        yield Text()
        yield title(curves, axis, view, columns)
        flagged = [one.steps[0] for one in findings if one.steps is not None]
        yield from draw_chart(
            curves,
            axis,
            columns=columns,
            rows=_CHART_ROWS,
            flagged=flagged if axis == "step" else (),
        )
    if vitals := vital_lines(vitals_of(run), columns=columns):
        yield Text()
        yield from vitals
    if findings:
        yield Text()
        yield from finding_lines(findings, columns=columns, rows=_FINDING_ROWS)


def _pieces(line: Text) -> Pieces:
    cuts = sorted({0, len(line), *(edge for span in line.spans for edge in (span.start, span.end))})
    base = str(line.style)
    return [
        (
            line.plain[start:end],
            next((str(s.style) for s in line.spans if s.start <= start < s.end), base),
        )
        for start, end in pairwise(cuts)
    ]
