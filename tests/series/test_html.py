"""Cards, tables and small charts for notebooks."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import pytest

from epochal.series.html import MOST_POINTS, Point, card, chart, progress_bar, table, thinned

HOSTILE = "</b><script>alert(1)</script>"


def test_few_points_remain_and_every_spike_is_among_them() -> None:
    points: list[Point] = [(float(step), math.sin(step / 1000)) for step in range(100_000)]
    points[31_415], points[99_998] = (31_415.0, 50.0), (99_998.0, -50.0)
    kept = thinned(points)
    assert len(kept) <= MOST_POINTS + 2
    assert {(31_415.0, 50.0), (99_998.0, -50.0), points[-1]} <= set(kept)
    assert list(kept) == sorted(kept)


def test_a_curve_that_is_thinned_again_and_again_keeps_its_beginning() -> None:
    curve: list[Point] = []
    for start in range(0, 100_000, 500):
        curve = list(
            thinned([*curve, *((float(x), float(x % 7)) for x in range(start, start + 500))])
        )
    in_first_half = sum(x < 50_000 for x, _ in curve)
    assert 0.4 < in_first_half / len(curve) < 0.6


def test_a_chart_is_drawn_from_the_points_that_are_finite() -> None:
    drawn = chart(
        {"loss": [(0, 2.0), (1, math.nan), (2, 1.0)], "eval/loss": [(2, math.inf), (1, 1.5)]}
    )
    svg = ElementTree.fromstring(drawn)
    texts = [text.text for text in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert texts == ["loss", "eval/loss", "2.0000", "1.0000", "0", "2"]
    lines = re.findall(r'points="([^"]+)"', drawn)
    assert [len(line.split()) for line in lines] == [2, 2]  # one point alone is drawn as a dot
    assert chart({"loss": [(0, math.nan)]}) == ""


def test_a_constant_is_drawn_between_the_values_beside_it() -> None:
    drawn = chart({"loss": [(0, 3.0), (1, 3.0)]})
    (top,), (bottom,) = (re.findall(rf'y="(\d+)"[^>]*>{value}000<', drawn) for value in (3.3, 2.7))
    (line,) = re.findall(r'points="([^"]+)"', drawn)
    for place in line.split():
        assert float(place.split(",")[1]) == pytest.approx((int(top) + int(bottom)) / 2, abs=4)


def test_names_from_files_are_escaped() -> None:
    shown = [
        chart({HOSTILE: [(0, 1.0)]}),
        card(
            HOSTILE,
            HOSTILE,
            facts={HOSTILE: HOSTILE},
            lines=[HOSTILE],
            notes=[HOSTILE],
            command=HOSTILE,
        ),
        table([HOSTILE], [[HOSTILE]], below=HOSTILE),
        progress_bar(None, HOSTILE),
        progress_bar(0.5, HOSTILE),
    ]
    assert all("<script" not in html and "&lt;script" in html for html in shown)
