"""`python -m benchmarks [measure …]`: prints tables of ratios, and each target with its result."""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.contenders import OURS, SLOW_TO_START, every_contender
from benchmarks.environments import BENCH, Entrant, prepare
from benchmarks.measures import every_measure
from benchmarks.outcome import Outcome, aligned, holds_markdown, number
from benchmarks.stage import Stage, say

RESULTS = Path(__file__).with_name("RESULTS.md")
BEGIN, END = "<!-- trackers -->\n", "<!-- /trackers -->"
# The columns of the table of trackers in RESULTS.md: measure, title of its table, column, heading.
COLUMNS = (
    ("hot", "10 scalars a call, µs", 0, "log, tight loop, µs"),
    ("hot", "10 scalars a call, µs", 3, "log and close, µs"),
    ("cold", "10 scalars a call, µs", 0, "log, busy loop, µs"),
    ("import", "milliseconds", 0, "import, ms"),
    ("import", "milliseconds", 1, "import to first log, ms"),
    ("bytes", "bytes per point", 0, "bytes per point"),
    ("kill", "steps lost of steps acknowledged, the worst trial", 1, "steps lost by kill -9"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the measures asked for; returns 1 when a hold was missed."""
    asked = _parser().parse_args(arguments)
    measures = every_measure()
    if unknown := sorted(set(asked.measures) - measures.keys()):
        _parser().error(f"no measure {', '.join(unknown)}; there are {', '.join(measures)}")
    if asked.write and (asked.measures or asked.only or asked.quick):
        _parser().error("--write takes no measure names, no --only and no --quick")
    load = os.getloadavg()[0]
    begun = time.monotonic()
    of_table = list(dict.fromkeys(measure for measure, *_ in COLUMNS))
    names = asked.measures or (of_table if asked.write else list(measures))
    needs_peers = any(hasattr(measures[name], "work") for name in names)
    entrants = _entrants(only=asked.only if needs_peers else OURS, quick=asked.quick)
    scratch = BENCH / "scratch" / str(os.getpid())
    scratch.mkdir(parents=True)
    try:
        stage = Stage(entrants, scratch, quick=asked.quick)
        outcomes: dict[str, Outcome] = {}
        for name in names:
            outcomes[name] = measures[name].run(stage)
            print(_section(outcomes[name]), flush=True)
    finally:
        shutil.rmtree(scratch)
    holds = [hold for outcome in outcomes.values() for hold in outcome.holds]
    verdicts = f"## Holds\n\n{holds_markdown(holds)}\n"
    heading = _heading(entrants, load=load, minutes=(time.monotonic() - begun) / 60)
    print(verdicts)
    print(heading)
    if asked.write:
        RESULTS.write_text(with_table(RESULTS.read_text(), f"{heading}\n{trackers(outcomes)}\n"))
        say(f"written: {RESULTS.name}")
    return int(any(hold.verdict == "MISSED" for hold in holds))


def trackers(outcomes: Mapping[str, Outcome]) -> str:
    """The table of RESULTS.md: one row for each contender, one column for each number."""
    rows = [
        {table.title: table for table in outcomes[measure].tables}[title].rows
        for measure, title, _, _ in COLUMNS
    ]
    names = [name for name in rows[0] if all(name in row for row in rows)]
    lines = [["", *(heading for _, _, _, heading in COLUMNS)]]
    for name in names:
        cells = [row[name] for row in rows]
        figures = [
            number(cell[column] if column < len(cell) else None)
            for cell, (_, _, column, _) in zip(cells, COLUMNS, strict=True)
        ]
        lines.append([name, *figures])
    return aligned(lines)


def with_table(page: str, table: str) -> str:
    before, rest = page.split(BEGIN)
    return before + BEGIN + table + END + rest.split(END)[1]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("measures", nargs="*", metavar="measure", help=", ".join(every_measure()))
    parser.add_argument("--quick", action="store_true", help="under two minutes, rough figures")
    parser.add_argument(
        "--write",
        action="store_true",
        help="measure what the table of trackers in benchmarks/RESULTS.md has, and replace it",
    )
    parser.add_argument(
        "--only", default="", help="contenders, by the start of a name, with commas"
    )
    return parser


def _entrants(*, only: str, quick: bool) -> tuple[Entrant, ...]:
    """The contenders asked for; Epochal is always among them, as the ratios are to it."""
    starts = tuple(only.split(",")) if only else ("",)
    chosen = [one for one in every_contender() if one.name == OURS or one.name.startswith(starts)]
    return tuple(
        Entrant(one, None, absence="left out of quick runs: slow to start")
        if quick and not only and one.name in SLOW_TO_START
        else prepare(one)
        for one in chosen
    )


def _section(outcome: Outcome) -> str:
    tables = "\n\n".join(table.markdown() for table in outcome.tables)
    return f"## {outcome.title}\n\n{outcome.note}\n\n{tables}\n"


def _heading(entrants: Sequence[Entrant], *, load: float, minutes: float) -> str:
    versions = ", ".join(version for entrant in entrants for version in entrant.versions)
    return (
        f"{datetime.date.today().isoformat()} · {os.cpu_count()} cores, {platform.system()} "
        f"{platform.machine()}, Python {platform.python_version()}, load {load:.1f} at the start, "
        f"{minutes:.0f} min. {versions}.\n"
    )


if __name__ == "__main__":
    sys.exit(main())
