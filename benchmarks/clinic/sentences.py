"""Whether a finding's sentence agrees with its own numbers and with the series it is about."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from benchmarks.clinic.journal import Series
from epochal.health.finding import Finding

_NUMBER = r"(-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?)"
_AT_STEP = re.compile(rf"{_NUMBER} at step (\d[\d,]*)", re.IGNORECASE)
_UP = re.compile(rf"\b(?:rose|risen|rises|grew|grown|climbed) from {_NUMBER}\S* to {_NUMBER}", re.I)
_DOWN = re.compile(rf"\b(?:fell|fallen|falls|dropped|shrank) from {_NUMBER}\S* to {_NUMBER}", re.I)
_NOT_FALLEN = re.compile(rf"not (?:fallen|fall)[^.]*?{_NUMBER} at first, {_NUMBER} at step", re.I)
# Sentences round, and name the level around a step: the nearest points count as well.
_NEAR_POINTS = 40
_ROUNDING = 0.02
_STILL_EQUAL = 0.95


def contradictions(finding: Finding, series: Series) -> Iterator[str]:
    """What in a sentence its own numbers or the recorded series contradict."""
    text = finding.sentence
    for first, last in _pairs(_NOT_FALLEN, text):
        if last < _STILL_EQUAL * first:
            yield f"'not fallen', but from {first:g} to {last:g}"
    for first, last in _pairs(_UP, text):
        if last < first:
            yield f"a rise from {first:g} to {last:g}"
    for first, last in _pairs(_DOWN, text):
        if last > first:
            yield f"a fall from {first:g} to {last:g}"
    points = series.get(finding.series or "")
    for value, step in _pairs(_AT_STEP, text) if points else ():
        low, high = _around(points or (), step)
        room = _ROUNDING * max(abs(low), abs(high), abs(value))
        if not low - room <= value <= high + room:
            yield f"{value:g} at step {step:g}, where the series has {low:g} to {high:g}"


def _pairs(pattern: re.Pattern[str], text: str) -> Iterator[tuple[float, float]]:
    for found in pattern.finditer(text):
        first, second = found.groups()
        yield float(first.replace(",", "")), float(second.replace(",", ""))


def _around(points: Sequence[tuple[int, float]], step: float) -> tuple[float, float]:
    near = sorted(points, key=lambda point: abs(point[0] - step))[:_NEAR_POINTS]
    values = [value for _, value in near]
    return min(values), max(values)
