"""``epochal tag``: add, remove or print the tags of runs."""

from __future__ import annotations

import argparse

from epochal.cli.command import add_json, add_where, chosen_runs, store_of
from epochal.cli.output import one_line, remark, say, say_json
from epochal.errors import UsageError
from epochal.store.label_edits import tag_edit
from epochal.store.local.run import LocalRun


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``tag``."""
    parser.add_argument(
        "words",
        metavar="RUN|TAG",
        nargs="*",
        help="a run, then tags to add; with --add, runs only; with --where, tags only",
    )
    parser.add_argument(
        "-a", "--add", metavar="TAG", action="append", default=[], help="a tag to add"
    )
    parser.add_argument(
        "-r", "--remove", metavar="TAG", action="append", default=[], help="a tag to remove"
    )
    add_where(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Change the tags, then print those there are."""
    keys, tags = _meant(args)
    if "" in tags:
        raise UsageError("TAG must not be empty.")
    store = store_of(args)
    usage = "use 'tag RUN TAG…', 'tag RUN… --add TAG' or 'tag --where QUERY TAG…'"
    views = chosen_runs(store, keys, args.where, usage=usage)
    if len(views) == 1:
        _check_there(views[0], args.remove)
    for view in views if tags or args.remove else ():
        view.relabel(tag_edit(view, add=tags, remove=args.remove))
    if args.json:
        infos = [view.info for view in views]
        say_json(infos[0] if len(infos) == 1 and args.where is None else infos)
    elif len(views) == 1:
        for tag in views[0].outline().tags:
            say(one_line(tag))
    else:
        changes = [*(f"+{tag}" for tag in tags), *(f"-{tag}" for tag in args.remove)]
        remark(f"{len(views):,} runs: {' '.join(changes) or 'nothing to change'}")
    return 0


def _meant(args: argparse.Namespace) -> tuple[list[str], list[str]]:
    """The runs that are named, and the tags to add."""
    if args.where is not None:
        return [], [*args.words, *args.add]
    if args.add:
        return args.words, args.add
    return args.words[:1], args.words[1:]


def _check_there(view: LocalRun, tags: list[str]) -> None:
    missing = [tag for tag in tags if tag not in view.outline().tags]
    if missing:
        raise UsageError(f"{view.outline().name!r} has no tag {missing[0]!r} to remove.")
