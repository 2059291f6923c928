from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from epochal.exchange.imports.histogram import edges_from_limits, histogram_record, moments_of
from epochal.records import Record

COUNTS = st.lists(st.integers(0, 1000), min_size=1, max_size=30)


def made(edges: Sequence[float], counts: Sequence[float]) -> Record:
    return histogram_record("h", t=0.0, step=1, edges=edges, counts=counts)


@given(COUNTS, st.data())
def test_no_count_is_lost_in_other_bins(counts: list[int], data: st.DataObject) -> None:
    widths = data.draw(st.lists(st.floats(0, 1e6), min_size=len(counts), max_size=len(counts)))
    edges = [0.0]
    for width in widths:
        edges.append(edges[-1] + width)
    record = made(edges, [float(c) for c in counts])
    assert sum(record["counts"]) == record["count"] == sum(counts)


def test_equal_bins_stay_as_they_are() -> None:
    record = made([0, 1, 2, 3], [1, 0, 2])
    assert (record["lo"], record["hi"], record["counts"]) == (0.0, 3.0, [1, 0, 2])
    assert "edges" not in record


def test_other_bins_are_kept_beside() -> None:
    record = made([0, 1, 10], [3, 5])
    assert (record["edges"], record["edge_counts"]) == ([0.0, 1.0, 10.0], [3, 5])
    assert len(record["counts"]) == 64


def test_what_makes_no_sense_is_an_empty_histogram() -> None:
    assert made([], [])["counts"] == []
    assert made([0, 1], [1, 2])["counts"] == []
    assert made([2, 1], [3])["counts"] == []
    assert made([0, float("inf")], [1])["counts"] == []


def test_limits_are_cut_to_the_extremes() -> None:
    assert edges_from_limits([0.0, 5.0, 1e308], low=1.0, high=6.0) == [1.0, 1.0, 5.0, 6.0]


def test_moments_come_from_sums() -> None:
    assert moments_of(2, 6, 20) == (3.0, 1.0)
    assert moments_of(0, 0, 0) is None
