"""``epochal demo``: train a small model, recorded and shown as any training is."""

from __future__ import annotations

import argparse
import shlex

from epochal.cli.command import add_json, runs_dir
from epochal.cli.main import COMMANDS
from epochal.cli.output import remark, say_json
from epochal.console.verbosity import Verbosity
from epochal.errors import UsageError
from epochal.journal.layout import RunFolder, read_json

# A command, its arguments after the run, and what it gives; told only where the command exists.
_NEXT = (
    ("serve", None, "the run in the browser"),
    ("show", "", "its status, configuration and metrics"),
    ("tail", "", "its latest records, as they are on disk"),
    ("export", " --output demo.csv", "its epochs as a table"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``demo``."""
    parser.add_argument("--fast", action="store_true", help="train for a moment only, to try it")
    parser.add_argument(
        "--all-kinds",
        action="store_true",
        help="instead of training, write a made-up run that holds every kind of record",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of text and weights")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Write the run and say what can be done with it."""
    if args.seed < 0:
        raise UsageError(f"--seed {args.seed} must be 0 or more.")
    folder = _make_up(args) if args.all_kinds else _train(args)
    if folder is None:
        remark("Nothing was recorded, because EPOCHAL_MODE is off.")
        return 0
    identity = read_json(folder.identity)
    if args.json:
        say_json(
            {
                **{key: identity[key] for key in ("id", "name", "project")},
                "folder": str(folder.path),
            }
        )
    else:
        remark(_what_next(args, name=f"{identity['project']}/{identity['name']}"))
    return 0


def _train(args: argparse.Namespace) -> RunFolder | None:
    from epochal.recipes.demo.training import FAST, WATCHED, train

    trained = train(
        FAST if args.fast else WATCHED,
        seed=args.seed,
        directory=runs_dir(args),
        verbosity=Verbosity.QUIET if args.json else None,
    )
    return RunFolder(trained.dir) if trained.is_recorded else None


def _make_up(args: argparse.Namespace) -> RunFolder:
    from epochal.recipes.demo.every_kind.write import write_every_kind

    return RunFolder(write_every_kind(runs_dir(args), seed=args.seed))


def _what_next(args: argparse.Namespace, *, name: str) -> str:
    given = getattr(args, "dir", None)
    place = f" --dir {shlex.quote(str(given))}" if given else ""
    lines = []
    for command, more, gives in _NEXT:
        if command in COMMANDS:
            what = "" if more is None else f" {shlex.quote(name)}{more}"
            lines.append((f"epochal {command}{place}{what}", gives))
    width = max(len(line) for line, _ in lines)
    return "\n".join(["", "Next:", *(f"  {line:<{width}}   {gives}" for line, gives in lines)])
