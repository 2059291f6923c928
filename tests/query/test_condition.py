"""Conditions on metrics: their language, and whether they are met record by record."""

from __future__ import annotations

import pytest

from epochal.errors import UsageError
from epochal.query.condition import Condition, ConditionTracker


def met(text: str, *records: dict[str, float]) -> list[bool | None]:
    tracker = ConditionTracker(Condition(text))
    return [tracker.update(record) for record in records]


def test_a_condition_is_met_after_enough_points_in_a_row() -> None:
    values = [4.0, 5.0, 1.0, 4.0, 4.0, 4.0]
    records: list[dict[str, float]] = [{"eval/loss": value} for value in values]
    assert met("eval/loss > 3", *records) == [True, True, False, True, True, True]
    assert met("eval/loss > 3 for 3 points", *records) == [False] * 5 + [True]


def test_only_records_with_a_metric_of_the_condition_count() -> None:
    assert met("loss > 3 for 2 points", {"loss": 4.0}, {}, {"loss": 4.0}) == [False, None, True]


def test_comparisons_are_combined() -> None:
    records: list[dict[str, float]] = [{"a": 2.0}, {"b": 2.0}, {"a": 0.0}, {"step": 9.0}]
    assert met("a > 1 and b > 1", *records[:3]) == [False, True, False]
    assert met("(a > 1 and b > 1) or step == 9", *records) == [False, True, False, True]


@pytest.mark.parametrize(
    ("text", "metrics"),
    [
        ("eval/loss<2", ("eval/loss",)),
        ("a.b/c@x:y-z_1 != 1", ("a.b/c@x:y-z_1",)),
        ("'my loss' >= -1e-3 and step > 5", ("my loss", "step")),
        ("loss <= .5 for 1 point", ("loss",)),
    ],
)
def test_metrics_are_named_as_they_are_logged(text: str, metrics: tuple[str, ...]) -> None:
    assert Condition(text).metrics == metrics


def test_nan_meets_no_comparison_with_a_number() -> None:
    assert met("loss > 3 or loss <= 3", {"loss": float("nan")}) == [False]


@pytest.mark.parametrize(
    ("text", "sentence", "column"),
    [
        ("", "the condition is empty; write for example eval/loss > 3 for 5 points", 0),
        ("loss", "expected one of < <= > >= == != after the metric", 4),
        ("loss above 3", "there is 'above' here", 5),
        ("loss = 3", "write '==' instead", 5),
        ("loss => 3", "write '>=' instead", 5),
        ("loss ~ 3", "expected one of <", 5),
        ("loss > nan", "the rule 'nonfinite' reports NaN and infinity", 7),
        ("loss > config.lr", "expected a number after '>'", 7),
        ("3 < loss", "expected a metric, as in eval/loss > 3", 0),
        ("not loss > 3", "expected a metric", 0),
        ("exists(loss)", "expected a metric", 0),
        ("loss > 3 for 5 steps", "write 'for 5 points'; there is 'steps' here", 15),
        ("loss > 3 for 5", "write 'for 5 points'; the condition ends here", 14),
        ("loss > 3 for 0 points", "expected a whole number of points, at least 1", 13),
        ("loss > 3 during 5", "expected 'and', 'or', 'for 5 points' or the end", 9),
        ("loss > 3 && lr < 1", "write 'and' instead", 9),
        ("loss > 3 and", "the condition ends here", 12),
    ],
)
def test_a_mistake_is_marked(text: str, sentence: str, column: int) -> None:
    with pytest.raises(UsageError) as caught:
        Condition(text)
    first, _, mark = str(caught.value).split("\n")
    assert sentence in first
    assert mark == " " * (4 + column) + "^"
