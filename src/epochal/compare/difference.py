"""The best group of runs against each other one: how far it is ahead, and whether by chance.

The unit of a test is a repeat, such as a seed, not a run. The noise is pooled over all groups.
Groups that share their units are compared in pairs, and what a unit does to all groups alike is no
noise. A group far noisier than the others is no part of the pool, and counts by its nearest run.

The best group is chosen by the same values that are tested. So the p-value of a group is that of
the t test times the number of pairs of all groups up to it (Bonferroni): at most the chance that
two of so many groups without any difference lie this far apart. Against the next group that is the
t test itself, which also tells whether the group that looks best is the best one (Gutmann and
Maymin, 1987).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from epochal.series.aggregate import CONFIDENCE, Number
from epochal.series.statistics import Floats, f_above, t_quantile, t_two_sided
from epochal.series.trend import Goal

FEWEST = 3
MOST_GROUPS = 60
# Below this share of the values, differences are rounding.
_ROUNDING = 1e-12
# A group is far noisier than the calmer ones if chance makes it so this rarely.
_CLEARLY_NOISIER = 0.001

# The values of a group by unit, then by what else differs inside the group.
Units = Mapping[Hashable, Mapping[Hashable, float]]


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


@dataclass(frozen=True, slots=True)
class _Gap:
    """The difference from the best group, and what is tested: ``ahead``, with its variance."""

    right: int
    difference: float
    ahead: float
    variance: float
    df: float
    units: int
    is_paired: bool = False
    is_noisy: bool = False


def differences(groups: Sequence[Units], best: int, goal: Goal) -> list[Difference]:
    """The best group against each other one, the nearest first; none of too many groups."""
    if len(groups) > MOST_GROUPS:
        return []
    noise = _Noise(groups)
    sign = 1.0 if goal == "min" else -1.0
    others = [other for other, own in enumerate(groups) if own and other != best]
    gaps = [noise.gap(best, other, sign) for other in others]
    gaps.sort(key=lambda one: sign * one.difference, reverse=True)
    chances = [_chance(one, place + 2, noise.least) for place, one in enumerate(gaps)]
    usual = [place for place, one in enumerate(gaps) if not one.is_noisy]
    found = []
    for place, one in enumerate(gaps):
        p, half = chances[place], math.nan
        if not one.is_noisy:
            # More groups are tested first; what the nearest group shows holds for all.
            p = min(chances[usual[0]], max(chances[at] for at in usual if at >= place))
            if one.df >= 1:
                share = 1 - (1 - CONFIDENCE) / 2 / math.comb(place + 2, 2)
                half = t_quantile(share, one.df) * math.sqrt(one.variance)
        winner = best if len(groups[best]) >= FEWEST and p < 1 - CONFIDENCE else None
        ends = one.difference - half, one.difference + half
        found.append(
            Difference(best, one.right, one.difference, *ends, p, one.units, one.is_paired, winner)
        )
    return found


def _chance(gap: _Gap, count: int, least: float) -> float:
    """The chance, at most, that ``count`` groups without a difference lie so far apart."""
    if gap.df < 1:
        return math.nan
    if gap.ahead <= least:
        return 1.0
    # Without noise, any difference is certain.
    if gap.variance <= least * least:
        return 0.0
    p = t_two_sided(gap.ahead / math.sqrt(gap.variance), gap.df)
    return min(1.0, p * math.comb(count, 2))


class _Noise:
    """What units do by chance, pooled over all groups that are not far noisier than the others."""

    def __init__(self, groups: Sequence[Units]) -> None:
        self._groups = groups
        self._values = [
            np.array([math.fsum(inside.values()) / len(inside) for inside in units.values()])
            for units in groups
        ]
        self.least = _ROUNDING * max(float(np.abs(one).max(initial=0.0)) for one in self._values)
        pool = self._pool()
        self._noisy = {index for index, units in enumerate(groups) if units} - set(pool)
        self._df, squares = self._within(pool)
        self._variance = squares / self._df if self._df else math.nan
        self._pair_df, self._pair_variance = self._of_pairs(pool)

    def _pool(self) -> list[int]:
        """The groups with usual noise: the calmer half, and what is not clearly noisier than it."""
        variances = {
            index: float(values.var(ddof=1))
            for index, values in enumerate(self._values)
            if values.size > 1
        }
        by_noise = sorted(variances, key=lambda index: variances[index])
        noisier = by_noise[(len(by_noise) + 1) // 2 :]
        pool = [i for i, values in enumerate(self._values) if values.size and i not in noisier]
        for index in noisier:
            df, squares = self._within(pool)
            # Rounding is no noise; and values that are all 0 have none.
            usual = max(squares / df, self.least**2) or 1.0
            ratio = variances[index] / usual
            if f_above(ratio, self._values[index].size - 1, df) < _CLEARLY_NOISIER:
                break
            pool.append(index)
        return pool

    def _within(self, pool: Sequence[int]) -> tuple[float, float]:
        """The degrees of freedom and the sum of squares inside of some groups."""
        inside = [self._values[index] for index in pool]
        squares = math.fsum(_squares(one) for one in inside)
        return float(sum(one.size - 1 for one in inside)), squares

    def _of_pairs(self, pool: Sequence[int]) -> tuple[float, float]:
        """The degrees of freedom and the variance of what is left without the effect of units."""
        pairs = [self._pairs(left, right) for left, right in itertools.combinations(pool, 2)]
        count = sum(each.size - 1 for each in pairs if each.size > 1)
        distinct = {unit for index in pool for unit in self._groups[index]}
        cells = sum(len(self._groups[index]) for index in pool)
        df = float(cells - len(distinct) - len(pool) + 1)
        if not count or df < 1:
            return 0.0, math.nan
        variance = sum(_squares(each) / 2 for each in pairs if each.size > 1) / count
        # Where units have no effect of their own, all runs tell about the noise.
        is_flat = self._variance <= variance
        return (self._df, self._variance) if is_flat else (df, variance)

    def _pairs(self, left: int, right: int) -> Floats:
        """The differences of two groups in each unit that both have."""
        first, second = self._groups[left], self._groups[right]
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
        difference = float(own.mean() - others.mean())
        units, df = min(own.size, others.size), self._df
        if {best, other} & self._noisy:
            first = (-sign * own).min() if best in self._noisy else (-sign * own).mean()
            second = (-sign * others).max() if other in self._noisy else (-sign * others).mean()
            sizes = [1 if i in self._noisy else self._values[i].size for i in (best, other)]
            variance = self._variance * sum(1 / size for size in sizes)
            ahead = float(first - second)
            return _Gap(other, difference, ahead, variance, df, units, is_noisy=True)
        each = self._pairs(best, other)
        if each.size > 1 and 2 * each.size >= units and self._pair_df >= 1:
            difference, variance = float(each.mean()), 2 * self._pair_variance / each.size
            ahead, df = -sign * difference, self._pair_df
            return _Gap(other, difference, ahead, variance, df, each.size, is_paired=True)
        variance = self._variance * (1 / own.size + 1 / others.size)
        return _Gap(other, difference, -sign * difference, variance, df, units)


def _squares(values: Floats) -> float:
    return float(((values - values.mean()) ** 2).sum())
