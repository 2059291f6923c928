from __future__ import annotations

from epochal.run.phases import SpanLimit


def test_five_at_once_and_then_one_in_ten_seconds() -> None:
    limit = SpanLimit()
    assert [limit.allows("save", 0.2, at_s=0.0) for _ in range(7)] == [True] * 5 + [False] * 2
    assert [limit.allows("save", 0.2, at_s=t) for t in (9.0, 10.5, 11.0)] == [False, True, False]


def test_what_is_seldom_is_always_told() -> None:
    limit = SpanLimit()
    assert all(limit.allows("eval", 30.0, at_s=60.0 * hour) for hour in range(100))


def test_one_far_longer_than_usual_is_told_however_many_there_were() -> None:
    limit = SpanLimit()
    told = [limit.allows("data", 0.2, at_s=0.01 * n) for n in range(100)]
    assert sum(told) == 5
    assert limit.allows("data", 4.0, at_s=1.0)


def test_names_do_not_take_from_each_other() -> None:
    limit = SpanLimit()
    for _ in range(10):
        limit.allows("forward", 0.2, at_s=0.0)
    assert limit.allows("save", 0.2, at_s=0.0)
