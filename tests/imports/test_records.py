from __future__ import annotations

import numpy as np

from epochal.imports.copying import metrics_of
from epochal.imports.foreign import Batch, Points
from epochal.imports.gathered import GatheredAttempt


def batch(rows: list[tuple[str, int, float, float]], *records: dict[str, object]) -> Batch:
    names = tuple(dict.fromkeys(row[0] for row in rows))
    points = Points(
        names,
        np.array([names.index(row[0]) for row in rows], dtype=np.int32),
        np.array([row[1] for row in rows], dtype=np.int64),
        np.array([row[2] for row in rows], dtype=np.float64),
        np.array([row[3] for row in rows], dtype=np.float64),
    )
    return Batch(points, list(records))


def test_points_of_one_step_and_millisecond_are_one_record() -> None:
    rows = [("a", 1, 5.0001, 1.0), ("b", 1, 5.0002, 2.0), ("a", 2, 5.0003, 3.0)]
    assert list(metrics_of(batch(rows).points)) == [
        {"log": "metrics", "t": 5.0, "step": 1, "m": {"a": 1.0, "b": 2.0}},
        {"log": "metrics", "t": 5.0, "step": 2, "m": {"a": 3.0}},
    ]


def test_a_name_that_comes_again_begins_a_record() -> None:
    rows = [("a", 1, 5.0, 1.0), ("a", 1, 5.0, 2.0)]
    assert [record["m"]["a"] for record in metrics_of(batch(rows).points)] == [1.0, 2.0]


def test_columns_are_by_name_in_the_order_written() -> None:
    gathered = GatheredAttempt()
    gathered.add(batch([("a", 1, 5.0, 1.0), ("b", 1, 5.0, 2.0)], {"log": "text", "t": 5.0}))
    gathered.add(batch([("b", 2, 6.0, 3.0), ("c", 2, 6.0, 4.0)]))
    columns = gathered.columns()
    assert list(columns) == ["a", "b", "c"]
    assert columns["b"].steps.tolist() == [1, 2]
    assert columns["b"].ordinals.tolist() == [1, 3]


def test_records_can_be_had_from_any_ordinal_on() -> None:
    gathered = GatheredAttempt()
    gathered.add(batch([("a", 1, 5.0, 1.0)], {"log": "text", "t": 5.0}))
    gathered.add(batch([("a", 2, 6.0, 2.0), ("a", 3, 6.0, 3.0)]))
    assert gathered.num_records == 4
    whole = list(gathered.records())
    assert [ordinal for ordinal, _ in whole] == [0, 1, 2, 3]
    for first in range(5):
        assert list(gathered.records(first=first)) == whole[first:]
