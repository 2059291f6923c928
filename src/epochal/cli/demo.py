"""``epochal demo``: train a small model, shown live in the browser and recorded as any run is."""

from __future__ import annotations

import argparse
import shlex
import sys
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

from epochal.cli.command import add_json, runs_dir
from epochal.cli.output import remark, say_json
from epochal.console.messages import Verbosity
from epochal.errors import UsageError
from epochal.invocation import invocation
from epochal.journal.layout import RunFolder, read_json
from epochal.run.run import recorder_of
from epochal.settings import is_ci

if TYPE_CHECKING:
    from epochal.monitor import Monitor

_ARCHIVE = "archive.html"
# A command, its arguments after the run (None: it takes no run), and what it gives.
_NEXT = (
    ("doctor", "", "what is wrong with it, and what to try"),
    ("show", "", "its status, configuration and metrics"),
    ("tail", "", "its latest records, as they are on disk"),
    ("export", " --output demo.csv", "its epochs as a table"),
    ("serve", None, "every run in the browser, at any time"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``demo``."""
    parser.add_argument("--fast", action="store_true", help="train for a few seconds only")
    parser.add_argument("--open", action="store_true", help="open the live page in a browser")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of text and weights")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Train with the page open, say what can be done next, keep the page up on a terminal."""
    if args.seed < 0:
        raise UsageError(f"--seed {args.seed} must be 0 or more.")
    page = _Page(args)
    folder = _train(args, page)
    if folder is None:
        remark("Nothing was recorded, because EPOCHAL_MODE is off.")
        return 0
    identity = read_json(folder.identity)
    if args.json:
        names = {key: identity[key] for key in ("id", "name", "project")}
        say_json({**names, "folder": str(folder.path)})
        return 0
    remark(_what_next(args, folder, name=f"{identity['project']}/{identity['name']}"))
    page.keep_up()
    return 0


class _Page:
    """The live page beside the training; none for programs and in continuous integration."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._is_wanted = not args.json and not is_ci()
        self._is_opened = args.open
        self._address: str | None = None

    def start(self, monitor: Monitor) -> None:
        """Serve the run before the first step; print its address first."""
        if not self._is_wanted:
            return
        self._address = monitor.serve()
        if self._address is not None and self._is_opened and not webbrowser.open(self._address):
            remark("Cannot open a browser.")

    def keep_up(self) -> None:
        """On a terminal, wait for Enter or Ctrl-C; the page ends a minute after this process."""
        has_person = sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
        if self._address is None or not has_person:
            return
        remark(f"\nThe page stays at {self._address}\nPress Enter to end.")
        try:
            sys.stdin.readline()
        except KeyboardInterrupt:
            remark("")


def _train(args: argparse.Namespace, page: _Page) -> RunFolder | None:
    from epochal.recipes.demo.training import FAST, WATCHED, train

    def start(monitor: Monitor) -> None:
        page.start(monitor)
        monitor.save_html(monitor.run.dir / _ARCHIVE)

    trained = train(
        FAST if args.fast else WATCHED,
        seed=args.seed,
        directory=runs_dir(args),
        verbosity=Verbosity.QUIET if args.json else None,
        on_start=start,
    )
    return RunFolder(trained.dir) if recorder_of(trained).is_recorded else None


def _what_next(args: argparse.Namespace, folder: RunFolder, *, name: str) -> str:
    """Commands that work as they are printed, where this one was started."""
    given = getattr(args, "dir", None)
    place = f" --dir {shlex.quote(str(given))}" if given else ""
    program = invocation()
    lines = []
    for command, more, gives in _NEXT:
        what = "" if more is None else f" {shlex.quote(name)}{more}"
        lines.append((f"{program} {command}{place}{what}", gives))
    archive = folder.path / _ARCHIVE
    if archive.exists():
        lines.append((_shown(archive), "the page with all of it, in one file to share"))
    width = max(len(line) for line, _ in lines)
    return "\n".join(["", "Next:", *(f"  {line:<{width}}   {gives}" for line, gives in lines)])


def _shown(path: Path) -> str:
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
