"""Many ranks of one run: a heat map of ranks by steps, with the numbers of Python."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest

from epochal.api import reading
from tests.e2e.browsing import OpenPage, Serve, download, point_at, until
from tests.store.journals import Journal

RANKS, STEPS = 1000, 30
SLOW, BROKEN, STOPPED = 337, 42, 900
ADDRESS = "#place=board&ranks=map"


def durations() -> np.ndarray:
    """Milliseconds by rank and step; a straggler, a rank that turns nan, one that stops."""
    found = np.random.default_rng(0).normal(400, 5, size=(RANKS, STEPS))
    found[SLOW] += 120
    found[BROKEN, 20:] = math.nan
    found[STOPPED, 15:] = -math.inf
    return found


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("ranks")
    journal = Journal(root, "wide", config={"world_size": RANKS})
    for rank, row in enumerate(durations().tolist()):
        records = [
            {"log": "metrics", "step": step, "m": {"train/duration_ms": value}}
            for step, value in enumerate(row)
            if value != -math.inf
        ]
        journal.add(*records, writer="loop" if rank == 0 else f"rank-{rank:04d}")
    journal.finish()
    Journal(root, "other").metrics(1, loss=1.0).finish()
    return root


def test_python_reads_every_rank(runs: Path) -> None:
    expected = durations()
    with reading.open(runs) as opened:
        run = opened.run("wide")
        (metric,) = run.metrics()
        assert metric.ranks == tuple(range(RANKS))
        for rank in (0, SLOW, BROKEN, STOPPED, RANKS - 1):
            own = expected[rank][expected[rank] != -math.inf]
            np.testing.assert_array_equal(run.series("duration_ms", rank=rank).values, own)


def test_a_thousand_ranks_are_a_readable_heat_map(
    runs: Path, serve_all: Serve, open_page: OpenPage
) -> None:
    page = open_page(f"{serve_all(runs).url}{ADDRESS}&run=id-wide")
    card = page.locator('[data-metric="train/duration_ms"]')
    map_ = card.get_by_role("img", name="train/duration_ms by rank of wide")
    map_.wait_for()
    note = card.locator(".rank-note").inner_text()
    per_row = int(re.fullmatch(r"(\d+) ranks a row, wide", note)[1])  # type: ignore[index]
    rows = math.ceil(RANKS / per_row)
    until(
        page,
        lambda: (
            map_.get_attribute("aria-label")
            == (f"train/duration_ms by rank of wide: {rows} rows, {STEPS} columns")
        ),
    )
    svg = download(page, "train/duration_ms", "SVG")
    assert "train/duration_ms by rank of wide" in svg
    tops = cells_by_top(svg, rows)
    darkest = max(tops, key=lambda top: -np.mean([lightness(fill) for fill in tops[top]]))
    assert sorted(tops).index(darkest) == SLOW // per_row
    # A rank that stopped leaves cells empty; one that is nan has a colour of its own.
    counts = [len(tops[top]) for top in sorted(tops)]
    short = [row for row, count in enumerate(counts) if count < STEPS]
    assert short == [STOPPED // per_row]
    assert counts[short[0]] == 15
    broken = tops[sorted(tops)[BROKEN // per_row]]
    assert len(set(broken[20:])) == 1
    assert broken[20] not in set(broken[:20])


def test_the_pointer_names_the_rank_that_differs_most(
    runs: Path, serve_all: Serve, open_page: OpenPage
) -> None:
    page = open_page(f"{serve_all(runs).url}{ADDRESS}&run=id-wide&full=train/duration_ms")
    # Until the ranks are known, a chart of lines is in its place.
    page.locator(".full-chart .rank-note").wait_for()
    canvas = page.locator(".full-chart canvas")
    tooltip = page.locator(".chart-tooltip")

    def is_found() -> bool:
        # Along the middle of the map, from top to bottom: the row of the straggler is among them.
        for down in np.linspace(0.25, 0.45, 60):
            point_at(page, canvas, 0.5, down=float(down))
            if f"rank {SLOW}" in " ".join(tooltip.all_inner_texts()):
                return True
        return False

    until(page, is_found)
    step, _, value = re.findall(r"[\d.,–]+", tooltip.first.inner_text())[:3]
    assert float(value) == pytest.approx(durations()[SLOW, int(step)], abs=0.01)


def cells_by_top(svg: str, rows: int) -> dict[float, list[str]]:
    """Colours of the cells of each row, by the row's place."""
    found: dict[float, list[str]] = {}
    pattern = r'<rect x="[-\d.]+" y="([-\d.]+)" width="[-\d.]+" height="[-\d.]+" fill="([^"]+)"'
    for top, fill in re.findall(pattern, svg):
        found.setdefault(float(top), []).append(fill)
    # The key of colours, the page and the like are rows of their own; those of the map come first.
    tops = [top for top in sorted(found) if len(found[top]) > 1][:rows]
    assert len(tops) == rows
    return {top: found[top] for top in tops}


def lightness(fill: str) -> float:
    """Of a colour such as `#3d68ca`; others stand for nan."""
    return sum(bytes.fromhex(fill[1:])) / 765 if fill.startswith("#") else 1.0
