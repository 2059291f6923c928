"""Conditions on metrics, such as ``eval/loss > 3 for 5 points``, and whether they are met.

    condition  = and { "or" and }                       eval/loss < 2 and step > 1000
    and        = part { "and" part }
    part       = "(" condition ")" | comparison
    comparison = metric operator number [ "for" number "points" ]
    operator   = "<" | "<=" | ">" | ">=" | "==" | "!="

A metric is the name of a series, its end (``loss`` for ``train/loss``), a role, ``step`` or
``epoch``. Put a name in quotes if it contains other characters than letters, digits and
``/ . _ - @ :``. ``for 5 points`` asks for five points of the metric in a row.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

from epochal.query import filter as q
from epochal.query.parser import Token

_OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_NONFINITE = ("nan", "inf", "infinity")
_MOST_POINTS = 1_000_000


class Condition:
    """A parsed condition: its text, and the metrics that it reads. Raises ``UsageError``."""

    def __init__(self, text: str) -> None:
        self.text = text.strip()
        self.tree = _Parser(text).whole()
        self.metrics = tuple(dict.fromkeys(map(str, q.fields_of(self.tree))))
        self.comparisons = tuple(_comparisons(self.tree))

    @property
    def most_points(self) -> int:
        """How many points in a row it asks for; of several comparisons, the largest number."""
        return max(comparison.points for comparison in self.comparisons)


class ConditionTracker:
    """Follows a condition record by record; ``values`` has the last value of each metric."""

    def __init__(self, condition: Condition) -> None:
        self.condition = condition
        self.values: dict[str, float] = {}
        self._counts = dict.fromkeys(condition.comparisons, 0)

    def update(self, values: Mapping[str, float]) -> bool | None:
        """Return whether the condition is met after one record; None if it has no such metric.

        ``values`` are those of the record, by the names of the metrics in the condition.
        """
        self.values.update(values)
        for comparison, count in self._counts.items():
            value = values.get(str(comparison.left))
            if value is not None:
                meets = _OPERATORS[comparison.operator](value, _number(comparison))
                self._counts[comparison] = count + 1 if meets else 0
        return self._is_met(self.condition.tree) if values else None

    @property
    def holds(self) -> bool:
        """Whether the last values meet the condition, for however many points."""
        return self._is_met(self.condition.tree, most=1)

    def _is_met(self, tree: q.Filter, most: int = _MOST_POINTS) -> bool:
        if isinstance(tree, q.Junction):
            met = (self._is_met(operand, most) for operand in tree.operands)
            return any(met) if tree.word == "or" else all(met)
        return isinstance(tree, q.Comparison) and self._counts[tree] >= min(tree.points, most)


def _comparisons(tree: q.Filter) -> list[q.Comparison]:
    if isinstance(tree, q.Junction):
        return [inner for operand in tree.operands for inner in _comparisons(operand)]
    return [tree] if isinstance(tree, q.Comparison) else []


def _number(comparison: q.Comparison) -> float:
    assert isinstance(comparison.right, q.Constant)
    assert isinstance(comparison.right.value, (int, float))
    return comparison.right.value


class _Parser(q.LogicParser):
    noun = "condition"
    example = "eval/loss > 3 for 5 points"
    rest = "'and', 'or', 'for 5 points' or the end"

    def operand(self) -> q.Filter:
        metric, sign = self._metric(self.take()), self.take()
        if sign.text not in _OPERATORS:
            known = f"expected one of {' '.join(_OPERATORS)} after the metric"
            self.unexpected(self.hints.get(sign.text, known), sign)
        number = self._number(f"a number after {sign.text!r}")
        name = q.OPERATORS[sign.text]
        return q.Comparison(name, metric, number, sign.column, self._points())

    def _metric(self, token: Token) -> q.Field:
        metric = q.value_of(token)
        if isinstance(metric, q.Constant) and isinstance(metric.value, str):
            return q.Field((metric.value,), token.column)
        if not isinstance(metric, q.Field):
            self.unexpected(f"expected a metric, as in {self.example}", token)
        return metric

    def _number(self, wanted: str) -> q.Constant:
        token = self.take()
        number = q.value_of(token)
        if token.kind != "number" or not isinstance(number, q.Constant):
            if token.text.lower() in _NONFINITE:
                wanted += " (the rule 'nonfinite' reports NaN and infinity)"
            self.unexpected(f"expected {wanted}", token)
        return number

    def _points(self) -> int:
        if not self.takes("for"):
            return 1
        number = self._number("a number of points after 'for'")
        if not isinstance(number.value, int) or not 1 <= number.value <= _MOST_POINTS:
            self.fail("expected a whole number of points, at least 1", number.column)
        if not (self.takes("points") or self.takes("point")):
            self.unexpected(f"write 'for {number.value} points'", self.peek())
        return number.value
