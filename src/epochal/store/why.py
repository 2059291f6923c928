"""The answer to why one run is worse than another: its types, its verdict and its sentence.

A score is between 0 and 1. It is a judgement, not a probability: it orders what to try first.
``explain.py`` makes the answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from epochal.format import format_number
from epochal.series.aggregate import Number
from epochal.series.distributions import t_quantile
from epochal.series.trend import Goal
from epochal.store.comparison import MISSING
from epochal.store.difference_weights import NEGLIGIBLE, is_repeat
from epochal.store.groups import level_text
from epochal.store.run_facts import Area
from epochal.store.unfinished import Unfinished

Verdict = Literal["same", "noise", "explained", "several", "weak", "unexplained"]
Kind = Literal["cause", "symptom"]

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
    ``equal`` areas do not differ, ``unknown`` ones are not recorded by both sides. ``unfinished``
    are the unfinished runs of the group that the run is compared with.
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


def verdict_of(why: Why) -> Verdict:
    """Whether the gap is noise, and how well the differences explain it."""
    if abs(why.gap) <= why.noise:
        return "same"
    if why.repeats is not None and abs(why.gap) <= why.repeats.limit:
        return "noise"
    causes = _causes(why)
    if not causes:
        return "noise" if _repeats(why) else "unexplained"
    best = causes[0].score
    alike = [one for one in causes if one.score > best - _ALIKE]
    if best < _EXPLAINS:
        return "weak"
    return "explained" if len(alike) == 1 else "several"


def sentence_of(why: Why, verdict: Verdict) -> str:
    """The answer in a few sentences."""
    names = (why.left.name, why.right.name)
    at = [
        f"{'a mean ' if side.points > 1 else ''}{why.metric} of {format_number(side.value)}"
        for side in (why.left, why.right)
    ]
    ends = f"{names[0]} ends at {at[0]} and {names[1]} at {at[1]}"
    noise = format_number(why.noise)
    if verdict == "same":
        gap = format_number(abs(why.gap))
        return f"{ends}: a gap of {gap} is within noise ({noise}).{_shown(why)}"
    if why.worse is None:
        start = f"{ends}; which is better is not known."
    else:
        worse, better = names if why.worse == "left" else reversed(names)
        by = f" by {format_number(abs(why.gap))}" if math.isfinite(why.gap) else ""
        start = f"{worse} is worse than {better}{by} in {why.metric}."
    if why.parted_at is not None:
        start += f" The curves part at {why.x} {why.parted_at:,.0f}."
    return f"{start} {_conclusion(why, verdict)}{_shown(why)}"


def _shown(why: Why) -> str:
    """The findings of one run only: they say more of what happened than a changed file does."""
    own = [one for one in why.differences if one.area == "findings" and one.score >= _TOLD_FINDING]
    sides = [(why.left, [one for one in own if one.right == MISSING])]
    if len(why.right.runs) == 1:
        sides.append((why.right, [one for one in own if one.left == MISSING]))
    texts = []
    for side, found in sides:
        if found:
            names = ", ".join(one.key for one in found[:_MOST_SAID])
            texts.append(f" Only {side.name} has findings of {names}.")
    return "".join(texts)


def _conclusion(why: Why, verdict: Verdict) -> str:
    causes, repeats = _causes(why), _repeats(why)
    if verdict == "noise":
        if why.repeats is not None and abs(why.gap) <= why.repeats.limit:
            spread, limit = why.repeats, format_number(why.repeats.limit)
            runs = f"{spread.num_runs} runs of {spread.num_configs} configs"
            return f"That is noise: repeats differ by up to {limit} ({runs})."
        keys = ", ".join(repeats)
        return f"That is noise as far as is recorded: only {keys} differs, which repeats the run."
    if verdict == "unexplained":
        missing = f" Not recorded: {', '.join(why.unknown)}." if why.unknown else ""
        equal = f" Equal: {', '.join(why.equal)}." if why.equal else ""
        return f"No recorded difference explains it.{equal}{missing}"
    first = _in_words(causes[0], of_right=why.worse == "right")
    if verdict == "weak":
        return f"The best explanation is weak: {first}."
    if verdict == "several":
        alike = [one for one in causes if one.score > causes[0].score - _ALIKE]
        told = [f"{one.area} {one.key}" for one in alike[:_MOST_SAID]]
        more = f" and {len(alike) - _MOST_SAID} more" if len(alike) > _MOST_SAID else ""
        return (
            f"{len(alike)} differences explain it about equally: {', '.join(told)}{more}."
            " Change one at a time to tell which it is."
        )
    doubt = ""
    if repeats and why.repeats is None:
        keys = ", ".join(repeats)
        doubt = f" {keys} differs too, and no repeats tell how much that alone changes."
    return f"The best explanation: {first}.{doubt}"


def _in_words(one: RunDifference, *, of_right: bool) -> str:
    """The difference as one of the worse side."""
    own, other = (one.right, one.left) if of_right else (one.left, one.right)
    return f"{one.area} {one.key} is {value_text(own)} instead of {value_text(other)}"


def value_text(value: Any) -> str:
    """A value of a difference for people."""
    return value if isinstance(value, str) else level_text(value)


def _causes(why: Why) -> list[RunDifference]:
    return [one for one in why.differences if one.kind == "cause" and one.score >= NEGLIGIBLE]


def _repeats(why: Why) -> list[str]:
    return [
        one.key for one in why.differences if one.area in ("config", "data") and is_repeat(one.key)
    ]
