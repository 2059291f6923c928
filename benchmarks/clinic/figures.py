"""Whether a finding's sentence agrees with its own figures and with the series it is about."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator

from benchmarks.clinic.evidence import Evidence
from epochal.health.finding import Finding
from epochal.records import scalars_of

_NUMBER = r"(-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?)"
_AT_STEP = re.compile(rf"{_NUMBER} at step (\d[\d,]*)", re.IGNORECASE)
_UP = re.compile(rf"\b(?:rose|risen|rises|grew|grown|climbed) from {_NUMBER}\S* to {_NUMBER}", re.I)
_DOWN = re.compile(rf"\b(?:fell|fallen|falls|dropped|shrank) from {_NUMBER}\S* to {_NUMBER}", re.I)
_NOT_FALLEN = re.compile(rf"not (?:fallen|fall)[^.]*?{_NUMBER} at first, {_NUMBER} at step", re.I)
# Sentences round, and say the level around a step: the nearest points count as well.
_NEAR_POINTS = 40
_ROUNDING = 0.02
_STILL_EQUAL = 0.95


def contradictions(finding: Finding, series: dict[str, list[tuple[int, float]]]) -> Iterator[str]:
    """What in a sentence its own figures or the recorded series contradict."""
    text = finding.sentence
    for found in _NOT_FALLEN.finditer(text):
        first, last = map(_value, found.groups())
        if last < _STILL_EQUAL * first:
            yield f"'not fallen', but from {first:g} to {last:g}"
    for found in _UP.finditer(text):
        first, last = map(_value, found.groups())
        if last < first:
            yield f"a rise from {first:g} to {last:g}"
    for found in _DOWN.finditer(text):
        first, last = map(_value, found.groups())
        if last > first:
            yield f"a fall from {first:g} to {last:g}"
    points = series.get(finding.series or "")
    if points:
        for found in _AT_STEP.finditer(text):
            value, step = map(_value, found.groups())
            bounds = _around(points, step)
            if bounds is not None and not _within(value, *bounds):
                low, high = bounds
                yield f"{value:g} at step {step:g}, where the series has {low:g} to {high:g}"


def series_of(evidence: Evidence) -> dict[str, list[tuple[int, float]]]:
    """The series of rank 0, each as steps and finite values."""
    found: dict[str, list[tuple[int, float]]] = {}
    for rank, _, record in evidence.entries:
        step = record.get("step")
        if rank > 0 or not isinstance(step, int):
            continue
        for name, value in scalars_of(record):
            if math.isfinite(value):
                found.setdefault(name, []).append((step, value))
    return found


def _around(points: Iterable[tuple[int, float]], step: float) -> tuple[float, float] | None:
    near = sorted(points, key=lambda point: abs(point[0] - step))[:_NEAR_POINTS]
    values = [value for _, value in near]
    return (min(values), max(values)) if values else None


def _within(value: float, low: float, high: float) -> bool:
    room = _ROUNDING * max(abs(low), abs(high), abs(value))
    return low - room <= value <= high + room


def _value(text: str) -> float:
    return float(text.replace(",", ""))
