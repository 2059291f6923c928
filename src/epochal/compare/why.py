"""Explains why one run is worse than another, or than a group of runs.

The gap is judged first: by the scatter of the curves (``series/parting.py``), and by the spread of
repeats where the project has runs that differ in nothing but a seed. Then every recorded
difference has a score and its reason in words. A score is between 0 and 1. It is a judgement, not a
probability: it orders what to try first. It starts from what is usual (``facts.py``), or from what
the project's runs show (``importance.py``), and changes with when the curves part, and with what
else differs.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from epochal.compare.facts import (
    FACT_AREAS,
    NEGLIGIBLE,
    Area,
    RunFacts,
    code_of,
    common_metric,
    compared_data,
    data_differences,
    is_rate,
    is_repeat,
    read_facts,
    task_of,
    weigh,
)
from epochal.compare.groups import (
    RunValues,
    comparable,
    group_members,
    level_text,
    members_of,
    read_values,
    repeat_keys,
)
from epochal.compare.importance import FEWEST_RUNS, Importance, Parameter, importance_of
from epochal.errors import MetricNotFoundError, UsageError
from epochal.health.finding import Finding
from epochal.journal.row import RunRow
from epochal.records.format import format_number, plural
from epochal.series.aggregate import Number
from epochal.series.parting import end_of, noise_between, noise_of_progress, parting
from epochal.series.statistics import t_quantile
from epochal.series.trend import Goal
from epochal.store.comparison import (
    ALL_FINISHED,
    MISSING,
    Unfinished,
    unfinished_of,
    unfinished_text,
)
from epochal.store.run import RunView
from epochal.store.store import Store

Verdict = Literal["same", "noise", "explained", "several", "weak", "unexplained"]
Kind = Literal["cause", "symptom"]

# More members than these say the same, and each has to be read.
MOST_MEMBERS = 50
MOST_TO_LEARN_FROM = 1000
# The rules may have to read a whole run: so many members of a group are enough.
MOST_WITH_FINDINGS = 8
_ELIMINATION = 0.25
# Runs are as long as each other if their last points are no further apart, of the longer run.
_AS_LONG = 0.02
_MAD = 1.4826
# The noise of two curves beside the spread of repeats: about two is usual.
_FAR_NOISIER = 5.0
_LATE = 0.3
_RATE_DIFFERS = 0.01
_SEVERITY_SCORES = {"error": 0.8, "warning": 0.5, "info": 0.15}
# A mistake in the program or its data that only the worse run has.
_FAULT_SCORES = {"error": 0.9, "warning": 0.8, "info": 0.15}
_EXPLAINS = 0.5
# Scores nearer than this do not tell which of two differences it was.
_ALIKE = 0.15
_MOST_SAID = 4
# Of warnings and errors, not of notes, nor of what the better side has.
_TOLD_FINDING = 0.3


@dataclass(frozen=True, slots=True)
class RunDifference:
    """Something that the first run has otherwise: both values, a score, and the reason for it.

    A cause can change training; a symptom shows what happened. ``others`` says how many of a group
    differ from the run (``5 of 6``), and is empty for a single run.
    """

    area: Area
    key: str
    left: Any
    right: Any
    score: float
    reason: str
    kind: Kind = "cause"
    others: str = ""

    @property
    def is_repeat(self) -> bool:
        """Whether it only repeats the experiment, as a seed does."""
        return self.area in ("config", "data") and is_repeat(self.key)


@dataclass(frozen=True, slots=True)
class RepeatSpread:
    """How much repeats differ: the usual deviation, from so many runs of so many configs."""

    std: float
    num_runs: int
    num_configs: int

    @property
    def limit(self) -> float:
        """The gap of two runs that chance alone rarely exceeds (5 %)."""
        return t_quantile(0.975, self.num_runs - self.num_configs) * self.std * math.sqrt(2)


@dataclass(frozen=True, slots=True)
class Side:
    """One side: a run, or a group; ``value`` is where the metric ends, for a group the median.

    It is the mean of the last ``points`` points up to ``at``.
    """

    name: str
    runs: tuple[str, ...]
    value: Number
    at: float
    points: int


@dataclass(frozen=True, slots=True)
class Why:
    """The answer: the gap, where the curves part, and the differences, best explanation first.

    Causes stand before symptoms. ``gap`` is the left value minus the right one, ``noise`` the least
    gap that counts. ``worse`` is None where the goal is not known or the values are equal.
    ``equal`` areas were compared and do not differ, ``unknown`` ones were not compared, because not
    both sides recorded enough of them. ``unfinished`` are the unfinished runs of the group that the
    run is compared with.
    """

    metric: str
    goal: Goal | None
    x: str
    left: Side
    right: Side
    gap: Number
    noise: float
    worse: Literal["left", "right"] | None
    parted_at: float | None
    repeats: RepeatSpread | None
    verdict: Verdict
    sentence: str
    differences: tuple[RunDifference, ...]
    equal: tuple[Area, ...]
    unknown: tuple[Area, ...]
    unfinished: Unfinished


def why_in(
    store: Store,
    run: RunView,
    other: RunView | None = None,
    *,
    against: str | None = None,
    metric: str | None = None,
    unfinished: bool = False,
) -> Why:
    """Why a run of a store differs in a metric from another run, those of a query, or its group.

    Of a query and of a group, unfinished runs are left out unless ``unfinished``. The metric is
    the evaluation loss or the loss by default. Raises ``MetricNotFoundError``.
    """
    if other is not None and against is not None:
        raise UsageError("a run is compared with another run or with those of a query, not both.")
    info = run.info
    project = [one for one in _comparable(store.runs()) if one[1].project == info.project]
    left = ALL_FINISHED
    if other is not None:
        others = [other]
    else:
        peers = project if against is None else _comparable(store.runs(against))
        if against is None and info.group is not None:
            peers = [one for one in peers if one[1].group == info.group]
        rows = [row for _, row in peers if row.id != info.id]
        left = unfinished_of(rows, include=unfinished)
        others = [one for one, row in peers if row.id not in left.left_out]
    others = [one for one in others if one.id != run.id][:MOST_MEMBERS]
    if not others:
        raise UsageError("there is no other run to compare with.")
    compared = [run, *others]
    name = common_metric([list(one.metrics()) for one in compared], metric)
    own, *facts = [
        read_facts(one, name, with_findings=place <= MOST_WITH_FINDINGS)
        for place, one in enumerate(compared)
    ]
    if own.curve is None:
        raise MetricNotFoundError(f"run {own.info.name!r} has no point of the metric.")
    x = own.curve.x
    known = [one for one in facts if one.curve is not None and one.curve.x == x]
    if not known:
        raise MetricNotFoundError("no other run has points of the metric on the same axis.")
    try:
        teachers = members_of(one for one, _ in project[:MOST_TO_LEARN_FROM])
        values = read_values(teachers, name)
    except MetricNotFoundError:
        return _Explanation(own, known, left).why()
    learnt = importance_of(values)
    enough = learnt if learnt.num_runs >= FEWEST_RUNS else None
    return _Explanation(own, known, left, enough, _repeat_spread(values, run)).why()


def _comparable(runs: Iterable[RunView]) -> list[tuple[RunView, RunRow]]:
    found = ((one, one.outline()) for one in runs)
    return [one for one in found if not one[1].hidden and one[1].status.state != "unreadable"]


def _repeat_spread(values: RunValues, run: RunView) -> RepeatSpread | None:
    """The usual deviation of runs of one config, over all configs that have several runs.

    Only runs of the task that a run has count: other data has another spread.
    """
    known = values.counted()
    repeats = repeat_keys(list(dict.fromkeys(key for one in values.members for key in one.config)))
    if not repeats:
        return None
    apart: list[float] = []
    num_runs = num_configs = 0
    task, last_at = task_of(run, values.metric), {one.run: one.at or 0.0 for one in values.values}
    for group in group_members(values.members, all_but=repeats).groups:
        # Runs that went wrong repeat nothing, nor do runs of other code.
        rows = [(one, one.info) for one in group.members if one.info.id in known]
        counted = [one for one, row in rows if not (row.open_errors or row.open_warnings)]
        by_code: dict[str, list[float]] = {}
        # A run that stopped early is no repeat of a longer one.
        longest = max((last_at[one.info.id] for one in counted), default=0.0)
        counted = [one for one in counted if last_at[one.info.id] >= (1 - _AS_LONG) * longest]
        for one in counted if len(counted) > 1 else ():
            if task_of(one.run, values.metric) == task:
                by_code.setdefault(code_of(one.run), []).append(known[one.info.id])
        for own in by_code.values():
            if len(own) > 1:
                apart += [abs(left - right) for left, right in itertools.combinations(own, 2)]
                num_runs, num_configs = num_runs + len(own), num_configs + 1
    # One pair says next to nothing about a spread.
    if num_runs - num_configs < 2:
        return None
    # The median: a run that diverged says nothing of the others' noise.
    return RepeatSpread(_MAD * float(np.median(apart)) / math.sqrt(2), num_runs, num_configs)


class _Explanation:
    def __init__(
        self,
        left: RunFacts,
        others: Sequence[RunFacts],
        unfinished: Unfinished,
        learnt: Importance | None = None,
        repeats: RepeatSpread | None = None,
    ) -> None:
        self._left, self._others, self._unfinished = left, others, unfinished
        # What other runs of the project teach: which keys matter, and how much repeats differ.
        self._learnt, self._repeats = learnt, repeats
        self._is_group = len(others) > 1
        metrics = (one.metric for one in (left, *others))
        self._goal = next((one.goal for one in metrics if one and one.goal), None)
        self._curves = [one.curve for one in (left, *others) if one.curve is not None]
        self._end, *self._ends = map(end_of, self._curves)
        # The member in the middle stands for the group wherever one curve is needed.
        order = sorted(range(len(others)), key=lambda at: self._placed(self._ends[at].value))
        middle = order[(len(order) - 1) // 2]
        self._other, self._other_end = others[middle], self._ends[middle]
        self._other_curve = self._curves[1 + middle]
        self._gap = self._minus(self._end.value, self._other_end.value)
        self._parting = parting(self._curves[0], self._other_curve, self._goal)
        self._parted_at = None if self._parting is None else self._parting.parted_at
        self._worse: Literal["left", "right"] | None = None
        if self._goal is not None and self._gap != 0:
            self._worse = "left" if (self._gap > 0) == (self._goal == "min") else "right"

    def _placed(self, value: float) -> float:
        return value if math.isfinite(value) else -math.inf if self._goal == "max" else math.inf

    def _minus(self, left: float, right: float) -> float:
        """The difference of two ends; what is not finite is infinitely worse than what is."""
        first, second = self._placed(left), self._placed(right)
        return 0.0 if first == second else first - second

    def why(self) -> Why:
        found = [*self._facts(), *self._data(), *self._rates(), *self._progress()]
        found = [*_by_elimination(_merged(_without_copies(found))), *self._findings()]
        found.sort(key=lambda one: (one.kind == "symptom", -one.score))
        known = [area for area in FACT_AREAS if self._has(area)]
        differing = {one.area for one in found}
        info, end, other_end = self._left.info, self._end, self._other_end
        ids = tuple(one.info.id for one in self._others)
        name = f"{len(ids)} other runs" if self._is_group else self._other.info.name
        draft = Why(
            metric="" if self._left.metric is None else self._left.metric.name,
            goal=self._goal,
            x=self._curves[0].x,
            left=Side(info.name, (info.id,), end.value, end.at, max(1, end.points.size)),
            right=Side(name, ids, other_end.value, other_end.at, max(1, other_end.points.size)),
            gap=self._gap,
            noise=self._least_gap(),
            worse=self._worse,
            parted_at=self._parted_at,
            repeats=self._repeats,
            verdict="same",
            sentence="",
            differences=tuple(found),
            equal=tuple(area for area in known if area not in differing),
            unknown=tuple(area for area in FACT_AREAS if area not in known),
            unfinished=self._unfinished,
        )
        verdict = _verdict(draft)
        sentence = " ".join((_sentence(draft, verdict), *self._unfinished_sentences()))
        return replace(draft, verdict=verdict, sentence=sentence)

    def _unfinished_sentences(self) -> Iterator[str]:
        named = {self._left.info.id, *(one.info.id for one in self._others if not self._is_group)}
        for info in (one.info for one in (self._left, *self._others) if one.info.id in named):
            if (text := unfinished_text(info)) is not None:
                yield f"{info.name} has not finished ({text})."
        if {one.run for one in self._unfinished.runs} - named:
            yield self._unfinished.sentence

    def _least_gap(self) -> float:
        """The least gap that counts: by the scatter of the curves, and of the group's members.

        Repeats have the noise of the curves as well. Where the curves are not far noisier than
        repeats, their spread decides: it is measured, and no trend of a curve is in it.
        """
        noise, repeats = noise_between(self._curves[0], self._other_curve), self._repeats
        is_unknown = math.isnan(self._end.error + self._other_end.error)
        if repeats is not None and (is_unknown or noise < _FAR_NOISIER * repeats.limit):
            noise = min(noise, repeats.limit)
        if (progress := self._noise_of_progress()) is not None:
            noise = min(noise, progress)
        values = [one.value for one in self._ends if math.isfinite(one.value)]
        if len(values) < 3:
            return noise
        # Nineteen of twenty further members of the group lie within this.
        spread = float(np.std(values, ddof=1)) * math.sqrt(1 + 1 / len(values))
        return max(noise, t_quantile(0.975, len(values) - 1) * spread)

    def _noise_of_progress(self) -> float | None:
        """The noise of what the longer run gained after the other had stopped; None if nothing."""
        ends, curves = (self._end.at, self._other_end.at), (self._curves[0], self._other_curve)
        if self._is_as_long() or self._worse is None:
            return None
        is_left = ends[0] > ends[1]
        if self._worse == ("left" if is_left else "right"):
            return None
        return noise_of_progress(curves[0 if is_left else 1], min(ends))

    def _is_as_long(self) -> bool:
        own, other = self._end.at, self._other_end.at
        return max(own, other) <= 0 or abs(own - other) <= _AS_LONG * max(own, other)

    # -- facts ------------------------------------------------------------------------------------

    def _has(self, area: Area) -> bool:
        """Whether both sides recorded anything of an area."""
        if area in compared_data(self._left, self._other):
            return True
        return area in self._left.facts and any(area in one.facts for one in self._others)

    def _facts(self) -> Iterator[RunDifference]:
        for area in FACT_AREAS:
            sides = [one.facts[area] for one in (self._left, *self._others) if area in one.facts]
            if area not in self._left.facts or len(sides) < 2:
                continue
            for name in dict.fromkeys(name for side in sides for name in side):
                own, *values = (side.get(name, MISSING) for side in sides)
                differing = [one for one in values if comparable(one) != comparable(own)]
                if differing and 2 * len(differing) >= len(values):
                    yield self._fact(area, name, own, differing, len(values))

    def _fact(
        self, area: Area, key: str, own: Any, differing: Sequence[Any], num_others: int
    ) -> RunDifference:
        usual, _ = Counter(map(comparable, differing)).most_common(1)[0]
        other = next(one for one in differing if comparable(one) == usual)
        weight, reason = weigh(area, key, own, other)
        if area == "config" and not is_repeat(key):
            weight, reason = self._weigh_learnt(key, own, other) or (weight, reason)
        weight, reason = self._in_time(weight, reason)
        weight *= len(differing) / num_others
        others = f"{len(differing)} of {num_others}" if self._is_group else ""
        return RunDifference(area, key, own, other, weight, reason, others=others)

    def _data(self) -> Iterator[RunDifference]:
        """Data loaders that both runs watched."""
        for area, key, (own, other), weight, reason in data_differences(self._left, self._other):
            yield RunDifference(area, key, own, other, *self._in_time(weight, reason))

    def _weigh_learnt(self, key: str, own: Any, other: Any) -> tuple[float, str] | None:
        """The weight of a key by what the project's runs show; None where they show nothing."""
        learnt = self._learnt
        parameters = () if learnt is None else learnt.parameters
        known = (one for one in parameters if key in (one.key, *one.same_as))
        parameter = next(known, None)
        if learnt is None or parameter is None or parameter.verdict == "too few runs":
            return None
        start = f"Across the {learnt.num_runs} runs of the project, {key} has"
        if parameter.verdict == "no effect seen":
            return 0.25, f"{start} no clear effect on {learnt.metric}."
        if parameter.verdict == "little effect":
            return 0.25, f"{start} little effect on {learnt.metric}."
        says = f"It explains {100 * parameter.score:.0f} % of the order of {learnt.num_runs} runs"
        expected = _median_at(parameter, own) - _median_at(parameter, other)
        if math.isnan(expected) or expected == 0 or not math.isfinite(self._gap):
            return 0.6 + 0.3 * parameter.score, f"{says} of the project."
        if expected * self._gap <= 0:
            return 0.25, f"{says}, but there its values differ the other way."
        share = min(1.0, abs(expected / self._gap))
        means = f"there its two values differ by {format_number(abs(expected))} in the median"
        return 0.55 + 0.2 * parameter.score + 0.2 * share, f"{says}; {means}."

    def _in_time(self, weight: float, reason: str) -> tuple[float, str]:
        """What acts from the start explains curves that part early better than late ones."""
        where, parted_at = self._parting, self._parted_at
        if weight < NEGLIGIBLE or where is None or parted_at is None or where.last <= where.first:
            return weight, reason
        if (parted_at - where.first) / (where.last - where.first) <= _LATE:
            return weight, reason
        return 0.8 * weight, f"{reason} It acts from the start; the curves part late."

    # -- curves -----------------------------------------------------------------------------------

    def _rates(self) -> Iterator[RunDifference]:
        """Learning rates that were recorded and differ."""
        own, other = self._left.rates, self._other.rates
        if own is None or other is None:
            return
        at = np.intersect1d(own.at, other.at)
        first, second = (one.floats[np.searchsorted(one.at, at)] for one in (own, other))
        with np.errstate(invalid="ignore"):
            limit = _RATE_DIFFERS * np.maximum(np.abs(first), np.abs(second))
            apart = np.flatnonzero(np.abs(first - second) > limit)
        if not apart.size:
            return
        step, left, right = at[apart[0]], float(first[apart[0]]), float(second[apart[0]])
        weight, _ = weigh("config", "lr", left, right)
        reason = f"The recorded learning rates differ from step {step:,.0f} on"
        if self._parted_at is not None and step > self._parted_at:
            weight, reason = 0.2, f"{reason}; the curves part before that"
        elif self._parted_at is not None:
            reason = f"{reason}; the curves part at step {self._parted_at:,.0f}"
        yield RunDifference("schedule", "learning rate", left, right, weight, f"{reason}.")

    def _progress(self) -> Iterator[RunDifference]:
        """A run that stopped earlier than the other."""
        own, other = self._end.at, self._other_end.at
        last, x = min(own, other), self._curves[0].x
        if self._is_as_long():
            return
        then = [one.between(None, last) for one in (self._curves[0], self._other_curve)]
        if not all(map(len, then)):
            return
        gap_then = self._minus(*(end_of(one).value for one in then))
        reason = (
            f"At {x} {last:,.0f}, the last that both have, the gap of the means is"
            f" {format_number(gap_then)}."
        )
        score = 0.1
        if math.isfinite(gap_then) and math.isfinite(self._gap) and self._gap:
            score = 0.95 * float(np.clip(1 - gap_then / self._gap, 0.0, 1.0))
        yield RunDifference("progress", f"last {x}", own, other, score, reason)

    def _findings(self) -> Iterator[RunDifference]:
        read = [one.findings for one in self._others if one.findings is not None]
        left = self._left.findings
        if left is None or not read:
            return
        for rule in dict.fromkeys(rule for one in (left, *read) for rule in one):
            having = [one[rule] for one in read if rule in one]
            is_left = rule in left
            if (2 * len(having) >= len(read)) if is_left else (2 * len(having) <= len(read)):
                continue
            seen = left[rule] if is_left else having[0]
            owners = [self._left] if is_left else self._others
            is_fault = any(rule in one.faults for one in owners)
            kind, score, reason = self._weigh_finding(seen, is_left=is_left, is_fault=is_fault)
            values = (seen.sentence, MISSING) if is_left else (MISSING, seen.sentence)
            others = f"{len(having)} of {len(read)} have it" if self._is_group else ""
            yield RunDifference("findings", rule, *values, score, reason, kind, others)

    def _weigh_finding(
        self, seen: Finding, *, is_left: bool, is_fault: bool
    ) -> tuple[Kind, float, str]:
        """What a finding of one side explains: a fault is a cause, other findings show a gap."""
        score, is_group = _SEVERITY_SCORES[seen.severity], self._is_group and not is_left
        only = "Only these runs have the finding." if is_group else "Only this run has the finding."
        if self._worse not in (None, "left" if is_left else "right"):
            better = "Only the better runs have it." if is_group else "Only the better run has it."
            return "symptom", 0.1 * score, better
        is_late = seen.steps and self._parted_at is not None and seen.steps[0] > self._parted_at
        if is_late:
            late = f"{only} It comes after the curves part, so it may be a consequence."
            return "symptom", 0.7 * score, late
        if not is_fault:
            return "symptom", score, f"{only} It may be a consequence."
        where = "data" if seen.rule.startswith("data-") else "code"
        score = _FAULT_SCORES[seen.severity]
        return "cause", score, f"{only} This is a fault in the {where} and can explain the gap."


def _by_elimination(found: Sequence[RunDifference]) -> list[RunDifference]:
    """The only difference that can change training explains more than one among many."""
    possible = _causes(found)
    if len(possible) != 1 or any(one.is_repeat for one in found):
        return list(found)
    (only,) = possible
    reason = f"{only.reason} No other recorded difference can change training."
    stronger = replace(only, score=min(0.95, only.score + _ELIMINATION), reason=reason)
    return [stronger if one is only else one for one in found]


def _without_copies(found: Sequence[RunDifference]) -> list[RunDifference]:
    """Settings of an optimizer that differ because a key of the config does are one difference."""
    keys = [one for one in found if one.area == "config"]
    has_rate = any(is_rate(one.key) for one in found if one.area in ("config", "schedule"))

    def is_copy(one: RunDifference) -> bool:
        return (has_rate and is_rate(one.key)) or any(
            (comparable(key.left), comparable(key.right))
            == (comparable(one.left), comparable(one.right))
            for key in keys
        )

    return [one for one in found if one.area != "optimizer" or not is_copy(one)]


def _merged(found: Sequence[RunDifference]) -> list[RunDifference]:
    """Learning rates that differ because a key of the config does are one difference with it."""
    rates = next((one for one in found if one.area == "schedule"), None)
    keys = [one for one in _causes(found) if one.area == "config" and is_rate(one.key)]
    if rates is None or not keys:
        return list(found)
    best = max(keys, key=lambda one: one.score)
    score = min(0.95, best.score + 0.05) if rates.score >= NEGLIGIBLE else best.score
    proven = replace(best, score=score, reason=f"{best.reason} {rates.reason}")
    return [proven if one is best else one for one in found if one is not rates]


def _median_at(parameter: Parameter, value: Any) -> float:
    """The median of the project's runs with a value of a key; nan without one."""
    found = [one for one in parameter.levels if comparable(one.value) == comparable(value)]
    if not found and parameter.is_numeric and isinstance(value, (int, float)):
        found = [min(parameter.levels, key=lambda one: abs(float(one.value) - float(value)))]
    return found[0].median if found else math.nan


# -- in words -------------------------------------------------------------------------------------


def _verdict(why: Why) -> Verdict:
    """Whether the gap is noise, and how well the differences explain it."""
    causes, fault = _causes(why.differences), _fault_of(why)
    if abs(why.gap) <= why.noise:
        return "same" if fault is None else "explained"
    if (_is_spread(why) and fault is None) or (
        not causes and any(one.is_repeat for one in why.differences)
    ):
        return "noise"
    if not causes:
        return "unexplained"
    if causes[0].score < _EXPLAINS:
        return "weak"
    return "explained" if len(_alike(causes)) == 1 else "several"


def _fault_of(why: Why) -> RunDifference | None:
    """The gravest fault that was found in the worse run only."""
    faults = (one for one in _causes(why.differences) if one.area == "findings")
    return next(faults, None) if why.worse is not None else None


def _sentence(why: Why, verdict: Verdict) -> str:
    names = (why.left.name, why.right.name)
    ends = " and ".join(
        f"{side.name}{' ends' if side is why.left else ''} at"
        f" {'a mean ' if side.points > 1 else ''}{why.metric} of {format_number(side.value)}"
        for side in (why.left, why.right)
    )
    gap, noise = format_number(abs(why.gap)), format_number(why.noise)
    if verdict == "same":
        return f"{ends}: a gap of {gap} is within noise ({noise}).{_shown(why)}"
    if abs(why.gap) <= why.noise:
        scatter = f"a gap of {gap}, although the curves scatter by {noise}"
        return f"{ends}: {scatter}. {_conclusion(why, verdict)}{_shown(why)}"
    if why.worse is None:
        start = f"{ends}; which is better is not known."
    else:
        worse, better = names if why.worse == "left" else reversed(names)
        by = f" by {gap}" if math.isfinite(why.gap) else ""
        several = len((why.left if why.worse == "left" else why.right).runs) > 1
        verb = "are" if several else "is"
        start = f"{worse} {verb} worse than {better}{by} in {why.metric}."
    if why.parted_at is not None:
        start += f" The curves part at {why.x} {why.parted_at:,.0f}."
    return f"{start} {_conclusion(why, verdict)}{_shown(why)}"


def _shown(why: Why) -> str:
    """The findings of one run only: they say more of what happened than a changed file does."""
    symptoms = [one for one in why.differences if one.kind == "symptom"]
    own = [one for one in symptoms if one.area == "findings" and one.score >= _TOLD_FINDING]
    sides = [(why.left, [one.key for one in own if one.right == MISSING])]
    if len(why.right.runs) == 1:
        sides.append((why.right, [one.key for one in own if one.left == MISSING]))
    return "".join(
        f" Only {side.name} has findings of {', '.join(rules[:_MOST_SAID])}."
        for side, rules in sides
        if rules
    )


def _conclusion(why: Why, verdict: Verdict) -> str:
    causes, spread = _causes(why.differences), why.repeats
    repeats = ", ".join(one.key for one in why.differences if one.is_repeat)
    if verdict == "noise":
        if spread is not None and _is_spread(why):
            configs = plural(spread.num_configs, "configuration")
            runs = f"{spread.num_runs} runs of {configs}"
            return f"That is noise: repeats differ by up to {format_number(spread.limit)} ({runs})."
        return (
            f"That is noise as far as is recorded: only {repeats} differs, which repeats the run."
        )
    if verdict == "unexplained":
        missing = f" Not compared: {', '.join(why.unknown)}." if why.unknown else ""
        equal = f" Equal: {', '.join(why.equal)}." if why.equal else ""
        return f"No recorded difference explains it.{equal}{missing}"
    first = causes[0]
    # As a difference of the worse side.
    values = (first.right, first.left) if why.worse == "right" else (first.left, first.right)
    own, other = map(value_text, values)
    text = f"the difference in {first.area} {first.key}: {own} instead of {other}"
    if first.area == "findings":
        text = f"the finding {first.key}: {own.removesuffix('.')}"
    if verdict == "weak":
        return f"The best explanation is weak. It is {text}."
    if verdict == "several":
        alike = [f"{one.area} {one.key}" for one in _alike(causes)]
        more = f" and {len(alike) - _MOST_SAID} more" if len(alike) > _MOST_SAID else ""
        return (
            f"{len(alike)} differences explain it about equally:"
            f" {', '.join(alike[:_MOST_SAID])}{more}."
            " Change one at a time to tell which it is."
        )
    doubt = ""
    if spread is not None and _is_spread(why):
        limit = format_number(spread.limit)
        doubt = f" Repeats differ by up to {limit}, so the gap alone proves nothing."
    elif repeats and spread is None:
        doubt = f" {repeats} differs too, and no repeats tell how much that alone changes."
    return f"The best explanation is {text}.{doubt}"


def value_text(value: Any) -> str:
    """A value of a difference for people."""
    return (value or "nothing") if isinstance(value, str) else level_text(value)


def _is_spread(why: Why) -> bool:
    """Whether the gap is one that repeats have as well."""
    return why.repeats is not None and abs(why.gap) <= why.repeats.limit


def _causes(found: Iterable[RunDifference]) -> list[RunDifference]:
    return [one for one in found if one.kind == "cause" and one.score >= NEGLIGIBLE]


def _alike(causes: Sequence[RunDifference]) -> list[RunDifference]:
    return [one for one in causes if one.score > causes[0].score - _ALIKE]
