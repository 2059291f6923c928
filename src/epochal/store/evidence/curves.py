"""The logged metrics: course, loss at the start, floors, constants and fixed relations."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from epochal.health.data_window import is_training
from epochal.series.series import Series
from epochal.store.evidence.material import Fact, Material, digits, listed, percent, short

_STRETCHES = 5
_FEWEST_POINTS = 10
# A share of points at the smallest or largest value from which it is worth a line.
_OFTEN = 0.2
# A combination explains a loss if what it leaves is below this share of the loss's deviation.
_EXACT = 1e-3
_MOST_TERMS, _MOST_CANDIDATES, _MOST_POINTS = 3, 8, 2000
# How far above a floor a smallest loss may lie for the floor to be shown.
_NEAR_FLOOR = 1.05

Floats = NDArray[np.float64]


def loss(material: Material) -> Iterator[Fact]:
    """The loss at the start against a model that knows nothing, and floors that it may have."""
    known = material.of_role("loss")
    if known is None:
        return
    name, summary = known
    text = f"{short(name)}: first {digits(summary.first)}, last {digits(summary.last)}"
    smallest = f"smallest {digits(summary.min)} at {digits(summary.min_step)}"
    yield Fact(
        f"{text}, {smallest}, largest {digits(summary.max)} at {digits(summary.max_step)}", 0
    )
    outputs, classes = material.newest("model").get("outputs"), material.classes
    guesses = (
        [f"{digits(math.log(outputs))} = ln {outputs} if its outputs are classes"]
        if _is_many(outputs)
        else []
    )
    targets = max(map(_targets, material.windows), key=_samples, default={})
    if "entropy" in targets:
        guesses.append(f"{digits(targets['entropy'])} = entropy of the targets")
    if "variance" in targets:
        guesses.append(f"{digits(targets['variance'])} = variance of the targets")
    if guesses:
        yield Fact(f"loss of a model that knows nothing: {', '.join(guesses)}", 0)
    if _is_many(classes) and summary.min is not None:
        floor = math.log(math.e + classes - 1) - 1
        if floor * 0.99 <= summary.min <= _NEAR_FLOOR * floor:
            where = f"smallest {short(name)} {digits(summary.min)}"
            yield Fact(
                f"{where}; the cross entropy of shares that went through a softmax before it cannot"
                f" fall below {floor:.4f} with {classes} classes",
                0,
            )


def _is_many(count: Any) -> TypeGuard[int]:
    return isinstance(count, int) and count > 1


def _targets(window: Any) -> Mapping[str, Any]:
    targets = window.record.get("targets")
    return targets if is_training(window.name) and isinstance(targets, Mapping) else {}


def _samples(targets: Mapping[str, Any]) -> int:
    return int(targets.get("samples", 0))


def metrics(material: Material) -> Iterator[Fact]:
    """The course of the main metrics, those that never change, and how they are related."""
    constant = [
        f"{short(metric.name)} = {digits(s.last)} ({s.count:,} points)"
        for metric in material.main
        if (s := material.summaries.get(metric.name)) is not None
        and s.count >= _FEWEST_POINTS
        and s.min == s.max
        and s.min is not None
        and not s.nonfinite
    ]
    if constant:
        yield Fact(f"the same at every point: {listed(constant, 8)}", 0)
    for metric in material.main:
        summary = material.summaries.get(metric.name)
        if summary is not None and summary.nonfinite:
            count = f"{summary.nonfinite:,} of {summary.count:,} points"
            yield Fact(f"{short(metric.name)}: {count} are nan or infinite", 0)
    curves = [series for series in material.curves if series.summary.min != series.summary.max]
    yield from _relations(material, curves)
    for place, series in enumerate(curves):
        yield from _often(series)
        if series.name not in material.evaluated:
            yield Fact(f"{short(series.name)}: {course(series)}", 1 if place < 4 else 2)
    shown = {series.name for series in material.curves}
    others = [metric.name for metric in material.main if metric.name not in shown]
    if others:
        yield Fact(f"{len(others):,} more metrics: {listed(others)}", 2)


def course(series: Series) -> str:
    """Medians of equal stretches, and how much the last stretch scatters."""
    values = series.floats
    stretches = np.array_split(values, min(_STRETCHES, len(values)))
    known = [part[np.isfinite(part)] for part in stretches]
    shown = " → ".join(digits(float(np.median(part))) if part.size else "nan" for part in known)
    last = known[-1]
    scatter = f", deviation in the last {digits(float(last.std()))}" if last.size > 2 else ""
    what = "medians of fifths" if len(values) > _STRETCHES else "values"
    ends = f"{digits(series.at[0].item())} to {digits(series.at[-1].item())}"
    return f"{len(values):,} points, {series.x} {ends}, {what} {shown}{scatter}"


def _often(series: Series) -> Iterator[Fact]:
    """A value at which a metric stays: its smallest, or its largest."""
    values = series.floats
    for word, bound in (("smallest", series.summary.min), ("largest", series.summary.max)):
        share = float(np.mean(values == bound)) if bound is not None else 0.0
        if share >= _OFTEN and len(values) >= _FEWEST_POINTS:
            yield Fact(
                f"{short(series.name)}: {percent(share)} of its points are its {word} value"
                f" {digits(bound)}",
                0,
            )


def _relations(material: Material, curves: Sequence[Series]) -> Iterator[Fact]:
    """The loss as a fixed sum of other metrics, and metrics that are multiples of each other."""
    role = material.view.role("loss")
    ordered = sorted(curves, key=lambda series: role is None or series.name != role.name)
    stepped = [series for series in ordered if series.axis == "step"][: _MOST_CANDIDATES + 1]
    if not stepped:
        return
    steps = _spread(stepped[0].steps)
    columns = {series.name: _at(series, steps) for series in stepped}
    first, *others = columns
    if role is not None and first == role.name:
        yield from _sum_of(first, others, columns)
    for place, name in enumerate(others):
        # Of several multiples of each other, each is compared with the first alone.
        for base in others[:place]:
            factors = _fit(columns[name], [columns[base]])
            if factors is not None:
                text = f"{short(name)} = {digits(factors[0])} × {short(base)} at every point"
                yield Fact(text, 1)
                break


def _sum_of(total: str, others: Sequence[str], columns: Mapping[str, Floats]) -> Iterator[Fact]:
    """The smallest combination of metrics that gives a loss at every step."""
    for size in range(1, _MOST_TERMS + 1):
        for terms in itertools.combinations(others, size):
            factors = _fit(columns[total], [columns[term] for term in terms])
            if factors is not None:
                pairs = zip(factors, terms, strict=True)
                text = " + ".join(f"{digits(factor)} × {short(term)}" for factor, term in pairs)
                yield Fact(f"{short(total)} = {text} at every point", 0)
                return


def _fit(wanted: Floats, terms: Sequence[Floats]) -> list[float] | None:
    """Factors that make a metric a sum of others wherever all have a value; None if none do."""
    matrix = np.stack(terms, axis=1)
    known = np.isfinite(wanted) & np.isfinite(matrix).all(axis=1)
    if known.sum() < _FEWEST_POINTS:
        return None
    wanted, matrix = wanted[known], matrix[known]
    factors, *_ = np.linalg.lstsq(matrix, wanted, rcond=1e-9)
    rest = float(np.abs(wanted - matrix @ factors).max())
    deviation = float(wanted.std())
    is_exact = deviation > 0 and rest <= _EXACT * deviation
    # A term that explains no more than what is left over is no term.
    has_terms = bool((np.abs(factors) * matrix.std(axis=0) > rest).all())
    return [float(factor) for factor in factors] if is_exact and has_terms else None


def _spread(steps: NDArray[np.int64]) -> NDArray[np.int64]:
    return steps[:: max(1, len(steps) // _MOST_POINTS)]


def _at(series: Series, steps: NDArray[np.int64]) -> Floats:
    """The values of a series at some steps; NaN where it has none."""
    order = np.argsort(series.steps, kind="stable")
    own = series.steps[order]
    places = np.minimum(np.searchsorted(own, steps), len(own) - 1)
    return np.where(own[places] == steps, series.floats[order[places]], np.nan)
