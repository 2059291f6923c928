"""``epochal why``: the differences between two runs, ranked by how well they explain the gap."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

import click

from epochal.cli import options
from epochal.cli.command import chosen_run, data_command, local_store, run_of, unfinished_hint
from epochal.cli.output import one_line, said_json, say, terminal_columns
from epochal.compare.why import RunDifference, Side, Why, value_text, why_in
from epochal.errors import UsageError
from epochal.records.format import format_number, plural

_LONGEST_VALUE = 60
# Findings are sentences.
_LONGEST_SENTENCE = 240
_LEAST_SCORE = 0.1
_TITLES = {"cause": "WHAT CAN EXPLAIN IT", "symptom": "WHAT SHOWS IT"}


@data_command
@options.run
@click.argument("other", metavar="[OTHER]", required=False, type=options.RUN)
@click.option("--against", metavar="QUERY", help="Compare with the runs that a query selects.")
@click.option("-m", "--metric", metavar="NAME", help="Metric to explain (default: a loss).")
@click.option("-a", "--all", "with_all", is_flag=True, help="Also show what explains nothing.")
@options.unfinished
def command(
    run: str | None,
    other: str | None,
    against: str | None,
    metric: str | None,
    with_all: bool,
    unfinished: bool,
) -> None:
    """Rank the differences between two runs by how well they explain that one is worse.

    RUN is compared with OTHER, with the runs that a query selects (--against 'tags == "best"'),
    or else with the other runs of its group, or of its project.
    """
    if other is not None and against is not None:
        raise UsageError("name a second run or --against QUERY, not both.")
    with local_store() as store:
        left = chosen_run(store, run)
        right = None if other is None else run_of(store, other)
        found = why_in(store, left, right, against=against, metric=metric, unfinished=unfinished)
    if not said_json(found):
        say("\n".join(_lines(found, with_all=with_all)))


def _lines(found: Why, *, with_all: bool) -> Iterator[str]:
    width = terminal_columns()
    yield from textwrap.wrap(f"{found.sentence}{unfinished_hint(found.unfinished)}", width)
    yield ""
    names = [one_line(side.name) for side in (found.left, found.right)]
    longest = max(map(len, names))
    for name, side in zip(names, (found.left, found.right), strict=True):
        yield f"  {name:<{longest}}  {found.metric} {_end(side, found.x)}"
    for kind, title in _TITLES.items():
        of_kind = [one for one in found.differences if one.kind == kind]
        shown = [one for one in of_kind if with_all or one.score >= _LEAST_SCORE]
        if shown:
            yield from ("", f"SCORE  {title}: {names[0]} | {names[1]}")
        for one in shown:
            yield from _difference(one, width)
    left = sum(one.score < _LEAST_SCORE for one in found.differences)
    if left and not with_all:
        what = f"{plural(left, 'difference')} with a score below {_LEAST_SCORE}"
        yield from ("", f"{what}: --all shows them.")
    yield ""
    for title, areas in (("Equal", found.equal), ("Not compared", found.unknown)):
        if areas:
            yield f"{title}: {', '.join(areas)}."


def _end(side: Side, x: str) -> str:
    """What the value of a side is: the mean of its last points, or the last one."""
    value, where = format_number(side.value), f"{x} {side.at:,.0f}"
    if side.points == 1:
        return f"{value} at {where}"
    median = "median of the runs, " if len(side.runs) > 1 else ""
    return f"{value} ({median}mean of {side.points} points up to {where})"


def _difference(one: RunDifference, width: int) -> Iterator[str]:
    most = _LONGEST_SENTENCE if one.area == "findings" else _LONGEST_VALUE
    texts = map(value_text, (one.left, one.right))
    values = " | ".join(t if len(t) <= most else f"{t[: most - 1]}…" for t in texts)
    others = f" ({one.others})" if one.others else ""
    head = f"{one.score:5.2f}  {one.area} {one.key}: {values}{others}"
    yield from textwrap.wrap(one_line(head), width, subsequent_indent=" " * 9)
    indent = " " * 7
    yield from textwrap.wrap(one.reason, width, initial_indent=indent, subsequent_indent=indent)
