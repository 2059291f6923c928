"""`python -m benchmarks.health`: how well and how soon the rules speak up, and how often wrongly.

Healthy runs of every family and sick runs of every class go through the rules as they would live.
Ends with 1 when a hold is missed: 95 % of each class found in time, at most one false warning or
error per 20,000 healthy step records in each family.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from benchmarks.health.families import families
from benchmarks.health.families.heldout import NEWEST
from benchmarks.health.faults import sicknesses
from benchmarks.health.report import Report, judge


def main(arguments: Sequence[str] | None = None) -> int:
    """Judges what was asked for and prints its tables; returns 1 when a hold was missed."""
    parser = _parser()
    asked = parser.parse_args(arguments)
    heldout = asked.heldout or asked.newest
    chosen = NEWEST if asked.newest else tuple(families(heldout=heldout))
    if unknown := sorted(set(asked.family) - set(chosen)):
        parser.error(f"no family {', '.join(unknown)}; there are {', '.join(chosen)}")
    if unknown := sorted(set(asked.rule) - sicknesses().keys()):
        parser.error(f"no fault {', '.join(unknown)}; there are {', '.join(sicknesses())}")
    begun = time.monotonic()
    report = judge(
        heldout=heldout,
        # Asking for rules alone leaves the healthy runs out, and the other way round.
        family_names=list(asked.family or ([] if asked.rule else chosen)),
        rules=list(asked.rule or ([] if asked.family else sicknesses())),
        steps=asked.steps or (20_000 if asked.quick else 200_000),
        cases=asked.cases or (10 if asked.quick else 60),
        jobs=asked.jobs,
        tell=_tell,
        among=chosen,
    )
    _print(report, misses=asked.misses)
    print(f"\n{time.monotonic() - begun:.0f} s")
    return int(not report.active)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.health", description=__doc__)
    parser.add_argument("--heldout", action="store_true", help="the half that nobody tunes to")
    parser.add_argument(
        "--newest",
        action="store_true",
        help="only the held-out families that were drawn up last; implies --heldout",
    )
    parser.add_argument("--family", action="append", default=[], help="a healthy family; repeat")
    parser.add_argument("--rule", action="append", default=[], help="a class of faults; repeat")
    parser.add_argument("--quick", action="store_true", help="a tenth of the runs")
    parser.add_argument("--steps", type=int, help="healthy step records per family")
    parser.add_argument("--cases", type=int, help="sick runs per class")
    parser.add_argument("--jobs", type=int, default=1, help="processes that judge (default 1)")
    parser.add_argument("--misses", type=int, default=0, help="show so many misses of each")
    return parser


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _print(report: Report, *, misses: int) -> None:
    for table in report.tables():
        print(f"\n{table.markdown()}")
    for line in report.misses(misses):
        print(line)
    if report.speed:
        print(f"\n{report.speed:,.0f} records/s through Health")
    for name in report.missed:
        print(f"MISSED: {name}")


if __name__ == "__main__":
    sys.exit(main())
