from __future__ import annotations

import numpy as np

from epochal.imports.copying import metrics_of
from epochal.imports.foreign import Batch, Points


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
