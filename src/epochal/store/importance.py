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
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal

import msgspec
import numpy as np
from msgspec.structs import asdict, replace
from numpy.typing import NDArray

from epochal.errors import UsageError
from epochal.series.aggregate import Number, Numbers, aggregate_values, numbers_at
from epochal.series.effects import NO_EFFECT, Codes, holm, partial_effect, rank_correlation, ranks
from epochal.series.trend import Goal
from epochal.store.groups import (
    Choice,
    Group,
    GroupValue,
    Member,
    comparable,
    group_values,
    level,
    level_text,
    members_of,
    sort_key,
    varying_keys,
)
from epochal.store.store import RunView
from epochal.store.unfinished import Unfinished
from epochal.values import as_float

FEWEST_RUNS = 8
_MOST_LEVELS = 8
_MOST_BINS = 6
_RUNS_IN_A_BIN = 5
_SIGNIFICANT = 0.05
# A smaller share of the order matters to nobody, however sure thousands of runs make it.
_LEAST_SHARE = 0.01
_NUM_TREES = 300

Verdict = Literal["matters", "little effect", "no effect seen", "too few runs"]


class Level(Numbers, frozen=True, kw_only=True):
    """Runs with one value of a key, or with values in a range, and the numbers over them."""

    label: str
    value: Any
    num_runs: int
    nonfinite: int


class Parameter(msgspec.Struct, frozen=True):
    """One key of the config; ``share`` and ``spearman`` are nan where they cannot be computed.

    ``share`` (η²) is the part of the order of the runs that the levels explain. The table is sorted
    by ``score``: the share without what as many levels explain by chance, or the square of
    ``spearman`` if that is larger. ``p`` tests the key beside the other keys, after Holm's
    correction over all keys. ``best`` is the level with the best places in the order. ``same_as``
    are keys that always change together with this one.
    """

    key: str
    is_numeric: bool
    score: Number
    share: Number
    spearman: Number
    p: Number
    verdict: Verdict
    levels: tuple[Level, ...]
    best: str | None
    same_as: tuple[str, ...]
    forest: float | None


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
    value of the metric. ``forest_score`` is the out-of-bag R² of the forest, None without a forest.
    ``has_forest``: a forest can be requested.
    """

    metric: str
    goal: Goal | None
    num_runs: int
    nonfinite: int
    missing: int
    unfinished: Unfinished
    parameters: tuple[Parameter, ...]
    interaction: Interaction | None
    forest_score: float | None
    sentence: str
    has_forest: bool


def importance(
    runs: Iterable[RunView],
    metric: str,
    *,
    value: Choice = "last",
    at: float | None = None,
    pair: Sequence[str] | None = None,
    forest: bool = False,
    unfinished: bool = False,
) -> Importance:
    """Rank the keys of the config by how much a metric depends on them.

    ``value``, ``at`` and ``unfinished`` are as for groups. ``pair`` names the two keys of the
    interaction, by default the first two. ``forest`` also fits a random forest of scikit-learn.
    Raises ``MetricNotFoundError``.
    """
    members = members_of(runs)
    everything = Group((), (), tuple(members))
    (values,) = group_values([everything], metric, value=value, at=at, unfinished=unfinished)
    return importance_of(values, pair=pair, forest=forest)


def importance_of(
    values: GroupValue, *, pair: Sequence[str] | None = None, forest: bool = False
) -> Importance:
    """Like ``importance``, from the values of one group of all runs."""
    is_placed = [
        one.standing == "counted" or (one.standing == "nonfinite" and values.goal is not None)
        for one in values.members
    ]
    members = list(itertools.compress(values.group.members, is_placed))
    outcome = np.array(
        [_number(one.value) for one in itertools.compress(values.members, is_placed)]
    )
    order = ranks(_placed(outcome, values.goal))
    keys = _distinct(varying_keys(members), members)
    codes = {key: _codes(key, members) for key in keys}
    found = [
        _parameter(key, members, codes, outcome, order, values.goal) for key in keys if members
    ]
    corrected = holm([one.p for one in found])
    judged = [
        _judged(one, p, len(members), keys[one.key])
        for one, p in zip(found, corrected, strict=True)
    ]
    judged.sort(key=lambda one: -one.score if not math.isnan(one.score) else 1.0)
    score = None
    if forest:
        score, judged = _with_forest(judged, members, order)
    chosen = _pair(pair, judged)
    return Importance(
        metric=values.metric,
        goal=values.goal,
        num_runs=len(members),
        nonfinite=int((~np.isfinite(outcome)).sum()),
        missing=len(values.members) - len(members) - values.count("unfinished"),
        unfinished=values.unfinished,
        parameters=tuple(judged),
        interaction=None if chosen is None else _interaction(chosen, members, outcome),
        forest_score=score,
        sentence=_sentence(values.metric, judged, len(members)),
        has_forest=has_forest(),
    )


def has_forest() -> bool:
    """Whether scikit-learn is installed."""
    return find_spec("sklearn") is not None


def level_rows(found: Importance, one: Parameter) -> list[dict[str, Any]]:
    """A table of the levels of a key."""
    fixed = {"metric": found.metric, "key": one.key, "score": one.score}
    rows = []
    for each in one.levels:
        row = asdict(each)
        del row["value"]
        rows.append({**fixed, "level": row.pop("label"), **row})
    return rows


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _placed(outcome: NDArray[np.float64], goal: Goal | None) -> NDArray[np.float64]:
    """Values that can be ordered: what is not finite is worse than everything."""
    worst = math.inf if goal == "min" else -math.inf
    return np.where(np.isfinite(outcome), outcome, worst)


def _distinct(keys: Sequence[str], members: Sequence[Member]) -> dict[str, tuple[str, ...]]:
    """Keys, each with the later ones that say the same of every run.

    Where every run has a value of its own, that says nothing: only numbers in the same order do.
    """
    seen: dict[tuple[Any, ...], str] = {}
    same: dict[str, list[str]] = {}
    for key in keys:
        values = [level(member.config.get(key)) for member in members]
        numbers: dict[Any, int] = {}
        partition: tuple[Any, ...] = tuple(
            numbers.setdefault(comparable(value), len(numbers)) for value in values
        )
        if len(numbers) == len(values):
            in_order = _is_numeric(values) and not _is_seed(key)
            partition = tuple(ranks(values).tolist()) if in_order else (key,)
        same.setdefault(seen.setdefault(partition, key), []).append(key)
    return {key: tuple(inside[1:]) for key, inside in same.items()}


def _is_numeric(values: Sequence[Any]) -> bool:
    """Whether all values are numbers that a float can hold."""
    return all(type(one) in (int, float) and not math.isinf(as_float(one)) for one in values)


def _is_seed(key: str) -> bool:
    return key.rpartition(".")[2].lower().endswith("seed")


def _codes(key: str, members: Sequence[Member]) -> tuple[Codes, list[tuple[str, Any]]]:
    """The number of each run's level, and the levels' labels and values."""
    values = [level(member.config.get(key)) for member in members]
    distinct = sorted({comparable(one): one for one in values}.values(), key=sort_key)
    if _is_numeric(values) and len(distinct) > _MOST_LEVELS and not _is_seed(key):
        return _bins(np.array(values, dtype=np.float64))
    places = {comparable(one): place for place, one in enumerate(distinct)}
    codes = np.array([places[comparable(one)] for one in values], dtype=np.intp)
    return codes, [(level_text(one), one) for one in distinct]


def _bins(values: NDArray[np.float64]) -> tuple[Codes, list[tuple[str, Any]]]:
    """Numbers in bins of about equally many runs; equal numbers are in one bin."""
    wanted = int(np.clip(values.size // _RUNS_IN_A_BIN, 2, _MOST_BINS))
    place = np.minimum((ranks(values) - 0.5) / values.size * wanted, wanted - 1).astype(np.intp)
    used, codes = np.unique(place, return_inverse=True)
    labels: list[tuple[str, Any]] = []
    for index in range(used.size):
        inside = values[codes.reshape(-1) == index]
        low, high = float(inside.min()), float(inside.max())
        text = level_text(low) if low == high else f"{_short(low)} – {_short(high)}"
        labels.append((text, float(np.median(inside))))
    return codes.reshape(-1).astype(np.intp), labels


def _short(value: float) -> str:
    return f"{value:.3g}".replace("e-0", "e-").replace("e+0", "e+")


def _parameter(
    key: str,
    members: Sequence[Member],
    codes: dict[str, tuple[Codes, list[tuple[str, Any]]]],
    outcome: NDArray[np.float64],
    order: NDArray[np.float64],
    goal: Goal | None,
) -> Parameter:
    own, labels = codes[key]
    values = [level(member.config.get(key)) for member in members]
    is_numeric = _is_numeric(values) and not _is_seed(key)
    others = [
        one
        for name, (one, known) in codes.items()
        if name != key and 2 * len(known) <= len(members)
    ]
    num_numbers = 1 + sum(int(np.unique(one).size) - 1 for one in (*others, own))
    # Too many levels beside each other explain everything: then the key is tested alone.
    beside = others if 2 * num_numbers <= len(members) else []
    # Levels of hardly more than one run each explain everything, whatever they are.
    effect = partial_effect(beside, own, order) if 2 * len(labels) <= len(members) else NO_EFFECT
    rho, p_rho = rank_correlation(values, order) if is_numeric else (math.nan, math.nan)
    levels = tuple(
        _level(label, value, outcome[own == index]) for index, (label, value) in enumerate(labels)
    )
    scores = [effect.adjusted, 1 - (1 - rho * rho) * (len(members) - 1) / max(1, len(members) - 2)]
    known = [max(0.0, one) for one in scores if not math.isnan(one)]
    tested = [one for one in (effect.p, p_rho) if not math.isnan(one)]
    # The better of two tests is taken, so it counts twice.
    p = min(1.0, min(tested) * len(tested)) if tested else math.nan
    return Parameter(
        key=key,
        is_numeric=is_numeric,
        score=max(known, default=math.nan),
        share=effect.share,
        spearman=rho,
        p=p,
        verdict="no effect seen",
        levels=levels,
        best=_best(labels, own, order, goal),
        same_as=(),
        forest=None,
    )


def _level(label: str, value: Any, outcome: NDArray[np.float64]) -> Level:
    finite = outcome[np.isfinite(outcome)]
    return Level(
        label=label,
        value=value,
        num_runs=outcome.size,
        nonfinite=outcome.size - finite.size,
        **numbers_at(aggregate_values(finite), 0),  # type: ignore[arg-type]
    )


def _best(
    labels: Sequence[tuple[str, Any]], codes: Codes, order: NDArray[np.float64], goal: Goal | None
) -> str | None:
    """The level whose runs are the best on average, by their places: one bad run hides none."""
    if goal is None or not labels:
        return None
    means = [float(order[codes == index].mean()) for index in range(len(labels))]
    chosen = np.argmin(means) if goal == "min" else np.argmax(means)
    return labels[int(chosen)][0]


def _judged(one: Parameter, p: float, num_runs: int, same_as: tuple[str, ...]) -> Parameter:
    verdict: Verdict = "no effect seen"
    if num_runs < FEWEST_RUNS or math.isnan(p):
        verdict = "too few runs"
    elif p < _SIGNIFICANT:
        verdict = "matters" if one.score >= _LEAST_SHARE else "little effect"
    return replace(one, p=p, verdict=verdict, same_as=same_as)


def _pair(
    wanted: Sequence[str] | None, found: Sequence[Parameter]
) -> tuple[Parameter, Parameter] | None:
    if not wanted:
        return (found[0], found[1]) if len(found) > 1 else None
    if len(wanted) != 2:
        raise UsageError(f"an interaction is of two keys, not of {len(wanted)}.")
    chosen = [
        next((one for one in found if name in (one.key, *one.same_as)), None) for name in wanted
    ]
    if chosen[0] is None or chosen[1] is None:
        known = ", ".join(one.key for one in found)
        raise UsageError(f"{' and '.join(wanted)} do not both differ between the runs: {known} do.")
    return chosen[0], chosen[1]


def _interaction(
    pair: tuple[Parameter, Parameter], members: Sequence[Member], outcome: NDArray[np.float64]
) -> Interaction:
    (rows, row_labels), (columns, column_labels) = (_codes(one.key, members) for one in pair)
    shape = (len(row_labels), len(column_labels))
    mean, n = np.full(shape, np.nan), np.zeros(shape, dtype=np.int64)
    nonfinite = np.zeros(shape, dtype=np.int64)
    for place in itertools.product(range(shape[0]), range(shape[1])):
        inside = outcome[(rows == place[0]) & (columns == place[1])]
        finite = inside[np.isfinite(inside)]
        n[place], nonfinite[place] = finite.size, inside.size - finite.size
        if finite.size:
            mean[place] = finite.mean()
    first, second = (tuple(label for label, _ in one) for one in (row_labels, column_labels))
    keys = (pair[0].key, pair[1].key)
    return Interaction(keys, first, second, mean.tolist(), n.tolist(), nonfinite.tolist())


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
    matter = [one for one in found if one.verdict == "matters"]
    little = [one.key for one in found if one.verdict == "little effect"]
    unseen = [one.key for one in found if one.verdict == "no effect seen"]
    unknown = [one.key for one in found if one.verdict == "too few runs"]
    said = []
    if matter:
        first = matter[0]
        best = f"; the best runs are at {first.best}" if first.best is not None else ""
        said.append(
            f"{first.key} matters most for {metric}: it explains {100 * first.score:.0f} % of the"
            f" order of {num_runs:,} runs{best}."
        )
        rest = [f"{one.key} ({100 * one.score:.0f} %)" for one in matter[1:]]
        if rest:
            said.append(f"Then {', '.join(rest)}.")
    if little:
        said.append(f"The effect of {', '.join(little)} is below {100 * _LEAST_SHARE:.0f} %.")
    if unseen:
        said.append(f"No effect is seen of {', '.join(unseen)}.")
    if unknown:
        said.append(f"There are too few runs for {', '.join(unknown)}.")
    return " ".join(said)


def _with_forest(
    found: Sequence[Parameter], members: Sequence[Member], order: NDArray[np.float64]
) -> tuple[float | None, list[Parameter]]:
    """The out-of-bag score of a random forest, and the parameters with their shares in it."""
    if not has_forest():
        raise UsageError("a forest needs scikit-learn: 'pip install scikit-learn'.")
    if len(members) < FEWEST_RUNS or not found:
        return None, list(found)
    columns, owners = [], []
    for one in found:
        values = [level(member.config.get(one.key)) for member in members]
        if one.is_numeric:
            columns.append(np.array(values, dtype=np.float64))
            owners.append(one.key)
            continue
        for each in {comparable(value): value for value in values}.values():
            columns.append(
                np.array([comparable(value) == comparable(each) for value in values], dtype=float)
            )
            owners.append(one.key)
    forest = import_module("sklearn.ensemble").RandomForestRegressor(
        n_estimators=_NUM_TREES, oob_score=True, random_state=0
    )
    forest.fit(np.column_stack(columns), order)
    shares: dict[str, float] = dict.fromkeys(owners, 0.0)
    for owner, share in zip(owners, forest.feature_importances_, strict=True):
        shares[owner] += float(share)
    return float(forest.oob_score_), [replace(one, forest=shares[one.key]) for one in found]
