"""Compare what the rules say about each training with the fault that was put into it."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Literal

from benchmarks.clinic import accepted, journal
from benchmarks.clinic.accepted import ACCEPTED, Accepted
from benchmarks.clinic.plan import HEALTHY, Training, parse
from benchmarks.clinic.sentences import contradictions
from epochal.health.finding import Finding

View = Literal["everything", "scalars"]
VIEWS: tuple[View, ...] = ("everything", "scalars")
# right: the cause or an accepted action is named. symptom: something is wrong. missed: neither.
Outcome = Literal["right", "symptom", "missed"]
OUTCOMES: tuple[Outcome, ...] = ("right", "symptom", "missed")
# Standard errors of a level that the lowest of some twenty may be below another by chance.
_ERRORS = 4.0


@dataclass(frozen=True, slots=True)
class Reported:
    """A finding as far as the judge needs it."""

    rule: str
    severity: str
    sentence: str
    advice: str
    misleads: bool  # would mislead you about a healthy training
    contradictions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Case:
    """One training, what came of it, and what the rules report, by view."""

    training: Training
    result: dict[str, float]
    reported: dict[View, tuple[Reported, ...]]


@dataclass(frozen=True, slots=True)
class Judged:
    """A harmful training with the outcome of a view and the finding that counted."""

    case: Case
    view: View
    outcome: Outcome
    best: Reported | None
    others: tuple[str, ...]  # rules that are neither right nor a symptom


@dataclass(slots=True)
class Evaluation:
    """All cases of a folder, judged."""

    healthy: list[Case] = field(default_factory=list)
    harmful: list[Judged] = field(default_factory=list)  # each once for each view
    harmless: list[Case] = field(default_factory=list)
    cases: list[Case] = field(default_factory=list)

    @property
    def healthy_steps(self) -> int:
        return sum(int(case.result["steps"]) for case in self.healthy)

    def count(self, view: View, fault: str | None = None) -> Counter[Outcome]:
        """How many harmful trainings have each outcome."""
        found = (one for one in self.harmful if one.view == view)
        return Counter(
            one.outcome for one in found if fault in (None, one.case.training.fault_name)
        )

    def false(self, view: View, severity: str) -> list[tuple[str, Reported]]:
        """False errors and warnings, or misleading notes, of healthy trainings."""
        return [
            (case.training.id, one)
            for case in self.healthy
            for one in case.reported[view]
            if one.severity == severity and one.misleads
        ]

    def contradicted(self) -> list[tuple[str, Reported]]:
        """Findings whose sentence is not what the metrics say."""
        return [
            (case.training.id, one)
            for case in self.cases
            for one in {one.sentence: one for v in VIEWS for one in case.reported[v]}.values()
            if one.contradictions
        ]


def judge_folder(folder: Path, *, workers: int) -> Evaluation:
    """Diagnose and judge all journals of a folder."""
    paths = [folder / f"{name}{journal.SUFFIX}" for name in journal.names(folder)]
    with ProcessPoolExecutor(workers) as pool:
        return judge(pool.map(examine, paths, chunksize=4))


def examine(path: Path) -> Case:
    """Diagnose one training."""
    kept = journal.read(path)
    series = kept.series()
    views = {"everything": kept.entries, "scalars": list(kept.scalars())}
    reported = {
        view: tuple(_reported(one, series) for one in journal.findings_of(kept.config, views[view]))
        for view in VIEWS
    }
    return Case(parse(kept.id), kept.result, reported)


def judge(cases: Iterable[Case]) -> Evaluation:
    """Compare each training with its healthy twins and with the table."""
    found = Evaluation(cases=list(cases))
    twins: dict[str, list[Case]] = defaultdict(list)
    for case in found.cases:
        if case.training.fault_name == HEALTHY:
            twins[case.training.task_name].append(case)
            found.healthy.append(case)
    for case in found.cases:
        beside = twins[case.training.task_name]
        if case.training.fault_name == HEALTHY or not beside:
            continue
        if is_harmful(case, beside):
            found.harmful += [_judged(case, view, beside) for view in VIEWS]
        else:
            found.harmless.append(case)
    return found


def is_harmful(case: Case, twins: Sequence[Case]) -> bool:
    """Whether a fault did harm by its own measure, beyond the spread of the healthy twins."""
    assert case.training.fault is not None
    honest = [twin.result["result"] for twin in twins]
    low, high = min(honest), max(honest)
    spread = max(high - low, 0.02 * abs(high))
    own = case.result["result"]
    if case.training.fault.harm == "reported":
        return not abs(case.result["reported"] - own) <= spread
    return not own <= high + 0.5 * spread


def worth(finding: Reported, table: Accepted) -> Outcome:
    """What a finding is worth for a fault."""
    if finding.rule in table.rules or _has(table.words, finding.sentence):
        return "right"
    is_short = len(finding.advice.split()) <= accepted.LONGEST_ADVICE_WORDS
    if is_short and _has(table.words, finding.advice):
        return "right"
    return "symptom" if finding.rule in table.symptom else "missed"


def _has(words: Sequence[str], text: str) -> bool:
    return any(re.search(word, text, re.IGNORECASE) for word in words)


def _judged(case: Case, view: View, twins: Sequence[Case]) -> Judged:
    """The best that a finding is worth which healthy twins are not told as well."""
    table = ACCEPTED[case.training.fault_name]
    usual = Counter(rule for twin in twins for rule in {one.rule for one in twin.reported[view]})
    own = [one for one in case.reported[view] if 2 * usual[one.rule] < len(twins)]
    ranked = sorted(own, key=lambda one: OUTCOMES.index(worth(one, table)))
    best = ranked[0] if ranked and worth(ranked[0], table) != "missed" else None
    others = {one.rule for one in own if worth(one, table) == "missed"}
    outcome = worth(best, table) if best is not None else "missed"
    return Judged(case, view, outcome, best, tuple(sorted(others)))


def _reported(finding: Finding, series: journal.Series) -> Reported:
    return Reported(
        finding.rule,
        finding.severity,
        finding.sentence,
        finding.advice,
        misleads(finding, series),
        tuple(contradictions(finding, series)),
    )


def misleads(finding: Finding, series: journal.Series) -> bool:
    """Whether a finding would mislead about a healthy training."""
    if finding.severity != "info":
        return True
    if finding.rule in accepted.FACTUAL_NOTES:
        return False
    if finding.rule not in accepted.STANDSTILL_NOTES or finding.steps is None:
        return True
    points = series.get("train/loss") or series.get("loss") or []
    return falls_after(points, finding.steps[0])


def falls_after(points: Sequence[tuple[int, float]], step: int) -> bool:
    """Whether a loss falls after a step by a share of what it had fallen before, beyond noise."""
    before = [value for at, value in points if at <= step]
    after = [value for at, value in points if at > step]
    if len(before) < 20 or len(after) < 20:
        return False
    count = max(10, len(points) // 20)
    start, then = _middle(before[:count]), _middle(before[-count:])
    end = min(_middle(after[place : place + count]) for place in range(0, len(after), count))
    # The standard error of a median of so many values, by how far neighbours are apart.
    apart = _middle([abs(b - a) for a, b in pairwise(after)])
    error = 1.25 * apart / 0.954 / math.sqrt(count)
    least = max(accepted.STANDSTILL_FALL * max(start - then, 0.0), _ERRORS * error)
    return then - end > least


def _middle(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]


def summary(found: Evaluation) -> Iterator[str]:
    """The numbers of an evaluation, line by line."""
    yield (
        f"{len(found.healthy)} healthy trainings ({found.healthy_steps:,} steps), "
        f"{len(found.harmful) // len(VIEWS)} harmful faults, {len(found.harmless)} harmless"
    )
    for view in VIEWS:
        counts = found.count(view)
        total = max(1, counts.total())
        shares = ", ".join(f"{100 * counts[one] / total:.1f} % {one}" for one in OUTCOMES)
        false = ", ".join(
            f"{len(found.false(view, severity))} false {word}"
            for severity, word in (("error", "errors"), ("warning", "warnings"), ("info", "notes"))
        )
        yield f"{view}: {shares}; {false}"
    yield f"{len(found.contradicted())} contradicted sentences"


def details(found: Evaluation) -> Iterator[str]:
    """Everything that is wrong, and each harmful training that is not right."""
    for view in VIEWS:
        for severity in ("error", "warning", "info"):
            for name, one in found.false(view, severity):
                yield f"false {severity} ({view}) {name}: {one.rule}: {one.sentence}"
    for name, one in found.contradicted():
        yield f"contradicted {name}: {one.rule}: {one.sentence} ({'; '.join(one.contradictions)})"
    for judged in sorted(found.harmful, key=lambda one: (one.view, one.case.training)):
        if judged.outcome != "right":
            best = f"{judged.best.rule}: {judged.best.sentence}" if judged.best else "-"
            others = f" (others: {', '.join(judged.others)})" if judged.others else ""
            yield f"{judged.outcome} ({judged.view}) {judged.case.training.id}: {best}{others}"


def markdown(found: Evaluation) -> Iterator[str]:
    """A table with a row for each fault."""
    yield from (f"- {line}" for line in summary(found))
    yield ""
    yield "| fault | harmful | right | symptom | missed | right from scalars |"
    yield "|---|---:|---:|---:|---:|---:|"
    for fault in ACCEPTED:
        everything, scalars = (found.count(view, fault) for view in VIEWS)
        if everything:
            cells = (everything.total(), *(everything[one] for one in OUTCOMES), scalars["right"])
            yield f"| {fault} | {' | '.join(map(str, cells))} |"
