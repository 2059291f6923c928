"""Compares what the rules say about each training with what was planted in it."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from benchmarks.clinic import accepted, evidence
from benchmarks.clinic.accepted import ACCEPTED, Accepted
from benchmarks.clinic.diagnosis import findings_of
from benchmarks.clinic.evidence import Evidence
from benchmarks.clinic.figures import contradictions, series_of
from benchmarks.clinic.plan import Training, matches, parse
from epochal.health.finding import Finding

View = Literal["everything", "scalars"]
VIEWS: tuple[View, ...] = ("everything", "scalars")
# cause: named. advice: the accepted one. symptom: something is wrong. missed: nothing of these.
Outcome = Literal["cause", "advice", "symptom", "missed"]
# A training without a reason to be slower is not twice as slow; one that leaks grows by this much.
_SLOWER = 1.5
_GROWTH_BYTES = 64 * 1024**2
_DRIFT = 1e-3
# Standard errors of a level that the lowest of some twenty may be below another by chance.
_ERRORS = 4.0
_NEED_TWINS = frozenset({"result", "reported", "slower"})


@dataclass(frozen=True, slots=True)
class Said:
    """A finding as far as the judge needs it; ``misleads`` is about a healthy training's note."""

    rule: str
    severity: str
    sentence: str
    advice: str
    misleads: bool
    contradictions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """One training, what came of it and what the rules say, by view."""

    training: Training
    result: dict[str, Any]
    said: dict[View, tuple[Said, ...]]
    live_rules: tuple[str, ...]
    num_steps: int


@dataclass(slots=True)
class FaultVerdict:
    """A harmful training with its outcome by view, and what else was said."""

    case: Case
    outcomes: dict[View, Outcome]
    right: dict[View, str]  # the sentence that counted
    astray: dict[View, tuple[str, ...]]  # rules that are neither right nor a symptom


@dataclass(slots=True)
class Verdict:
    """All of it."""

    healthy: list[Case] = field(default_factory=list)
    faults: list[FaultVerdict] = field(default_factory=list)
    harmless: list[Case] = field(default_factory=list)
    unproved: list[Case] = field(default_factory=list)  # healthy twins are missing

    @property
    def healthy_steps(self) -> int:
        return sum(case.num_steps for case in self.healthy)

    def rate(self, view: View, *outcomes: Outcome) -> float:
        """The share of harmful trainings with one of these outcomes."""
        hits = sum(one.outcomes[view] in outcomes for one in self.faults)
        return hits / len(self.faults) if self.faults else 0.0

    def false(self, view: View, severity: str) -> Counter[str]:
        """False errors and warnings, or misleading notes, of healthy trainings by rule."""
        return Counter(
            said.rule
            for case in self.healthy
            for said in case.said[view]
            if said.severity == severity and said.misleads
        )

    def per_20k(self, view: View, severity: str) -> float:
        count = sum(self.false(view, severity).values())
        return 20_000 * count / self.healthy_steps if self.healthy_steps else 0.0

    def repeated_per_20k(self, view: View) -> float:
        """Notes beyond the first that say of a healthy training that it stands still."""
        count = 0
        for case in self.healthy:
            notes = [s for s in case.said[view] if s.severity == "info" and not s.misleads]
            count += max(0, sum(s.rule in accepted.STANDSTILL_NOTES for s in notes) - 1)
        return 20_000 * count / self.healthy_steps if self.healthy_steps else 0.0

    def contradicted(self) -> list[tuple[str, Said]]:
        """Findings whose sentence is not what the figures say."""
        cases = [*self.healthy, *(one.case for one in self.faults), *self.harmless, *self.unproved]
        return [
            (case.training.id, said)
            for case in cases
            for said in {one.sentence: one for v in VIEWS for one in case.said[v]}.values()
            if said.contradictions
        ]


def judge_folder(
    folder: Path, *, half: str = "all", jobs: int = 1, only: tuple[str, ...] = ()
) -> Verdict:
    """Diagnose all evidence of a folder; fault twins of the same half only."""
    paths = sorted(folder.glob(f"*{evidence.SUFFIX}"))
    wanted = []
    for path in paths:
        training = parse(path.name.removesuffix(evidence.SUFFIX))
        is_wanted = not only or matches(training, only) or training.fault is None
        if half in ("all", training.half) and is_wanted:
            wanted.append(path)
    if jobs > 1:
        with ProcessPoolExecutor(jobs) as pool:
            cases = list(pool.map(examine, wanted, chunksize=4))
    else:
        cases = [examine(path) for path in wanted]
    return judge(cases)


def results_of(folder: Path, *, half: str = "all") -> list[Case]:
    """What came of each training, without asking the rules."""
    found = []
    for path in sorted(folder.glob(f"*{evidence.SUFFIX}")):
        training = parse(path.name.removesuffix(evidence.SUFFIX))
        if half in ("all", training.half):
            result = evidence.read(path).result
            found.append(Case(training, result, dict.fromkeys(VIEWS, ()), (), training.kind.steps))
    return found


def examine(path: Path) -> Case:
    """Diagnose one training."""
    kept = evidence.read(path)
    training = parse(kept.id)
    series = series_of(kept)
    said: dict[View, tuple[Said, ...]] = {}
    for view in VIEWS:
        found = findings_of(kept, scalars_only=view == "scalars")
        said[view] = tuple(_said(one, series, kept) for one in found)
    loss = series.get("train/loss") or series.get("loss") or []
    steps = loss[-1][0] + 1 if loss else 0
    return Case(training, kept.result, said, tuple(sorted({one[0] for one in kept.live})), steps)


def judge(cases: Iterable[Case]) -> Verdict:
    """Compare each training with its healthy twins and with the table."""
    verdict = Verdict()
    twins: dict[tuple[str, str], list[Case]] = {}
    faulty = []
    for case in cases:
        if case.training.fault is None:
            verdict.healthy.append(case)
            key = (case.training.kind_name, case.training.optimizer)
            twins.setdefault(key, []).append(case)
        else:
            faulty.append(case)
    for case in faulty:
        beside = twins.get((case.training.kind_name, case.training.optimizer), [])
        fault = case.training.fault
        if not beside and fault is not None and fault.harm in _NEED_TWINS:
            verdict.unproved.append(case)
        elif is_harmful(case, beside):
            verdict.faults.append(_compared(case, beside))
        else:
            verdict.harmless.append(case)
    return verdict


def is_harmful(case: Case, twins: Sequence[Case]) -> bool:
    """Whether a fault did harm, by its own measure, beyond the spread of the healthy twins."""
    fault = case.training.fault
    assert fault is not None
    result = case.result
    if fault.harm == "hang":
        return result.get("result") is None
    if fault.harm == "memory":
        return bool(result["rss_late"] - result["rss_early"] > _GROWTH_BYTES)
    if fault.harm == "slower":
        usual = sorted(twin.result["step_ms"] for twin in twins)[len(twins) // 2]
        return bool(result["step_ms"] > _SLOWER * usual)
    if fault.harm == "drift":
        return bool(result["rank_difference"] > _DRIFT)
    honest = [float(twin.result["result"]) for twin in twins]
    low, high = min(honest), max(honest)
    spread = max(high - low, 0.02 * abs(high))
    own = float(result["result"])
    if fault.harm == "reported":
        return abs(float(result["reported"]) - own) > spread
    return not math.isfinite(own) or own > high + 0.5 * spread


def outcome(said: Iterable[Said], table: Accepted) -> tuple[Outcome, str]:
    """The best that any finding is worth, and its sentence."""
    best: tuple[Outcome, str] = ("missed", "")
    order: tuple[Outcome, ...] = ("missed", "symptom", "advice", "cause")
    for one in said:
        worth = _worth(one, table)
        if order.index(worth) > order.index(best[0]):
            best = (worth, f"{one.rule}: {one.sentence}")
    return best


def _worth(said: Said, table: Accepted) -> Outcome:
    if said.rule in table.cause or _has(table.words, said.sentence):
        return "cause"
    is_short = len(said.advice.split()) <= accepted.LONGEST_ADVICE_WORDS
    words = (*table.words, *table.advice_words)
    if said.rule in table.advice or (is_short and _has(words, said.advice)):
        return "advice"
    return "symptom" if said.rule in table.symptom else "missed"


def _has(words: Sequence[str], text: str) -> bool:
    return any(re.search(word, text, re.IGNORECASE) for word in words)


def _compared(case: Case, twins: Sequence[Case]) -> FaultVerdict:
    table = ACCEPTED[case.training.fault_name]
    outcomes: dict[View, Outcome] = {}
    right: dict[View, str] = {}
    astray: dict[View, tuple[str, ...]] = {}
    for view in VIEWS:
        usual = Counter(rule for twin in twins for rule in {one.rule for one in twin.said[view]})
        common = {rule for rule, count in usual.items() if 2 * count >= len(twins)}
        own = [one for one in case.said[view] if one.rule not in common]
        outcomes[view], right[view] = outcome(own, table)
        astray[view] = tuple(sorted({o.rule for o in own if _worth(o, table) == "missed"}))
    return FaultVerdict(case, outcomes, right, astray)


def _said(finding: Finding, series: dict[str, list[tuple[int, float]]], kept: Evidence) -> Said:
    return Said(
        finding.rule,
        finding.severity,
        finding.sentence,
        finding.advice,
        _misleads(finding, series),
        tuple(contradictions(finding, series)),
    )


def _misleads(finding: Finding, series: dict[str, list[tuple[int, float]]]) -> bool:
    """Whether a finding would mislead about a healthy training."""
    if finding.severity != "info":
        return True
    if finding.rule in accepted.FACTUAL_NOTES:
        return False
    if finding.rule not in accepted.STANDSTILL_NOTES or finding.steps is None:
        return True
    points = series.get("train/loss") or series.get("loss") or []
    return falls_after(points, finding.steps[0])


def falls_after(
    points: Sequence[tuple[int, float]], step: int, *, noise_counts: bool = True
) -> bool:
    """Whether a loss falls after a step by a share of what it had fallen before, beyond noise.

    The lowest of several levels is below the others by chance: by up to so many of their errors.
    """
    before = [value for at, value in points if at <= step]
    after = [value for at, value in points if at > step]
    if len(before) < 20 or len(after) < 20:
        return False
    tenth = max(10, len(points) // 20)
    start, then = _middle(before[:tenth]), _middle(before[-tenth:])
    end = min(_middle(after[place : place + tenth]) for place in range(0, len(after), tenth))
    least = accepted.STANDSTILL_FALL * max(start - then, 0.0)
    if noise_counts:
        least = max(least, _ERRORS * _level_error(after, tenth))
    return then - end > least and end < then


def _level_error(values: Sequence[float], count: int) -> float:
    """The standard error of a median of so many values, by how far neighbours are apart."""
    apart = _middle([abs(b - a) for a, b in pairwise(values)])
    return 1.25 * apart / 0.954 / math.sqrt(count)


def _middle(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]
