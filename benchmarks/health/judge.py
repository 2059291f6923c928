"""Feeds cases to `epochal.health.Health` and compares what it says with the truth."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from statistics import median

from benchmarks.health.case import Case, Fault
from epochal.health.engine import Health
from epochal.health.finding import Finding

GRAVE = ("warning", "error")
# The clock is asked about once a second in a live run; in a long wait, this often.
MAX_TICKS = 8
_SECONDS_AFTER = 30.0


@dataclass(slots=True)
class FamilyVerdict:
    """False alarms over the healthy runs of a family."""

    family: str
    runs: int = 0
    steps: int = 0
    records: int = 0
    seconds: float = 0.0  # of CPU, drawing left out
    false: Counter[str] = field(default_factory=Counter)
    sentences: list[str] = field(default_factory=list)

    @property
    def alarms(self) -> int:
        """False warnings and errors."""
        return sum(self.false.values())

    @property
    def per_20k(self) -> float:
        """False warnings and errors per 20,000 healthy step records."""
        return self.alarms / self.steps * 20_000 if self.steps else 0.0


@dataclass(slots=True)
class RuleVerdict:
    """Detection over the sick runs of a class; delays are of those that were found in time."""

    rule: str
    cases: int = 0
    early: int = 0  # runs in which the rule spoke up before there was a reason
    late: int = 0  # found, but not in time
    unnamed: int = 0  # found, but not where it is
    notes: int = 0  # found in time, but as a note: neither warning nor error when it was said
    delay_steps: list[float] = field(default_factory=list)
    delay_s: list[float] = field(default_factory=list)
    misses: list[str] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Share of the cases found in time."""
        return len(self.delay_s) / self.cases if self.cases else 0.0


@dataclass(frozen=True, slots=True)
class _Said:
    """A finding that opened or grew graver, and when."""

    finding: Finding
    at: float


def judge_family(family: str, cases: Iterable[Case]) -> FamilyVerdict:
    """Count the warnings and errors that healthy runs get."""
    verdict = FamilyVerdict(family)
    for case in cases:
        verdict.runs += 1
        verdict.steps += case.steps
        verdict.records += len(case.records)
        begun = time.process_time()
        said = list(_listen(case))
        verdict.seconds += time.process_time() - begun
        told: set[str] = set()
        for one in said:
            finding = one.finding
            if finding.severity in GRAVE and finding.id not in told:
                told.add(finding.id)
                verdict.false[finding.rule] += 1
                verdict.sentences.append(f"seed {case.seed}, {finding.rule}: {finding.sentence}")
    return verdict


def judge_rule(rule: str, cases: Iterable[Case]) -> RuleVerdict:
    """See in how many sick runs the rule of their fault speaks up in time."""
    verdict = RuleVerdict(rule)
    for case in cases:
        assert case.fault is not None
        verdict.cases += 1
        _judge_sick(case, case.fault, verdict)
    return verdict


def _judge_sick(case: Case, fault: Fault, verdict: RuleVerdict) -> None:
    where = f"{case.family} seed {case.seed}, onset at step {fault.onset_step}"
    before = False
    for one in _listen(case):
        if one.finding.rule != fault.rule:
            continue
        if one.at < fault.onset_t - 1e-6:
            before = before or one.finding.severity in GRAVE
            continue
        rows, seconds = _delay(case, fault, one.at)
        if not _in_time(fault, rows, seconds):
            verdict.late += 1
            verdict.misses.append(f"{where}: {rows} records or {seconds:.0f} s late")
            break
        if not _is_named(fault, one.finding):
            verdict.misses.append(f"{where}: not named: {one.finding.sentence}")
            verdict.unnamed += 1
            break
        verdict.notes += one.finding.severity not in GRAVE
        verdict.delay_steps.append(max(0, rows) * case.every)
        verdict.delay_s.append(max(0.0, seconds))
        break
    else:
        verdict.misses.append(f"{where}: not found{', but before' if before else ''}")
    verdict.early += before


def _listen(case: Case) -> Iterator[_Said]:
    """Feed a case as it would come in live, the clock ticking between records."""
    health = Health(config=case.config)
    fault = case.fault
    last = case.times[0]
    for entry, t in zip(case.records, case.times, strict=True):
        if fault is not None and _is_over(case, fault, t):
            return
        if t - last > 1.0:
            for now in _ticks(last, t):
                yield from _opened(health.tick(now), now)
        last = max(last, t)
        yield from _opened(health.feed(entry.record, rank=entry.rank, writer=entry.writer), t)
    end = case.row_times[-1] + case.silence_s
    if case.silence_s:
        for second in range(int(max(0.0, end - last))):
            now = last + second + 1
            yield from _opened(health.tick(now), now)
    yield from _opened(health.close(), max(last, end))


def _opened(findings: list[Finding], at: float) -> Iterator[_Said]:
    for finding in findings:
        if finding.state == "open":
            yield _Said(finding, at)


def _ticks(last: float, t: float) -> list[float]:
    """Moments between two records: about a second apart, the last just before the second one."""
    count = min(MAX_TICKS, int(t - last))
    return [last + (t - last) * (place + 1) / (count + 0.001) for place in range(count)]


def _delay(case: Case, fault: Fault, at: float) -> tuple[int, float]:
    return case.row_at(at) - fault.onset_row, at - fault.onset_t


def _in_time(fault: Fault, rows: int, seconds: float) -> bool:
    return 0 < fault.limit_rows >= rows or seconds <= fault.limit_s + 1e-3


def _is_over(case: Case, fault: Fault, t: float) -> bool:
    """Whether a finding could only come too late from here on; some are let in to be called so."""
    rows, seconds = _delay(case, fault, t)
    return rows > 1.5 * fault.limit_rows + 5 and seconds > 1.5 * fault.limit_s + _SECONDS_AFTER


def _is_named(fault: Fault, finding: Finding) -> bool:
    if not fault.names:
        return True
    told = f"{finding.series or ''} {finding.sentence}".lower()
    return any(name.lower() in told for name in fault.names)


def middle(values: list[float]) -> float | None:
    """The median, or None of nothing."""
    return median(values) if values else None


def upper(values: list[float]) -> float | None:
    """The 95th percentile, by the nearest rank."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[math.ceil(0.95 * len(ordered)) - 1]
