"""``epochal why``: the differences between two runs, ranked by how well they explain the gap."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

import click

from epochal.cli.command import RUN, cli_command, json_option, local_store, unfinished_option
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


@cli_command
@click.argument("run", type=RUN)
@click.argument("other", metavar="[OTHER]", required=False, type=RUN)
@click.option(
    "--group",
    is_flag=True,
    help="Compare with the other runs of its group, or of its project if it has no group.",
)
@click.option("--against", metavar="QUERY", help="Compare with the runs that a query selects.")
@click.option(
    "-m",
    "--metric",
    metavar="NAME",
    help="The metric to explain (default: the evaluation loss, else the loss).",
)
@click.option("-a", "--all", "with_all", is_flag=True, help="Also show what explains nothing.")
@unfinished_option
@json_option
def command(
    run: str,
    other: str | None,
    group: bool,
    against: str | None,
    metric: str | None,
    with_all: bool,
    unfinished: bool,
    as_json: bool,
) -> None:
    """Rank the differences between two runs by how well they explain that one is worse.

    Compare RUN with OTHER, with its group (--group) or with runs that a query selects
    (--against 'tags == "baseline"').
    """
    if sum((other is not None, group, against is not None)) != 1:
        raise UsageError("why takes a second run, --group or --against QUERY; one of them.")
    with local_store() as store:
        found = why_in(store, run, other, against=against, metric=metric, unfinished=unfinished)
    if as_json:
        say_json(found)
    else:
        say("\n".join(_lines(found, with_all=with_all)))


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
