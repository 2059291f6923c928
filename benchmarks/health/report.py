"""Both halves of a judgement as tables, and whether its holds were kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from benchmarks.health.faults import sicknesses
from benchmarks.health.generate import healthy_cases, sick_cases
from benchmarks.health.judge import (
    FamilyVerdict,
    RuleVerdict,
    judge_family,
    judge_rule,
    middle,
    upper,
)
from benchmarks.outcome import Table

FOUND_SHARE = 0.95
FALSE_PER_20K = 1.0


@dataclass(slots=True)
class Report:
    """What was judged of one half."""

    heldout: bool
    families: list[FamilyVerdict] = field(default_factory=list)
    rules: list[RuleVerdict] = field(default_factory=list)

    @property
    def half(self) -> str:
        """Which half this is, in words."""
        return "held-out" if self.heldout else "tuning"

    @property
    def missed(self) -> list[str]:
        """The holds that were not kept."""
        found = [
            f"{one.rule}: {one.rate:.0%} found in time, {FOUND_SHARE:.0%} wanted"
            for one in self.rules
            if one.rate < FOUND_SHARE
        ]
        return found + [
            f"{one.family}: {one.per_20k:.2f} false alarms per 20,000 steps, "
            f"{FALSE_PER_20K:g} at most"
            for one in self.families
            if one.per_20k > FALSE_PER_20K
        ]

    @property
    def active(self) -> bool:
        """Whether all holds were kept."""
        return not self.missed

    @property
    def speed(self) -> float | None:
        """Records per second through Health, over the healthy runs."""
        seconds = sum(one.seconds for one in self.families)
        return sum(one.records for one in self.families) / seconds if seconds else None

    def tables(self) -> tuple[Table, ...]:
        """One table of rules and one of families, as far as they were judged."""
        tables = []
        if self.rules:
            tables.append(self._rules_table())
        if self.families:
            tables.append(self._families_table())
        return tuple(tables)

    def misses(self, most: int) -> Iterator[str]:
        """A few of the misses and false alarms of each."""
        for rule in self.rules:
            yield from (f"{rule.rule}: {text}" for text in rule.misses[:most])
        for family in self.families:
            yield from (f"{family.family}: {text}" for text in family.sentences[:most])

    def _rules_table(self) -> Table:
        delays = ("steps p50", "p95", "s p50", "p95 ")
        columns = ("found in time", "as notes", "cases", *delays, "late", "early")
        rows = {
            one.rule: (
                f"{one.rate:.0%}",
                one.notes,
                one.cases,
                _whole(middle(one.delay_steps)),
                _whole(upper(one.delay_steps)),
                middle(one.delay_s),
                upper(one.delay_s),
                one.late + one.unnamed,
                one.early,
            )
            for one in self.rules
        }
        return Table(f"Planted faults, {self.half} half", columns, rows, {}, ratios=False)

    def _families_table(self) -> Table:
        columns = ("healthy steps", "runs", "false alarms", "per 20,000", "of")
        rows = {
            one.family: (
                one.steps,
                one.runs,
                one.alarms,
                one.per_20k,
                ", ".join(f"{rule} {count}" for rule, count in one.false.most_common(4)) or "-",
            )
            for one in self.families
        }
        return Table(f"Healthy runs, {self.half} half", columns, rows, {}, ratios=False)


def judge(
    *,
    heldout: bool,
    family_names: Sequence[str],
    rules: Sequence[str],
    steps: int,
    cases: int,
    jobs: int,
    tell: Callable[[str], None],
    among: Sequence[str] | None = None,
) -> Report:
    """Judge some families and classes of one half, in ``jobs`` processes.

    Sick runs are drawn from the families ``among``; without it, from all of the half.
    """
    report = Report(heldout)
    with ProcessPoolExecutor(jobs) as pool:
        sick = pool.map(partial(_judged_rule, count=cases, heldout=heldout, among=among), rules)
        healthy = pool.map(partial(_judged_family, steps=steps, heldout=heldout), family_names)
        for rule in sick:
            report.rules.append(rule)
            tell(f"{rule.rule}: {rule.rate:.0%} of {rule.cases}")
        for family in healthy:
            report.families.append(family)
            tell(f"{family.family}: {family.alarms} false alarms in {family.steps:,} steps")
    return report


def _judged_rule(
    rule: str, *, count: int, heldout: bool, among: Sequence[str] | None
) -> RuleVerdict:
    cases = sick_cases(sicknesses()[rule], count=count, heldout=heldout, among=among)
    return judge_rule(rule, cases)


def _judged_family(family: str, *, steps: int, heldout: bool) -> FamilyVerdict:
    return judge_family(family, healthy_cases(family, steps=steps, heldout=heldout))


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)
