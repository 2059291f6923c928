"""``epochal demo``: train a small model, shown live in the browser and recorded as any run is."""

from __future__ import annotations

import os
import shlex
import sys
import webbrowser

import click

from epochal.api.monitor import Monitor
from epochal.base.invocation import invocation
from epochal.cli.command import data_command, local_store, runs_dir, shared
from epochal.cli.doctor import print_diagnosis
from epochal.cli.output import form, remark, say_json
from epochal.journal.layout import RunFolder, read_json
from epochal.run.console.messages import Verbosity
from epochal.run.run import Run, recorder_of
from epochal.settings import is_ci

_ARCHIVE = "archive.html"
_INTRODUCTION = """\
This trains a small language model for {time} and records it, as `epochal.init` and `run.log` would
in your script. A piece of its data is damaged on purpose, so that there is something to find.
"""
# Commands for a newcomer, and what each of them gives.
_NEXT = {
    "doctor {run}": "the diagnosis above: what is wrong, and what to try",
    "show {run}": "its status, configuration and metrics",
    "serve": "every run in the browser, at any time",
}


@data_command
@click.option("--fast", is_flag=True, help="Train for a few seconds only.")
@click.option("--open", "opens", is_flag=True, help="Open the live page in a browser.")
@click.option("--seed", type=click.IntRange(0), default=0, help="Seed of text and weights.")
def command(fast: bool, opens: bool, seed: int) -> None:
    """Train a small model, live in the browser, and tell what to try next."""
    from epochal.demo.training import FAST, WATCHED, train

    remark(_INTRODUCTION.format(time="a few seconds" if fast else "about half a minute"))
    address: str | None = None
    started: Run | None = None

    def start(monitor: Monitor) -> None:
        nonlocal address, started
        started = monitor.run
        if form() == "text" and not is_ci():
            address = monitor.serve()
        if address is not None and opens and not webbrowser.open(address):
            remark("Cannot open a browser.")
        monitor.save_html(monitor.run.dir / _ARCHIVE)

    try:
        run = train(
            FAST if fast else WATCHED,
            seed=seed,
            directory=runs_dir(),
            verbosity=Verbosity.QUIET if form() == "json" else None,
            on_start=start,
        )
    except KeyboardInterrupt:
        if started is not None and recorder_of(started).is_recorded:
            remark("\nYou stopped the demo. What it recorded until then is kept.")
            remark(_what_next(RunFolder(started.dir)))
        raise
    if not recorder_of(run).is_recorded:
        remark("Nothing was recorded, because EPOCHAL_MODE is off.")
        return
    folder = RunFolder(run.dir)
    if form() == "json":
        identity = read_json(folder.identity)
        names = {key: identity[key] for key in ("id", "name", "project")}
        say_json({**names, "folder": str(folder.path)})
        return
    remark(f"\nWhat `{invocation()} doctor` found:\n")
    with local_store() as store:
        view = store.run(run.id)
        print_diagnosis(view, view.diagnosis(most=None))
    remark(_what_next(folder))
    if address is not None and sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty():
        remark(f"\nThe live page stays open at {address}\nPress Enter to end.")
        try:
            sys.stdin.readline()
        except KeyboardInterrupt:
            remark("")


def _what_next(folder: RunFolder) -> str:
    """Commands that work as they are printed, where this one was started."""
    identity = read_json(folder.identity)
    name = f"{identity['project']}/{identity['name']}"
    place = f" --dir {shlex.quote(shared().dir or '')}" if shared().dir else ""
    lines = {
        f"{invocation()} {words.format(run=shlex.quote(name))}{place}": gives
        for words, gives in _NEXT.items()
    }
    if (folder.path / _ARCHIVE).exists():
        lines[os.path.relpath(folder.path / _ARCHIVE)] = "the page, in one file to share"
    width = max(map(len, lines))
    shown = [f"  {line:<{width}}   {gives}" for line, gives in lines.items()]
    return "\n".join(["", "Next:", *shown])
