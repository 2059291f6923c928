"""The best group of runs against each other one: how far it is ahead, and whether by chance.

The unit of a test is a repeat, such as a seed, not a run. The noise is pooled over all groups.
Groups that share their units are compared in pairs, and what a unit does to all groups alike is no
noise. A group far noisier than the others is no part of the pool, and counts by its nearest run.

The best group is chosen by the same values that are tested. So the p-value of a group is that of
the studentised range of all groups up to it: the chance that so many groups without any difference
lie this far apart. Against the next group that is the t test, which also tells whether the group
that looks best is the best one (Gutmann and Maymin, 1987).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from epochal.format import format_number
from epochal.series.aggregate import CONFIDENCE, Number
from epochal.series.distributions import f_above, range_above, range_quantile
from epochal.store.groups import Grouping, GroupValue, best_index, comparable, level

FEWEST = 3
MOST_GROUPS = 60
# Below this share of the values, differences are rounding.
_ROUNDING = 1e-12
# A group is far noisier than the calmer ones if chance makes it so this rarely.
_CLEARLY_NOISIER = 0.001

# The values of a group by unit, then by what else differs inside the group.
_Units = Mapping[Hashable, Mapping[Hashable, float]]


class Difference(msgspec.Struct, frozen=True):
    """The best group (``left``) minus another (``right``), by their places in the list of groups.

    ``low`` and ``high`` are the ends of the 95 % interval; nan for a group that is far noisier than
    the others. ``p`` is two-sided; nan where no group has two units. Both are corrected for the
    groups that lie between the two. ``units`` are of the pairs, or of the smaller group. ``winner``
    is ``left`` where the other group is shown to be worse, else None.
    """

    left: int
    right: int
    difference: float
    low: Number
    high: Number
    p: Number
    units: int
    is_paired: bool
    winner: int | None


def differences(grouping: Grouping, values: Sequence[GroupValue]) -> list[Difference]:
    """The best group against each other one, the nearest first.

    None where the goal of the metric is not known, and none of more than ``MOST_GROUPS`` groups.
    """
    best = best_index(values)
    if best is None or len(values) > MOST_GROUPS:
        return []
    units = [_units_of(grouping, one) for one in values]
    noise = _Noise(units)
    sign = 1.0 if values[best].goal == "min" else -1.0
    gaps = [
        noise.gap(best, other, sign) for other, own in enumerate(units) if own and other != best
    ]
    gaps.sort(key=lambda one: sign * one.difference, reverse=True)
    is_enough = len(units[best]) >= FEWEST
    found = []
    for place, (one, p) in enumerate(zip(gaps, _corrected(gaps, noise.least), strict=True)):
        half = one.half(place + 2)
        low, high = one.difference - half, one.difference + half
        winner = best if is_enough and p < 1 - CONFIDENCE else None
        found.append(
            Difference(
                *(best, one.right, one.difference, low, high, p, one.units, one.is_paired, winner)
            )
        )
    return found


def _corrected(gaps: Sequence[_Gap], least: float) -> list[float]:
    """The p-values of differences, the nearest group first."""
    chances = [one.chance(place + 2, least) for place, one in enumerate(gaps)]
    usual = [chance for one, chance in zip(gaps, chances, strict=True) if not one.is_noisy]
    corrected = []
    for one, chance in zip(gaps, chances, strict=True):
        if one.is_noisy:
            corrected.append(chance)
            continue
        # The range of more groups is tested first; what the nearest group shows holds for all.
        place = len(corrected) - sum(each.is_noisy for each in gaps[: len(corrected)])
        corrected.append(min(usual[0], max(usual[place:])))
    return corrected


def verdict(grouping: Grouping, values: Sequence[GroupValue], found: Sequence[Difference]) -> str:
    """One sentence about the best group: whether it is best, and how far the next one is."""
    best = best_index(values)
    one = values[best or 0]
    if not any(each.numbers.n[0] for each in values):
        return f"No run that counts has a finite {one.metric}."
    if len(values) == 1:
        mean = format_number(float(one.numbers.mean[0]))
        return f"{one.group.label} is the only group: its mean {one.metric} is {mean}."
    if best is None:
        return f"No group is best, because the goal of {one.metric} is not known."
    word = _unit_word(grouping)
    num_units = len(_units_of(grouping, one))
    what = f"{one.metric} {_mean_text(one, num_units, word)}"
    if num_units < FEWEST:
        return (
            f"{one.group.label} has the best mean, {what}, but it takes at least {FEWEST} {word}"
            " to tell whether it is the best group."
        )
    if not found:
        return f"{one.group.label} has the best mean, {what}; no other group is compared with it."
    unclear = [each for each in found if each.winner is None]
    nearest = (unclear or found)[0]
    label, gap = values[nearest.right].group.label, _gap_text(nearest, one.goal, word)
    if not unclear:
        who = label if len(found) == 1 else f"the next, {label},"
        return f"{one.group.label} is best: {what}; {who} {gap}."
    start = f"{one.group.label} has the best mean, {what}, but"
    if len(unclear) == 1:
        return f"{start} {label} may be as good: it {gap}."
    share = f"all {len(found)}" if len(unclear) == len(found) else f"{len(unclear)} of {len(found)}"
    return f"{start} {share} other groups may be as good; the nearest, {label}, {gap}."


@dataclass(frozen=True, slots=True)
class _Gap:
    """The difference from the best group, and what is tested: ``ahead``, with its variance."""

    right: int
    difference: float
    ahead: float
    variance: float
    df: float
    units: int
    is_paired: bool
    is_noisy: bool

    def chance(self, count: int, least: float) -> float:
        """The chance that ``count`` groups without a difference lie so far apart."""
        if self.df < 1:
            return math.nan
        if self.ahead <= least:
            return 1.0
        # Without noise, any difference is certain.
        if self.variance <= least * least:
            return 0.0
        return range_above(self.ahead / math.sqrt(self.variance / 2), count, self.df)

    def half(self, count: int) -> float:
        """Half of the 95 % interval."""
        if self.df < 1 or self.is_noisy:
            return math.nan
        return range_quantile(CONFIDENCE, count, self.df) * math.sqrt(self.variance / 2)


class _Noise:
    """What units do by chance, pooled over all groups that are not far noisier than the others."""

    def __init__(self, units: Sequence[_Units]) -> None:
        self._units = units
        self._values = [_means(one) for one in units]
        largest = max(abs(value) for values in self._values for value in values.tolist())
        self.least = _ROUNDING * largest
        pool = self._pool()
        self._noisy = {index for index, own in enumerate(units) if own} - set(pool)
        self._df, squares = self._within(pool)
        self._variance = squares / self._df if self._df else math.nan
        self._pair_df, self._pair_variance = self._of_pairs(pool)

    def _pool(self) -> list[int]:
        """The groups with usual noise: the calmer half, and what is not clearly noisier than it."""
        known = [index for index, values in enumerate(self._values) if values.size]
        spread = [index for index in known if self._values[index].size > 1]
        spread.sort(key=lambda index: float(self._values[index].var(ddof=1)))
        half = (len(spread) + 1) // 2
        pool = [index for index in known if index not in spread[half:]]
        for index in spread[half:]:
            df, squares = self._within(pool)
            own = float(self._values[index].var(ddof=1))
            usual = max(squares / df, self.least**2)
            if f_above(own / usual, self._values[index].size - 1, df) < _CLEARLY_NOISIER:
                break
            pool.append(index)
        return pool

    def _within(self, pool: Sequence[int]) -> tuple[float, float]:
        """The degrees of freedom and the sum of squares inside of some groups."""
        inside = [self._values[index] for index in pool]
        squares = math.fsum(float(((one - one.mean()) ** 2).sum()) for one in inside)
        return float(sum(one.size - 1 for one in inside)), squares

    def _of_pairs(self, pool: Sequence[int]) -> tuple[float, float]:
        """The degrees of freedom and the variance of what is left without the effect of units."""
        squares, count = 0.0, 0
        for left, right in itertools.combinations(pool, 2):
            each = self._pairs(left, right)
            if each.size > 1:
                squares += float(((each - each.mean()) ** 2).sum()) / 2
                count += each.size - 1
        distinct = {unit for index in pool for unit in self._units[index]}
        cells = sum(len(self._units[index]) for index in pool)
        df = float(cells - len(distinct) - len(pool) + 1)
        if not count or df < 1:
            return 0.0, math.nan
        variance = squares / count
        # Where units have no effect of their own, all runs tell about the noise.
        is_flat = self._variance <= variance
        return (self._df, self._variance) if is_flat else (df, variance)

    def _pairs(self, left: int, right: int) -> np.ndarray:
        """The differences of two groups in each unit that both have."""
        first, second = self._units[left], self._units[right]
        found = []
        for unit in first.keys() & second.keys():
            shared = first[unit].keys() & second[unit].keys()
            each = [first[unit][other] - second[unit][other] for other in shared]
            if each:
                found.append(math.fsum(each) / len(each))
        return np.array(found)

    def gap(self, best: int, other: int, sign: float) -> _Gap:
        """The best group minus another; ``sign`` is 1 where less is better, else -1."""
        own, others = self._values[best], self._values[other]
        units = min(own.size, others.size)
        if {best, other} & self._noisy:
            first = (-sign * own).min() if best in self._noisy else (-sign * own).mean()
            second = (-sign * others).max() if other in self._noisy else (-sign * others).mean()
            sizes = [1 if i in self._noisy else self._values[i].size for i in (best, other)]
            variance = self._variance * sum(1 / size for size in sizes)
            difference = float(own.mean() - others.mean())
            ahead = float(first - second)
            return _Gap(other, difference, ahead, variance, self._df, units, False, True)
        each = self._pairs(best, other)
        if each.size > 1 and 2 * each.size >= units and self._pair_df >= 1:
            difference, variance = float(each.mean()), 2 * self._pair_variance / each.size
            ahead, df = -sign * difference, self._pair_df
            return _Gap(other, difference, ahead, variance, df, each.size, True, False)
        difference = float(own.mean() - others.mean())
        variance = self._variance * (1 / own.size + 1 / others.size)
        return _Gap(other, difference, -sign * difference, variance, self._df, units, False, False)


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


def _means(units: _Units) -> np.ndarray:
    return np.array([math.fsum(inside.values()) / len(inside) for inside in units.values()])


def _mean_text(one: GroupValue, num_units: int, word: str) -> str:
    """The mean as the table of groups has it: ``2.0900 ± 0.0100 over 3 seeds``."""
    row = one.numbers.row(0)
    half = (row["high"] - row["low"]) / 2
    spread = "" if math.isnan(half) else f" ± {format_number(half)}"
    over = f"{num_units} {word if num_units != 1 else word.removesuffix('s')}"
    if row["n"] != num_units:
        over = f"{int(row['n'])} runs of {over}"
    return f"{format_number(row['mean'])}{spread} over {over}"


def _gap_text(one: Difference, goal: str | None, word: str) -> str:
    """How far the other group is: ``is 0.1300 worse on the same seeds (p = 0.004)``."""
    on = f" on the same {word}" if one.is_paired else ""
    if one.difference == 0:
        return f"has the same mean{on}"
    if math.isnan(one.low) and one.winner is None:
        return "varies too much between its runs to tell"
    by = format_number(abs(one.difference))
    if (one.difference < 0) != (goal == "min"):
        return f"is {by} better{on}"
    test = "p < 0.001" if one.p < 0.001 else f"p = {one.p:.2g}"
    return f"is {by} worse{on} ({test})"


def _unit_word(grouping: Grouping) -> str:
    if len(grouping.repeats) != 1:
        return "repeats" if grouping.repeats else "runs"
    name = grouping.repeats[0].rpartition(".")[2]
    return f"{name}s" if not name.endswith("s") else name
