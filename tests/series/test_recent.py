from statistics import median

from hypothesis import given
from hypothesis import strategies as st

from epochal.series.window import Recent

finite = st.floats(-1e9, 1e9)


@given(st.lists(finite, min_size=1, max_size=60), st.integers(1, 20))
def test_it_knows_the_newest_values(values: list[float], size: int) -> None:
    recent = Recent(size)
    for value in values:
        recent.push(value)
    kept = values[-size:]
    assert recent.median() == median(kept)
    assert recent.highest() == max(kept)
    assert len(recent) == len(kept)


@given(st.lists(finite, min_size=3, max_size=20))
def test_the_newest_can_be_taken_back(values: list[float]) -> None:
    recent = Recent(50)
    for value in values:
        recent.push(value)
    recent.drop_newest(2)
    assert recent.median() == median(values[:-2])
