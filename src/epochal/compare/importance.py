"""Which keys of the config a metric depends on, ranked.

The runs are ordered by the metric; what explains this order matters. One run that diverged cannot
hide everything else, and runs that ended as nan count as the worst where the goal is known. A
numeric key has a rank correlation (Spearman). Every key has the share of the variance between its
levels (η²), so a key whose best value lies in the middle ranks high. Keys of many numbers are cut
into levels of about equally many runs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np

from epochal.compare.groups import (
    Choice,
    Member,
    RunValues,
    comparable,
    level_text,
    members_of,
    read_values,
    repeat_keys,
    sort_key,
    varying_keys,
)
from epochal.errors import UsageError
from epochal.records.values import as_float
from epochal.series.aggregate import Number, Numbers, numbers_of
from epochal.series.statistics import (
    Codes,
    Effect,
    Floats,
    holm,
    partial_effect,
    rank_correlation,
    ranks,
)
from epochal.series.trend import Goal
from epochal.store.comparison import Unfinished
from epochal.store.metrics import level
from epochal.store.run import RunView

FEWEST_RUNS = 8
_MOST_LEVELS = 8
_MOST_BINS = 6
_RUNS_IN_A_BIN = 5
_SIGNIFICANT = 0.05
# A smaller share of the order matters to nobody, however sure thousands of runs make it.
_LEAST_SHARE = 0.01

Verdict = Literal["matters", "little effect", "no effect seen", "too few runs", "repeats the run"]
_SENTENCES: dict[Verdict, str] = {
    "little effect": f"The effect of {{}} is below {100 * _LEAST_SHARE:.0f} %.",
    "no effect seen": "No effect is seen of {}.",
    "too few runs": "There are too few runs for {}.",
}


class Level(Numbers, frozen=True, kw_only=True):
    """Runs with one value of a key, or with values in a range, and the numbers over them."""

    label: str
    value: Any
    num_runs: int
    nonfinite: int


class Parameter(msgspec.Struct, frozen=True):
    """One key of the config; ``score`` and ``spearman`` are nan where they cannot be computed.

    ``score`` is the part of the order of the runs that the levels explain (η²), without what as
    many levels explain by chance, or the square of ``spearman`` if that is larger. ``p`` tests the
    key beside the other keys, after Holm's correction over all keys; a seed is not tested, because
    it repeats the run. ``best`` is the level with the best places in the order. ``same_as`` are
    keys that always change together with this one.
    """

    key: str
    is_numeric: bool
    score: Number
    spearman: Number
    p: Number
    verdict: Verdict
    levels: tuple[Level, ...]
    best: str | None
    same_as: tuple[str, ...]


class Interaction(msgspec.Struct, frozen=True):
    """The mean of the metric for each pair of levels, row by row; nan where there is no run."""

    keys: tuple[str, str]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    mean: list[list[Number]]
    n: list[list[int]]
    nonfinite: list[list[int]]


class Importance(msgspec.Struct, frozen=True):
    """Which keys matter for a metric, the most important first.

    ``num_runs`` have a place in the order, ``nonfinite`` of them as the worst; ``missing`` have no
    value of the metric.
    """

    metric: str
    goal: Goal | None
    num_runs: int
    nonfinite: int
    missing: int
    unfinished: Unfinished
    parameters: tuple[Parameter, ...]
    interaction: Interaction | None
    sentence: str


class _Column(NamedTuple):
    """A key of the config: the number of each run's level, and the levels' labels and values."""

    numbers: list[Any] | None
    codes: Codes
    levels: list[tuple[str, Any]]
    same_as: tuple[str, ...]


class _Test(NamedTuple):
    score: float
    rho: float
    p: float


def importance(
    runs: Iterable[RunView],
    metric: str,
    *,
    value: Choice = "last",
    at: float | None = None,
    pair: Sequence[str] | None = None,
    unfinished: bool = False,
) -> Importance:
    """Rank the keys of the config by how much a metric depends on them.

    ``value``, ``at`` and ``unfinished`` are as for groups. ``pair`` names the two keys of the
    interaction, by default the first two. Raises ``MetricNotFoundError``.
    """
    values = read_values(members_of(runs), metric, value=value, at=at, unfinished=unfinished)
    return importance_of(values, pair=pair)


def importance_of(values: RunValues, *, pair: Sequence[str] | None = None) -> Importance:
    """Like ``importance``, from the values of the runs."""
    standings = ("counted",) if values.goal is None else ("counted", "nonfinite")
    placed = [
        (member, math.nan if one.value is None else one.value)
        for member, one in zip(values.members, values.values, strict=True)
        if one.standing in standings
    ]
    members, outcome = [member for member, _ in placed], np.array([value for _, value in placed])
    # What is not finite is worse than everything.
    worst = math.inf if values.goal == "min" else -math.inf
    order = ranks(np.where(np.isfinite(outcome), outcome, worst))
    columns = _columns(members)
    tests = {key: _test(key, columns, order) for key in columns}
    corrected = holm([one.p for one in tests.values()])
    found = [
        _parameter(key, columns[key], one._replace(p=p), outcome, order, values.goal)
        for (key, one), p in zip(tests.items(), corrected, strict=True)
    ]
    found.sort(key=lambda one: -one.score if not math.isnan(one.score) else 1.0)
    chosen = _pair(pair, found)
    left_out = sum(one.standing == "unfinished" for one in values.values)
    return Importance(
        metric=values.metric,
        goal=values.goal,
        num_runs=len(members),
        nonfinite=int((~np.isfinite(outcome)).sum()),
        missing=len(values.values) - len(members) - left_out,
        unfinished=values.unfinished,
        parameters=tuple(found),
        interaction=None if chosen is None else _interaction(chosen, columns, outcome),
        sentence=_sentence(values.metric, found, len(members)),
    )


def _columns(members: Sequence[Member]) -> dict[str, _Column]:
    """The keys that differ, each with the later ones that say the same of every run.

    Where every run has a value of its own, that says nothing: only numbers in the same order do.
    """
    same: dict[tuple[Any, ...], list[str]] = {}
    values = {key: [level(one.config.get(key)) for one in members] for key in varying_keys(members)}
    for key, own in values.items():
        places: dict[Any, int] = {}
        partition: tuple[Any, ...] = tuple(
            places.setdefault(comparable(value), len(places)) for value in own
        )
        if len(places) == len(own):
            partition = tuple(ranks(own).tolist()) if _is_numeric(key, own) else (key,)
        same.setdefault(partition, []).append(key)
    return {keys[0]: _column(values[keys[0]], keys) for keys in same.values()}


def _column(values: list[Any], keys: Sequence[str]) -> _Column:
    numbers = values if _is_numeric(keys[0], values) else None
    distinct = sorted({comparable(one): one for one in values}.values(), key=sort_key)
    if numbers is not None and len(distinct) > _MOST_LEVELS:
        codes, levels = _bins(np.array(values, dtype=np.float64))
    else:
        places = {comparable(one): place for place, one in enumerate(distinct)}
        codes = np.array([places[comparable(one)] for one in values], dtype=np.intp)
        levels = [(level_text(one), one) for one in distinct]
    return _Column(numbers, codes, levels, tuple(keys[1:]))


def _is_numeric(key: str, values: Sequence[Any]) -> bool:
    """Whether all values are numbers that a float can hold; the number of a seed is no quantity."""
    return not repeat_keys([key]) and all(
        type(one) in (int, float) and not math.isinf(as_float(one)) for one in values
    )


def _bins(values: Floats) -> tuple[Codes, list[tuple[str, Any]]]:
    """Numbers in bins of about equally many runs; equal numbers are in one bin."""
    wanted = int(np.clip(values.size // _RUNS_IN_A_BIN, 2, _MOST_BINS))
    place = np.minimum((ranks(values) - 0.5) / values.size * wanted, wanted - 1).astype(np.intp)
    used, codes = np.unique(place, return_inverse=True)
    levels: list[tuple[str, Any]] = []
    for index in range(used.size):
        inside = values[codes == index]
        low, high = float(inside.min()), float(inside.max())
        ends = f"{level_text(low, digits=3)} – {level_text(high, digits=3)}"
        text = level_text(low) if low == high else ends
        levels.append((text, float(np.median(inside))))
    return codes.astype(np.intp), levels


def _test(key: str, columns: dict[str, _Column], order: Floats) -> _Test:
    """How much of the order of the runs a key explains, and the p-value of that."""
    own, num_runs = columns[key], order.size
    others = [
        one.codes
        for name, one in columns.items()
        if name != key and 2 * len(one.levels) <= num_runs
    ]
    num_numbers = 1 + sum(int(np.unique(codes).size) - 1 for codes in (*others, own.codes))
    # Too many levels beside each other explain everything: then the key is tested alone.
    beside = others if 2 * num_numbers <= num_runs else []
    # Levels of hardly more than one run each explain everything, whatever they are.
    has_repeats = 2 * len(own.levels) <= num_runs
    effect = partial_effect(beside, own.codes, order) if has_repeats else Effect()
    rho, p_rho = math.nan, math.nan
    if own.numbers is not None:
        rho, p_rho = rank_correlation(own.numbers, order)
    scores = [effect.adjusted, 1 - (1 - rho * rho) * (num_runs - 1) / max(1, num_runs - 2)]
    known = [max(0.0, one) for one in scores if not math.isnan(one)]
    p_values = () if repeat_keys([key]) else (effect.p, p_rho)
    tested = [one for one in p_values if not math.isnan(one)]
    # The better of two tests is taken, so it counts twice.
    p = min(1.0, min(tested) * len(tested)) if tested else math.nan
    return _Test(max(known, default=math.nan), rho, p)


def _parameter(
    key: str, column: _Column, test: _Test, outcome: Floats, order: Floats, goal: Goal | None
) -> Parameter:
    levels, places = [], []
    for index, (label, value) in enumerate(column.levels):
        is_inside = column.codes == index
        inside = outcome[is_inside]
        finite = inside[np.isfinite(inside)]
        counts = {"num_runs": inside.size, "nonfinite": inside.size - finite.size}
        levels.append(Level(label=label, value=value, **counts, **numbers_of(finite)))
        # By places: one bad run hides none.
        places.append(float(order[is_inside].mean()))
    best = None
    if goal is not None and levels:
        best = levels[int(np.argmin(places) if goal == "min" else np.argmax(places))].label
    verdict: Verdict = "no effect seen"
    if repeat_keys([key]):
        verdict = "repeats the run"
    elif order.size < FEWEST_RUNS or math.isnan(test.p):
        verdict = "too few runs"
    elif test.p < _SIGNIFICANT:
        verdict = "matters" if test.score >= _LEAST_SHARE else "little effect"
    is_numeric = column.numbers is not None
    return Parameter(key, is_numeric, *test, verdict, tuple(levels), best, column.same_as)


def _pair(wanted: Sequence[str] | None, found: Sequence[Parameter]) -> tuple[str, str] | None:
    if not wanted:
        return (found[0].key, found[1].key) if len(found) > 1 else None
    if len(wanted) != 2:
        raise UsageError(f"an interaction is of two keys, not of {len(wanted)}.")
    chosen = [one.key for name in wanted for one in found if name in (one.key, *one.same_as)]
    if len(chosen) != 2:
        known = ", ".join(one.key for one in found)
        raise UsageError(f"{' and '.join(wanted)} do not both differ between the runs: {known} do.")
    return chosen[0], chosen[1]


def _interaction(
    pair: tuple[str, str], columns: dict[str, _Column], outcome: Floats
) -> Interaction:
    rows, across = (columns[key] for key in pair)
    shape = (len(rows.levels), len(across.levels))
    mean, n, nonfinite = np.full(shape, np.nan), np.zeros(shape, int), np.zeros(shape, int)
    for place in itertools.product(*map(range, shape)):
        inside = outcome[(rows.codes == place[0]) & (across.codes == place[1])]
        finite = inside[np.isfinite(inside)]
        n[place], nonfinite[place] = finite.size, inside.size - finite.size
        if finite.size:
            mean[place] = finite.mean()
    labels = [tuple(label for label, _ in one.levels) for one in (rows, across)]
    return Interaction(pair, labels[0], labels[1], mean.tolist(), n.tolist(), nonfinite.tolist())


def _sentence(metric: str, found: Sequence[Parameter], num_runs: int) -> str:
    if num_runs < 2:
        has = "One run has" if num_runs else "No run has"
        return f"{has} {metric}: {FEWEST_RUNS} are needed to tell which key matters."
    if not found:
        return f"No key of the config differs between the {num_runs:,} runs with {metric}."
    if num_runs < FEWEST_RUNS:
        return (
            f"{num_runs} runs with {metric} are too few to tell which key matters:"
            f" {FEWEST_RUNS} are needed."
        )
    said = []
    if matter := [one for one in found if one.verdict == "matters"]:
        first = matter[0]
        best = f"; the best runs are at {first.best}" if first.best is not None else ""
        said.append(
            f"{first.key} matters most for {metric}: it explains {100 * first.score:.0f} % of the"
            f" order of {num_runs:,} runs{best}."
        )
        if rest := [f"{one.key} ({100 * one.score:.0f} %)" for one in matter[1:]]:
            said.append(f"Then {', '.join(rest)}.")
    for verdict, sentence in _SENTENCES.items():
        if keys := ", ".join(one.key for one in found if one.verdict == verdict):
            said.append(sentence.format(keys))
    repeats = ", ".join(one.key for one in found if one.verdict == "repeats the run")
    return " ".join(said) or f"Only {repeats} differs between the runs, which repeats the run."
