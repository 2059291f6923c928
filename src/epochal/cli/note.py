"""``epochal note``: read or write the note of runs."""

from __future__ import annotations

import argparse
from dataclasses import replace

from epochal.cli.command import add_json, add_where, chosen_runs, store_of
from epochal.cli.output import remark, say, say_json


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``note``."""
    parser.add_argument(
        "words",
        metavar="RUN|TEXT",
        nargs="*",
        help="a run, then its new note, '' for none; without a text: print the note."
        " With --text, runs only; with --where, the text only",
    )
    parser.add_argument("-t", "--text", metavar="TEXT", help="the new note of every RUN")
    add_where(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Write the note if a text is given, else print it."""
    keys, text = _meant(args)
    usage = "use 'note RUN [TEXT]', 'note RUN… --text TEXT' or 'note --where QUERY TEXT'"
    views = chosen_runs(store_of(args), keys, args.where, usage=usage)
    for view in views if text is not None else ():
        view.relabel(lambda labels: replace(labels, notes=text))
    infos = [view.info for view in views]
    if args.json:
        say_json(infos[0] if len(infos) == 1 and args.where is None else infos)
    elif text is not None:
        if len(infos) > 1:
            remark(f"{len(infos):,} runs have the new note.")
    else:
        for info in infos:
            if info.notes:
                say(info.notes if len(infos) == 1 else f"{info.project}/{info.name}: {info.notes}")
    return 0


def _meant(args: argparse.Namespace) -> tuple[list[str], str | None]:
    """The runs that are named, and the new note."""
    words: list[str] = args.words
    if args.text is not None:
        return words, args.text
    if args.where is not None:
        return [], " ".join(words) if words else None
    return words[:1], " ".join(words[1:]) if len(words) > 1 else None
