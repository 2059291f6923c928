"""Explains why one run is worse than another, or than a group of runs.

The gap is judged first: by the scatter of the curves (``series/parting.py``), and by the spread of
repeats where the project has runs that differ in nothing but a seed. Then every recorded
difference has a score and its reason in words. The score starts from what is usual
(``difference_weights.py``), or from what the project's runs show (``importance.py``). It changes
with when the curves part, and with what else differs.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from epochal.errors import MetricNotFoundError, UsageError
from epochal.format import format_number
from epochal.series.aggregate import Points
from epochal.series.distributions import t_quantile
from epochal.series.parting import End, Parting, end_of, noise_between, parting
from epochal.series.trend import Goal
from epochal.store.comparison import MISSING
from epochal.store.data_facts import data_differences
from epochal.store.difference_weights import NEGLIGIBLE, is_rate, is_repeat, is_same, weigh
from epochal.store.groups import (
    Group,
    GroupValue,
    comparable,
    group_members,
    group_values,
    level,
    members_of,
    repeat_keys,
)
from epochal.store.importance import FEWEST_RUNS, Importance, Parameter, importance_of
from epochal.store.run_facts import FACT_AREAS, Area, RunFacts, code_of, common_metric, read_facts
from epochal.store.store import RunView, Store
from epochal.store.unfinished import ALL_FINISHED, Unfinished, peers_of, progress_sentences
from epochal.store.why import RepeatSpread, RunDifference, Side, Why, sentence_of, verdict_of

# More members than these say the same, and each has to be read.
MOST_MEMBERS = 50
MOST_TO_LEARN_FROM = 1000
# The rules may have to read a whole run: so many members of a group are enough.
MOST_WITH_FINDINGS = 8
_ELIMINATION = 0.25
_MAD = 1.4826
_LATE = 0.3
_RATE_DIFFERS = 0.01
_SPEED_DIFFERS = 0.05
_SEVERITY_SCORES = {"error": 0.8, "warning": 0.5, "info": 0.15}


@dataclass(frozen=True, slots=True, eq=False)
class Project:
    """What other runs of the project teach: which keys matter, and how much repeats differ."""

    importance: Importance | None = None
    repeats: RepeatSpread | None = None


def why(
    run: RunView,
    others: Sequence[RunView],
    *,
    metric: str | None = None,
    project: Iterable[RunView] = (),
    unfinished: Unfinished = ALL_FINISHED,
) -> Why:
    """Why a run differs from others in a metric, by default in the evaluation loss or the loss.

    ``project`` are runs to learn from which keys matter, ``unfinished`` those that were left out of
    the others. Raises ``MetricNotFoundError``.
    """
    others = [one for one in others if one.id != run.id][:MOST_MEMBERS]
    if not others:
        raise UsageError("there is no other run to compare with.")
    name = common_metric([list(one.metrics()) for one in (run, *others)], metric)
    facts = [
        read_facts(one, name, with_findings=place <= MOST_WITH_FINDINGS)
        for place, one in enumerate((run, *others))
    ]
    members = members_of(project)
    try:
        (values,) = group_values([Group((), (), tuple(members))], name)
    except MetricNotFoundError:
        return explain(facts[0], facts[1:], None, unfinished)
    return explain(facts[0], facts[1:], learn(values), unfinished)


def why_in(
    store: Store,
    key: str,
    other: str | None = None,
    *,
    against: str | None = None,
    metric: str | None = None,
    unfinished: bool = False,
) -> Why:
    """Like ``why`` for runs of a store: another run, those of a query, or the run's own group.

    Of a query and of a group, unfinished runs are left out unless ``unfinished``.
    """
    run = store.run(key)
    if other is not None and against is not None:
        raise UsageError("a run is compared with another run or with those of a query, not both.")
    every = list(store.runs())
    left = ALL_FINISHED
    if other is not None:
        others: Sequence[RunView] = [store.run(other)]
    else:
        candidates = every if against is None else store.runs(against)
        infos = {one.id: one.outline() for one in candidates}
        ids, left = peers_of(
            run.info, infos.values(), is_query=against is not None, unfinished=unfinished
        )
        others = [one for one in candidates if one.id in ids]
    project = [one for one in every if one.outline().project == run.info.project]
    return why(run, others, metric=metric, project=project[:MOST_TO_LEARN_FROM], unfinished=left)


def learn(values: GroupValue) -> Project:
    """Learn from one group of all runs of a project and their values of the metric."""
    found = importance_of(values)
    enough = found if found.num_runs >= FEWEST_RUNS else None
    return Project(enough, _repeat_spread(values))


def explain(
    left: RunFacts,
    others: Sequence[RunFacts],
    project: Project | None = None,
    unfinished: Unfinished = ALL_FINISHED,
) -> Why:
    """Explain why a run differs from one other run, or from several.

    ``unfinished`` were left out. Raises ``MetricNotFoundError`` where a side has no points.
    """
    if left.curve is None or left.metric is None:
        raise MetricNotFoundError(f"run {left.info.name!r} has no point of the metric.")
    known = [one for one in others if one.curve is not None and one.x == left.x]
    if not known:
        raise MetricNotFoundError("no other run has points of the metric on the same axis.")
    return _Explanation(left, left.curve, known, project or Project(), unfinished).why()


class _Explanation:
    def __init__(
        self,
        left: RunFacts,
        curve: Points,
        others: Sequence[RunFacts],
        project: Project,
        unfinished: Unfinished,
    ) -> None:
        self._left, self._others, self._project = left, others, project
        self._unfinished = unfinished
        self._goal = left.goal or next((one.goal for one in others if one.goal), None)
        self._end = end_of(curve)
        ends = [end_of(one.curve) for one in others if one.curve is not None]
        # The member in the middle stands for the group wherever one curve is needed.
        order = sorted(range(len(ends)), key=lambda index: _placed(ends[index].value, self._goal))
        middle = order[len(order) // 2] if len(order) % 2 else order[(len(order) - 1) // 2]
        self._ends, self._other_end, self._other = ends, ends[middle], others[middle]
        assert self._other.curve is not None
        self._gap = _minus(self._end.value, self._other_end.value, self._goal)
        self._parting = parting(curve, self._other.curve, self._goal)
        self._noise = self._least_gap()

    @property
    def _is_group(self) -> bool:
        return len(self._others) > 1

    @property
    def _parted_at(self) -> float:
        where = None if self._parting is None else self._parting.parted_at
        return math.inf if where is None else where

    def why(self) -> Why:
        found = [*self._facts(), *self._data(), *self._rates(), *self._progress(), *self._speeds()]
        found = self._by_elimination(_merged(found))
        found = [*found, *self._findings()]
        found.sort(key=lambda one: (one.kind == "symptom", -one.score))
        parted = self._parting or Parting(math.nan, math.nan, None)
        differing = {one.area for one in found}
        equal = tuple(area for area in FACT_AREAS if self._has(area) and area not in differing)
        unknown = tuple(area for area in FACT_AREAS if not self._has(area))
        why = Why(
            metric="" if self._left.metric is None else self._left.metric.name,
            goal=self._goal,
            x=self._left.x,
            left=_side(self._left.info.name, (self._left.info.id,), self._end),
            right=self._right(),
            gap=self._gap,
            noise=self._noise,
            worse=self._worse(),
            parted_at=parted.parted_at,
            repeats=self._project.repeats,
            verdict="same",
            sentence="",
            differences=tuple(found),
            equal=equal,
            unknown=unknown,
            unfinished=self._unfinished,
        )
        verdict = verdict_of(why)
        named = [self._left, *self._others] if not self._is_group else [self._left]
        progress = progress_sentences([one.info for one in named], self._unfinished)
        sentence = " ".join((sentence_of(why, verdict), *progress))
        return replace(why, verdict=verdict, sentence=sentence)

    def _right(self) -> Side:
        end, other = self._other_end, self._other.info
        if not self._is_group:
            return _side(other.name, (other.id,), end)
        ids = tuple(one.info.id for one in self._others)
        return _side(f"{len(ids)} other runs", ids, end)

    def _worse(self) -> Literal["left", "right"] | None:
        if self._goal is None or self._gap == 0:
            return None
        return "left" if (self._gap > 0) == (self._goal == "min") else "right"

    def _least_gap(self) -> float:
        """The least gap that counts: by the scatter of the curves, and of the group's members."""
        noise = noise_between(self._end, self._other_end)
        values = [one.value for one in self._ends if math.isfinite(one.value)]
        if len(values) < 3:
            return noise
        # Nineteen of twenty further members of the group lie within this.
        spread = float(np.std(values, ddof=1)) * math.sqrt(1 + 1 / len(values))
        return max(noise, t_quantile(0.975, len(values) - 1) * spread)

    # -- facts ------------------------------------------------------------------------------------

    def _has(self, area: Area) -> bool:
        """Whether both sides recorded anything of an area."""
        if area == "data" and self._left.splits and self._other.splits:
            return True
        return area in self._left.facts and any(area in one.facts for one in self._others)

    def _facts(self) -> Iterator[RunDifference]:
        for area in FACT_AREAS:
            if area not in self._left.facts or not self._has(area):
                continue
            sides = [one.facts[area] for one in (self._left, *self._others) if area in one.facts]
            names = dict.fromkeys(name for side in sides for name in side)
            for name in names:
                values = [side.get(name, MISSING) for side in sides]
                if (one := self._fact(area, name, values[0], values[1:])) is not None:
                    yield one

    def _fact(self, area: Area, key: str, own: Any, values: Sequence[Any]) -> RunDifference | None:
        differing = [one for one in values if not is_same(own, one)]
        if 2 * len(differing) < len(values) or not differing:
            return None
        counts = Counter(comparable(level(one)) for one in differing)
        usual = counts.most_common(1)[0][0]
        other = next(one for one in differing if comparable(level(one)) == usual)
        weight, reason = weigh(area, key, own, other)
        if area == "config" and not is_repeat(key):
            weight, reason = self._learnt(key, own, other) or (weight, reason)
        if weight >= NEGLIGIBLE:
            weight, reason = self._in_time(weight, reason)
        weight *= len(differing) / len(values)
        told = f"{len(differing)} of {len(values)}" if self._is_group else ""
        return RunDifference(area, key, own, other, weight, reason, others=told)

    def _data(self) -> Iterator[RunDifference]:
        """Data loaders that both runs watched."""
        for one in data_differences(self._left.splits, self._other.splits):
            weight, reason = one.weight, one.reason
            if weight >= NEGLIGIBLE:
                weight, reason = self._in_time(weight, reason)
            yield RunDifference("data", one.key, one.left, one.right, weight, reason)

    def _learnt(self, key: str, own: Any, other: Any) -> tuple[float, str] | None:
        """The weight of a key by what the project's runs show; None where they show nothing."""
        learnt = self._project.importance
        if learnt is None:
            return None
        known = (one for one in learnt.parameters if key in (one.key, *one.same_as))
        parameter = next(known, None)
        if parameter is None or parameter.verdict == "too few runs":
            return None
        if parameter.verdict == "no effect seen":
            return 0.25, f"Over {learnt.num_runs} runs of the project no effect of it is seen."
        if parameter.verdict == "little effect":
            return 0.25, f"Over {learnt.num_runs} runs of the project it has little effect."
        says = f"It explains {100 * parameter.score:.0f} % of the order of {learnt.num_runs} runs"
        expected = _expected(parameter, own, other)
        if expected is None or not math.isfinite(self._gap):
            return 0.6 + 0.3 * parameter.score, f"{says} of the project."
        if expected * self._gap <= 0:
            return 0.25, f"{says}, but there its values differ the other way."
        share = min(1.0, abs(expected / self._gap))
        means = f"there its two values differ by {format_number(abs(expected))} in the median"
        return 0.55 + 0.2 * parameter.score + 0.2 * share, f"{says}; {means}."

    def _in_time(self, weight: float, reason: str) -> tuple[float, str]:
        """What acts from the start explains curves that part early better than late ones."""
        where = self._parting
        if where is None or where.parted_at is None or where.last <= where.first:
            return weight, reason
        late = (where.parted_at - where.first) / (where.last - where.first)
        if late <= _LATE:
            return weight, reason
        return 0.8 * weight, f"{reason} It acts from the start; the curves part late."

    # -- curves -----------------------------------------------------------------------------------

    def _rates(self) -> Iterator[RunDifference]:
        """Learning rates that were recorded and differ."""
        own, other = self._left.rates, self._other.rates
        if own is None or other is None:
            return
        at = np.intersect1d(own.at, other.at)
        if not at.size:
            return
        values = [one.values[np.searchsorted(one.at, at)] for one in (own, other)]
        with np.errstate(invalid="ignore"):
            apart = np.abs(values[0] - values[1]) > _RATE_DIFFERS * np.maximum(*map(np.abs, values))
        if not apart.any():
            return
        first = int(np.flatnonzero(apart)[0])
        since = f"The recorded learning rates differ from step {at[first]:,.0f} on"
        where = None if self._parting is None else self._parting.parted_at
        now, then = float(values[0][first]), float(values[1][first])
        if where is not None and at[first] > where:
            yield RunDifference(
                "schedule",
                "learning rate",
                now,
                then,
                0.2,
                f"{since}; the curves part before that.",
            )
            return
        before = "" if where is None else f"; the curves part at step {where:,.0f}"
        weight, _ = weigh("config", "lr", now, then)
        yield RunDifference("schedule", "learning rate", now, then, weight, f"{since}{before}.")

    def _progress(self) -> Iterator[RunDifference]:
        """A run that stopped earlier than the other."""
        own, other = self._end.at, self._other_end.at
        longest = max(own, other)
        if longest <= 0 or abs(own - other) <= 0.02 * longest:
            return
        last = min(own, other)
        then = [_until(one.curve, last) for one in (self._left, self._other)]
        if then[0] is None or then[1] is None:
            return
        gap_then = _minus(then[0].value, then[1].value, self._goal)
        where = f"at {self._left.x} {last:,.0f}, the last that both have, the gap of the means is"
        reason = f"{where[0].upper()}{where[1:]} {format_number(gap_then)}."
        if not (math.isfinite(gap_then) and math.isfinite(self._gap) and self._gap):
            score = 0.1
        else:
            score = 0.95 * float(np.clip(1 - gap_then / self._gap, 0.0, 1.0))
        yield RunDifference("progress", f"last {self._left.x}", own, other, score, reason)

    def _speeds(self) -> Iterator[RunDifference]:
        for name, own in self._left.speeds.items():
            others = [one.speeds[name] for one in self._others if name in one.speeds]
            if not others:
                continue
            other = float(np.median(others))
            if abs(own - other) <= _SPEED_DIFFERS * max(abs(own), abs(other)):
                continue
            reason = f"Values are compared at the same {self._left.x}, so speed does not change it."
            yield RunDifference("throughput", name, own, other, 0.04, reason, "symptom")

    def _findings(self) -> Iterator[RunDifference]:
        looked = [one.findings for one in self._others if one.findings is not None]
        left = self._left.findings
        if left is None or not looked:
            return
        for rule in dict.fromkeys(rule for one in (left, *looked) for rule in one):
            own = left.get(rule)
            having = [one[rule] for one in looked if rule in one]
            if own is not None and 2 * len(having) < len(looked):
                seen, is_left = own, True
            elif own is None and 2 * len(having) > len(looked):
                seen, is_left = having[0], False
            else:
                continue
            score = _SEVERITY_SCORES[seen.severity]
            reason = "Only this side has the finding: it shows what happened, not why."
            if self._worse() not in (None, "left" if is_left else "right"):
                score, reason = 0.1 * score, "The better side has it."
            elif seen.step is not None and seen.step > self._parted_at:
                score *= 0.7
                reason = f"{reason} It comes after the curves part, so it may be a consequence."
            told = (seen.sentence, MISSING) if is_left else (MISSING, seen.sentence)
            others = f"{len(having)} of {len(looked)} have it" if self._is_group else ""
            yield RunDifference("findings", rule, *told, score, reason, "symptom", others)

    def _by_elimination(self, found: Sequence[RunDifference]) -> list[RunDifference]:
        """The only difference that can change training explains more than one among many."""
        possible = [one for one in found if one.kind == "cause" and one.score >= NEGLIGIBLE]
        repeats = any(one.area in ("config", "data") and is_repeat(one.key) for one in found)
        if len(possible) != 1 or repeats:
            return list(found)
        only = possible[0]
        reason = f"{only.reason} No other recorded difference can change training."
        stronger = replace(only, score=min(0.95, only.score + _ELIMINATION), reason=reason)
        return [stronger if one is only else one for one in found]


def _merged(found: Sequence[RunDifference]) -> list[RunDifference]:
    """Learning rates that differ because a key of the config does are one difference with it."""
    rates = next((one for one in found if one.area == "schedule"), None)
    keys = [
        one
        for one in found
        if one.area == "config" and is_rate(one.key) and one.score >= NEGLIGIBLE
    ]
    if rates is None or not keys:
        return list(found)
    best = max(keys, key=lambda one: one.score)
    score = min(0.95, best.score + 0.05) if rates.score >= NEGLIGIBLE else best.score
    proven = replace(best, score=score, reason=f"{best.reason} {rates.reason}")
    return [proven if one is best else one for one in found if one is not rates]


def _expected(parameter: Parameter, own: Any, other: Any) -> float | None:
    """How much the medians of two values of a key differ over the project's runs."""
    found = [_median_at(parameter, value) for value in (own, other)]
    if found[0] is None or found[1] is None or found[0] == found[1]:
        return None
    return found[0] - found[1]


def _median_at(parameter: Parameter, value: Any) -> float | None:
    found = [one for one in parameter.levels if is_same(one.value, value)]
    if not found and parameter.is_numeric and isinstance(value, (int, float)):
        found = [min(parameter.levels, key=lambda one: abs(float(one.value) - float(value)))]
    median = found[0].median if found else math.nan
    return None if math.isnan(median) else median


def _repeat_spread(values: GroupValue) -> RepeatSpread | None:
    """The usual deviation of runs of one config, over all configs that have several runs."""
    members = values.group.members
    known = {
        one.run: one.value
        for one in values.members
        if one.standing == "counted" and one.value is not None
    }
    repeats = repeat_keys(list(dict.fromkeys(key for one in members for key in one.config)))
    if not repeats:
        return None
    apart: list[float] = []
    num_runs = num_configs = 0
    for group in group_members(members, all_but=repeats).groups:
        counted = [one for one in group.members if one.run.id in known]
        if len(counted) < 2:
            continue
        # Runs of other code repeat nothing.
        by_code: dict[str, list[float]] = {}
        for one in counted:
            by_code.setdefault(code_of(one.run), []).append(known[one.run.id])
        for own in by_code.values():
            if len(own) > 1:
                apart += [abs(left - right) for left, right in itertools.combinations(own, 2)]
                num_runs, num_configs = num_runs + len(own), num_configs + 1
    # One pair says next to nothing about a spread.
    if num_runs - num_configs < 2:
        return None
    # The median: a run that diverged says nothing of the others' noise.
    return RepeatSpread(_MAD * float(np.median(apart)) / math.sqrt(2), num_runs, num_configs)


def _side(name: str, runs: tuple[str, ...], end: End) -> Side:
    return Side(name, runs, end.value, end.at, max(1, end.points.size))


def _until(curve: Points | None, last: float) -> End | None:
    if curve is None:
        return None
    inside = curve.at <= last
    return end_of(Points(curve.at[inside], curve.values[inside])) if inside.any() else None


def _minus(left: float, right: float, goal: Goal | None) -> float:
    """The difference of two ends; what is not finite is infinitely worse than what is."""
    placed = _placed(left, goal), _placed(right, goal)
    return 0.0 if placed[0] == placed[1] else placed[0] - placed[1]


def _placed(value: float, goal: Goal | None) -> float:
    return value if math.isfinite(value) else -math.inf if goal == "max" else math.inf
