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
    total = next((s for s in curves if role is not None and s.name == role.name), None)
    others = [s for s in curves if s is not total and s.axis == "step"][:_MOST_CANDIDATES]
    if total is not None:
        yield from _sum_of(total, others)
    for place, series in enumerate(others):
        # Of several multiples of each other, each is compared with the first alone.
        for first in others[:place]:
            fit = _fit(series, [first])
            if fit is not None:
                text = f"{short(series.name)} = {digits(fit[0])} × {short(first.name)}"
                yield Fact(f"{text} at every point", 1)
                break


def _sum_of(total: Series, others: Sequence[Series]) -> Iterator[Fact]:
    """The smallest combination of metrics that gives a loss at every step."""
    for size in range(1, _MOST_TERMS + 1):
        for terms in itertools.combinations(others, size):
            factors = _fit(total, terms)
            if factors is not None:
                names = [
                    f"{digits(f)} × {short(t.name)}" for f, t in zip(factors, terms, strict=True)
                ]
                yield Fact(f"{short(total.name)} = {' + '.join(names)} at every point", 0)
                return


def _fit(total: Series, terms: Sequence[Series]) -> list[float] | None:
    """Factors that make a metric a sum of others at their common steps; None where none do."""
    common = total.steps
    for term in terms:
        common = np.intersect1d(common, term.steps)
    if len(common) < _FEWEST_POINTS:
        return None
    common = common[:: max(1, len(common) // _MOST_POINTS)]
    columns = np.stack([_at(term, common) for term in terms], axis=1)
    wanted = _at(total, common)
    if not (np.isfinite(columns).all() and np.isfinite(wanted).all()):
        return None
    factors, *_ = np.linalg.lstsq(columns, wanted, rcond=1e-9)
    deviation = float(wanted.std())
    rest = float(np.abs(wanted - columns @ factors).max())
    shares = np.abs(factors) * columns.std(axis=0)
    is_exact = deviation > 0 and rest <= _EXACT * deviation and bool((shares > rest).all())
    return [float(factor) for factor in factors] if is_exact else None


def _at(series: Series, steps: NDArray[np.int64]) -> Floats:
    order = np.argsort(series.steps, kind="stable")
    places = np.searchsorted(series.steps[order], steps)
    return series.floats[order[places]]
