"""Differences between groups of runs: an interval, a test, and a sentence that says no more.

The unit of a test is a repeat, such as a seed, not a run. Two groups are compared in pairs where
both have runs that differ in nothing but what they are grouped by; else by Welch's test.
A winner is named with at least ``FEWEST`` units, an interval without 0, and a p-value that stays
below 0.05 after Holm's correction over all pairs of groups.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from epochal.format import format_number
from epochal.series.aggregate import CONFIDENCE
from epochal.series.distributions import t_quantile, t_two_sided
from epochal.store.groups import Group, Grouping, GroupValue, best_index, comparable, level

FEWEST = 3
MOST_GROUPS = 60
# Below this share of the values, differences are rounding.
_ROUNDING = 1e-12

# The values of a group by unit, then by what else differs inside the group.
_Units = Mapping[Hashable, Mapping[Hashable, float]]


@dataclass(frozen=True, slots=True)
class Difference:
    """Two groups, by their places in the list of groups: ``left`` minus ``right``.

    ``low`` and ``high`` are the ends of the 95 % interval, ``p`` is two-sided, ``p_holm`` after
    Holm's correction; all are nan with too few units. ``units`` are of the pairs, or of the smaller
    group. ``winner`` is the place of the group that is better, None where that cannot be told.
    """

    left: int
    right: int
    difference: float
    low: float
    high: float
    p: float
    p_holm: float
    units: int
    is_paired: bool
    winner: int | None
    sentence: str


def differences(grouping: Grouping, values: Sequence[GroupValue]) -> list[Difference]:
    """Every pair of groups; none of more than ``MOST_GROUPS`` groups.

    The group with the better mean is ``left``.
    """
    if len(values) > MOST_GROUPS:
        return []
    units = [_units_of(grouping, one) for one in values]
    found = []
    for left, right in itertools.combinations(range(len(values)), 2):
        if not (units[left] and units[right]):
            continue
        is_swapped = _is_better(values[right], values[left])
        pair = (right, left) if is_swapped else (left, right)
        found.append(_difference(*pair, units[pair[0]], units[pair[1]]))
    corrected = holm([one.p for one in found])
    word = _unit_word(grouping)
    tested = [replace(one, p_holm=p) for one, p in zip(found, corrected, strict=True)]
    return [_judged(one, values, word, len(found)) for one in tested]


def verdict(values: Sequence[GroupValue], found: Sequence[Difference]) -> str:
    """A sentence about the best group and those that it beats."""
    best = best_index(values)
    one = values[best or 0]
    label, mean = one.group.label, format_number(float(one.numbers.mean[0]))
    if not any(each.numbers.n[0] for each in values):
        return f"No run counts: none reached the end with a finite {one.metric}."
    if len(values) == 1:
        return f"{label} is the only group: its mean of {one.metric} is {mean}."
    if best is None:
        return "Which group is best cannot be told: the goal of the metric is not known."
    others = [each for each in found if best in (each.left, each.right)]
    if not others:
        return f"{label} has the best mean of {one.metric}, {mean}."
    beaten = sum(each.winner == best for each in others)
    if beaten == len(others):
        nearest = min(others, key=lambda each: abs(each.difference))
        return nearest.sentence if len(others) == 1 else f"{nearest.sentence} It beats all others."
    unclear = min(
        (each for each in others if each.winner != best), key=lambda each: abs(each.difference)
    )
    return (
        f"{label} has the best mean of {one.metric}, {mean}, and beats {beaten} of {len(others)}"
        f" groups. {unclear.sentence}"
    )


def holm(p: Sequence[float]) -> list[float]:
    """Holm's correction of p-values; nan stays, and counts for none."""
    known = sorted((value, index) for index, value in enumerate(p) if not math.isnan(value))
    corrected = [math.nan] * len(p)
    highest = 0.0
    for place, (value, index) in enumerate(known):
        highest = max(highest, min(1.0, value * (len(known) - place)))
        corrected[index] = highest
    return corrected


def _units_of(grouping: Grouping, value: GroupValue) -> _Units:
    """The counted values of a group by unit and rest; repetitions of both are averaged."""
    rest = [
        key for key in grouping.varying if key not in grouping.keys and key not in grouping.repeats
    ]
    cells: dict[Hashable, dict[Hashable, list[float]]] = {}
    for index, (member, one) in enumerate(zip(value.group.members, value.members, strict=True)):
        if one.standing != "counted" or one.value is None:
            continue
        repeat = tuple(comparable(level(member.value(key))) for key in grouping.repeats)
        other = tuple(comparable(level(member.value(key))) for key in rest)
        if grouping.repeats:
            unit: Hashable = repeat
        else:
            # Without a seed each run is a unit; other keys tell which runs belong together.
            unit = other if rest else (value.group.label, index)
        cells.setdefault(unit, {}).setdefault(other, []).append(one.value)
    return {
        unit: {other: math.fsum(found) / len(found) for other, found in inside.items()}
        for unit, inside in cells.items()
    }


def _difference(left: int, right: int, first: _Units, second: _Units) -> Difference:
    paired = []
    for unit in first.keys() & second.keys():
        shared = first[unit].keys() & second[unit].keys()
        if shared:
            pairs = [first[unit][other] - second[unit][other] for other in shared]
            paired.append(math.fsum(pairs) / len(pairs))
    if len(paired) >= 2 and 2 * len(paired) >= min(len(first), len(second)):
        return _paired(left, right, np.array(paired), _scale(first, second))
    return _welch(left, right, _means(first), _means(second), _scale(first, second))


def _paired(left: int, right: int, each: np.ndarray, scale: float) -> Difference:
    se = float(each.std(ddof=1)) / math.sqrt(each.size)
    return _tested(left, right, float(each.mean()), se, each.size - 1, each.size, scale, True)


def _welch(
    left: int, right: int, first: np.ndarray, second: np.ndarray, scale: float
) -> Difference:
    difference = float(first.mean() - second.mean())
    units = min(first.size, second.size)
    if units < 2:
        nothing = (math.nan,) * 4
        return Difference(left, right, difference, *nothing, units, False, None, "")
    shares = [float(one.var(ddof=1)) / one.size for one in (first, second)]
    se = math.sqrt(sum(shares))
    below = sum(s * s / (one.size - 1) for s, one in zip(shares, (first, second), strict=True))
    df = sum(shares) ** 2 / below if below else units - 1
    return _tested(left, right, difference, se, df, units, scale, False)


def _tested(
    left: int,
    right: int,
    difference: float,
    se: float,
    df: float,
    units: int,
    scale: float,
    is_paired: bool,
) -> Difference:
    if se <= _ROUNDING * scale:
        # Repeats that change nothing are copies of one experiment, and no evidence.
        nothing = (math.nan,) * 4
        return Difference(left, right, difference, *nothing, units, is_paired, None, "")
    half = t_quantile(0.5 + CONFIDENCE / 2, df) * se
    p = t_two_sided(difference / se, df)
    low, high = difference - half, difference + half
    return Difference(left, right, difference, low, high, p, math.nan, units, is_paired, None, "")


def _judged(one: Difference, values: Sequence[GroupValue], word: str, num_pairs: int) -> Difference:
    """The same with its winner, if there is one, and its sentence."""
    left, right = values[one.left].group, values[one.right].group
    metric, goal = values[one.left].metric, values[one.left].goal
    first, second = _short_labels(left, right)
    by = format_number(abs(one.difference))
    over = f"over {one.units} {word if one.units != 1 else word.removesuffix('s')}"
    if one.is_paired:
        over += ", in pairs"
    if one.difference == 0:
        return replace(one, sentence=f"{first} and {second} have the same mean of {metric} {over}.")
    is_above = one.difference > 0
    is_ahead = goal is not None and is_above == (goal == "max")
    relation = "is ahead of" if is_ahead else "is above" if is_above else "is below"
    start = f"{first} {relation} {second} by {by} in {metric} {over}"
    if math.isnan(one.p):
        why = (
            f"fewer than {FEWEST} {word} tell nothing"
            if one.units < FEWEST
            else f"the {word} change nothing"
        )
        return replace(one, sentence=f"{start}: {why}, so there is no winner.")
    if one.units < FEWEST:
        why = f"fewer than {FEWEST} {word} tell nothing"
        return replace(one, sentence=f"{start}: {why}, so there is no winner.")
    if one.low <= 0 <= one.high:
        # As the sentence counts it: how far the first is ahead, above or below.
        ends = sorted((one.low, one.high)) if is_above else sorted((-one.low, -one.high))
        interval = " to ".join(map(format_number, ends))
        why = f"the 95 % interval of the difference, {interval}, holds 0"
        return replace(one, sentence=f"{start}: {why}, so there is no winner.")
    if not one.p_holm < 1 - CONFIDENCE:
        p = f"p = {_p_text(one.p_holm)} after Holm's correction over {num_pairs} pairs"
        return replace(one, sentence=f"{start}: {p}, so there is no winner.")
    half = format_number((one.high - one.low) / 2)
    test = f"p = {_p_text(one.p_holm)}" if one.p_holm >= 1e-4 else "p < 0.0001"
    verb = "beats" if is_ahead else relation
    sentence = f"{first} {verb} {second} by {by} ± {half} in {metric} {over} ({test})."
    return replace(one, winner=one.left if is_ahead else None, sentence=sentence)


def _short_labels(left: Group, right: Group) -> tuple[str, str]:
    """Labels of two groups, without what they share."""
    keys = [
        index
        for index, values in enumerate(zip(left.values, right.values, strict=True))
        if comparable(values[0]) != comparable(values[1])
    ]
    if len(keys) in (0, len(left.keys)):
        return left.label, right.label
    names = tuple(left.keys[index] for index in keys)
    first, second = (
        Group(names, tuple(one.values[index] for index in keys), ()).label for one in (left, right)
    )
    return left.label, second if first != second else right.label


def _is_better(one: GroupValue, other: GroupValue) -> bool:
    mine, others = float(one.numbers.mean[0]), float(other.numbers.mean[0])
    return mine < others if one.goal == "min" else mine > others


def _means(units: _Units) -> np.ndarray:
    return np.array([math.fsum(inside.values()) / len(inside) for inside in units.values()])


def _scale(first: _Units, second: _Units) -> float:
    return max(
        abs(value)
        for units in (first, second)
        for inside in units.values()
        for value in inside.values()
    )


def _unit_word(grouping: Grouping) -> str:
    if len(grouping.repeats) != 1:
        return "repeats" if grouping.repeats else "runs"
    name = grouping.repeats[0].rpartition(".")[2]
    return f"{name}s" if not name.endswith("s") else name


def _p_text(p: float) -> str:
    return f"{p:.2g}"
