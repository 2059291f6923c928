"""``epochal why``: the differences between two runs, ranked by how well they explain the gap."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterator

from epochal.cli.command import add_json, add_run, add_unfinished, store_of
from epochal.cli.output import one_line, say, say_json
from epochal.cli.table import terminal_columns
from epochal.errors import UsageError
from epochal.format import format_number
from epochal.store.why import RunDifference, Side, Why, value_text, why_in

_LONGEST_VALUE = 60
# Findings are sentences.
_LONGEST_SENTENCE = 240
_LEAST_SCORE = 0.1
_TITLES = {"cause": "WHAT CAN EXPLAIN IT", "symptom": "WHAT SHOWS IT"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``why``."""
    add_run(parser)
    parser.add_argument("other", metavar="OTHER", nargs="?", help="the run to compare it with")
    parser.add_argument(
        "--group",
        action="store_true",
        help="compare with the other runs of its group, or of its project if it has no group",
    )
    parser.add_argument(
        "--against", metavar="QUERY", help="compare with the runs that a query selects"
    )
    parser.add_argument(
        "-m",
        "--metric",
        metavar="NAME",
        help="the metric to explain (default: the evaluation loss, else the loss)",
    )
    parser.add_argument(
        "-a", "--all", action="store_true", help="also show differences that explain nothing"
    )
    add_unfinished(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Explain the gap between a run and another one, or its group."""
    if sum((args.other is not None, args.group, args.against is not None)) != 1:
        raise UsageError("why takes a second run, --group or --against QUERY; one of them.")
    with store_of(args) as store:
        found = why_in(
            store,
            args.run,
            args.other,
            against=args.against,
            metric=args.metric,
            unfinished=args.unfinished,
        )
    if args.json:
        say_json(found)
    else:
        say("\n".join(_lines(found, with_all=args.all)))
    return 0


def _lines(found: Why, *, with_all: bool) -> Iterator[str]:
    width = terminal_columns()
    hint = " Use --unfinished to include them." if found.unfinished.left_out else ""
    yield from textwrap.wrap(f"{found.sentence}{hint}", width)
    yield ""
    names = [one_line(side.name) for side in (found.left, found.right)]
    longest = max(map(len, names))
    for name, side in zip(names, (found.left, found.right), strict=True):
        value = f"{format_number(side.value)}{_end(side, found.x)}"
        yield f"  {name:<{longest}}  {found.metric} {value}"
    for kind, title in _TITLES.items():
        of_kind = [one for one in found.differences if one.kind == kind]
        shown = [one for one in of_kind if with_all or one.score >= _LEAST_SCORE]
        if shown:
            yield from ("", f"SCORE  {title}: {names[0]} | {names[1]}")
        for one in shown:
            yield from _difference(one, width)
    left = sum(one.score < _LEAST_SCORE for one in found.differences)
    if left and not with_all:
        word = "difference" if left == 1 else "differences"
        yield from ("", f"{left} {word} with a score below {_LEAST_SCORE}: --all shows them.")
    yield ""
    if found.equal:
        yield f"Equal: {', '.join(found.equal)}."
    if found.unknown:
        yield f"Not recorded on both sides: {', '.join(found.unknown)}."


def _end(side: Side, x: str) -> str:
    """What the value of a side is: the mean of its last points, or the last one."""
    where = f"{x} {side.at:,.0f}"
    if side.points == 1:
        return f" at {where}"
    median = "median of the runs, " if len(side.runs) > 1 else ""
    return f" ({median}mean of {side.points} points up to {where})"


def _difference(one: RunDifference, width: int) -> Iterator[str]:
    most = _LONGEST_SENTENCE if one.area == "findings" else _LONGEST_VALUE
    values = " | ".join(_text(value_text(value), most) for value in (one.left, one.right))
    others = f" ({one.others})" if one.others else ""
    head = f"{one.score:5.2f}  {one.area} {one.key}: {values}{others}"
    yield from textwrap.wrap(one_line(head), width, subsequent_indent=" " * 9)
    indent = " " * 7
    yield from textwrap.wrap(one.reason, width, initial_indent=indent, subsequent_indent=indent)


def _text(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
