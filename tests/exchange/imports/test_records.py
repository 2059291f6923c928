from __future__ import annotations

from epochal.exchange.imports.foreign import RecordList


def records(*rows: tuple[str, int, float, float]) -> RecordList:
    found = RecordList()
    for name, step, t, value in rows:
        found.add_point(name, value, step=step, t=t)
    return found


def test_points_of_one_step_and_time_are_one_record() -> None:
    assert records(("a", 1, 5.0, 1.0), ("b", 1, 5.0, 2.0), ("a", 2, 5.0, 3.0)) == [
        {"log": "metrics", "t": 5.0, "step": 1, "m": {"a": 1.0, "b": 2.0}},
        {"log": "metrics", "t": 5.0, "step": 2, "m": {"a": 3.0}},
    ]


def test_a_name_that_comes_again_begins_a_record() -> None:
    found = records(("a", 1, 5.0, 1.0), ("a", 1, 5.0, 2.0))
    assert [record["m"]["a"] for record in found] == [1.0, 2.0]
