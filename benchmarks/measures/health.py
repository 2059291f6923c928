"""The health rules on runs nobody tuned to; `python -m benchmarks.health` says more.

No contender takes part: none of them looks at what it records.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from benchmarks.outcome import Hold, Outcome
from benchmarks.stage import Stage, say

if TYPE_CHECKING:
    from benchmarks.health.report import Report

NAME = "health"


def run(stage: Stage) -> Outcome:
    reports = [_report(heldout=heldout, quick=stage.quick) for heldout in (False, True)]
    tables = tuple(table for report in reports for table in report.tables())
    holds = tuple(hold for report in reports for hold in _holds(report, quick=stage.quick))
    speeds = ", ".join(f"{report.speed:,.0f}" for report in reports if report.speed)
    note = (
        "Drawn runs, healthy or with one fault planted, fed to the rules as if they were live."
        " In time: a non-finite number in its own record, spikes and explosions within 20 steps,"
        " throughput and throttling within 60 s, slow faults within three windows."
        " An alarm is a warning or an error; a step is a step record."
        " A fault counts as found when a note says so, too; how many were notes stands beside it."
        " The held-out half is for judging: its families were drawn up by somebody who had not"
        " seen the rules, and committed before the thresholds they judge were last touched."
        f" Records per second of CPU: {speeds}."
    )
    return Outcome("Diagnosis", note, tables, holds)


def _report(*, heldout: bool, quick: bool) -> Report:
    from benchmarks.health.families import families
    from benchmarks.health.faults import sicknesses
    from benchmarks.health.report import judge

    return judge(
        heldout=heldout,
        family_names=list(families(heldout=heldout)),
        rules=list(sicknesses()),
        steps=1_500 if quick else 200_000,
        cases=2 if quick else 60,
        jobs=os.cpu_count() or 1,
        tell=say,
    )


def _holds(report: Report, *, quick: bool) -> tuple[Hold, ...]:
    """Of the worst class and family; of all together where each has but a few runs."""
    from benchmarks.health.report import FALSE_PER_20K, FOUND_SHARE

    lowest = min(report.rules, key=lambda one: one.rate)
    loudest = max(report.families, key=lambda one: one.per_20k)
    missed, alarms = 1 - lowest.rate, loudest.per_20k
    if quick:
        missed = 1 - sum(one.rate for one in report.rules) / len(report.rules)
        alarms = sum(one.per_20k for one in report.families) / len(report.families)
    of_class = "all classes" if quick else f"worst class ({lowest.rule})"
    of_family = "all families" if quick else f"worst family ({loudest.family})"
    limit = round(100 * (1 - FOUND_SHARE), 6)
    return (
        Hold(f"faults not found in time, {report.half} half, {of_class}", limit, 100 * missed, "%"),
        Hold(
            f"false alarms per 20,000 steps, {report.half} half, {of_family}", FALSE_PER_20K, alarms
        ),
    )
