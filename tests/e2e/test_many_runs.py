"""A folder of many runs, some of which went wrong: what a person sees who has just come."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import StartRun
from tests.e2e.browsing import OpenPage, Serve, download, until, wait_for_lines

STEPS = 40
STRONG = r'stroke="#\w+" stroke-width="2\.3"'


def losses(kind: str) -> Iterator[float]:
    for step in range(STEPS):
        usual = 1 + 3 * math.exp(-step / 10)
        yield {
            "exploded": usual if step < 20 else 1200.0,
            "nan": usual if step < 20 else math.nan,
        }.get(kind, usual + len(kind) / 50)


@pytest.fixture
def runs(tmp_path: Path, start_run: StartRun) -> Path:
    """Ten runs; the oldest two are not in the charts at first."""
    good = ["good" + "o" * index for index in range(7)]
    for name in ("oldest", "nan", "exploded", *good):
        with start_run(name) as run:
            for step, loss in enumerate(losses(name)):
                run.log({"train/loss": loss, "acc": 1 / (1 + loss)}, step=step)
    return tmp_path / "runs"


def top_of_axis(page: object, metric: str = "train/loss") -> float:
    """The largest label of the y axis, as it is drawn."""
    svg = download(page, metric, "SVG")  # type: ignore[arg-type]
    labels = re.findall(r'text-anchor="end"[^>]*>([\d.,k\u202f]+)</text>', svg)
    return max(float(re.sub(r"[^\d.]", "", one)) * (1000 if "k" in one else 1) for one in labels)


def test_a_run_that_is_chosen_is_drawn_in_front_in_every_chart_and_stays_unticked(
    runs: Path, serve: Serve, open_page: OpenPage
) -> None:
    page = open_page(serve(runs).url)
    wait_for_lines(page, "train/loss", 8)
    page.locator(".run-name", has_text="oldest").click()
    wait_for_lines(page, "train/loss", 9)
    box = page.get_by_role("checkbox", name="Show oldest in the charts")
    assert box.get_attribute("aria-checked") == "false"
    assert "8 of 10 shown" in page.locator(".runs-count").inner_text()
    assert "oldest" in page.locator(".chart-legend").inner_text()
    page.get_by_role("tab", name="Charts").click()
    for metric in ("train/loss", "acc"):
        wait_for_lines(page, metric, 9)
        assert len(re.findall(STRONG, download(page, metric, "SVG"))) == 1
    page.locator(".run-name", has_text=re.compile("^goodoo$")).click()
    wait_for_lines(page, "train/loss", 8)


def test_a_run_that_exploded_does_not_flatten_the_others(
    runs: Path, serve: Serve, open_page: OpenPage
) -> None:
    page = open_page(serve(runs).url)
    wait_for_lines(page, "train/loss", 8)
    assert top_of_axis(page) < 10
    assert "clipped, 1 line beyond" in download(page, "train/loss", "SVG")
    page.get_by_role("button", name="Beyond the axis: exploded").click()
    until(page, lambda: "clip=0" in page.url)
    assert top_of_axis(page) >= 1000
    page.get_by_role("button", name="Outliers").click()
    page.get_by_role("menuitemcheckbox", name="Clip runs that flatten the others").click()
    until(page, lambda: "clip" not in page.url)
    assert top_of_axis(page) < 10


def test_a_run_by_itself_is_shown_whole(runs: Path, serve: Serve, open_page: OpenPage) -> None:
    page = open_page(serve(runs).url)
    wait_for_lines(page, "train/loss", 8)
    page.locator(".run-name", has_text="exploded").dblclick()
    wait_for_lines(page, "train/loss", 1)
    assert top_of_axis(page) >= 1000


def test_runs_in_trouble_are_marked_in_the_list(
    runs: Path, serve: Serve, open_page: OpenPage
) -> None:
    folder = runs / "tests" / "exploded" / "journal"
    found = [
        {"id": "1", "severity": "error", "state": "open"},
        {"id": "2", "severity": "warning", "state": "open"},
        {"id": "3", "severity": "warning", "state": "closed"},
    ]
    usual = {"log": "finding", "t": 1.0, "rule": "divergence", "sentence": "It diverges."}
    lines = [json.dumps({**usual, **one}) + "\n" for one in found]
    (folder / "findings.0001.0000.jsonl").write_text("".join(lines))
    page = open_page(serve(runs).url)
    row = page.locator(".run", has_text="exploded")
    row.get_by_role("img", name="1 error, 1 warning still open").wait_for()
    assert row.locator("em").inner_text() == "✕1"
    row = page.locator(".run", has_text="nan")
    row.get_by_role("img", name="the last loss is not finite").wait_for()
    assert "is-critical" in (row.locator(".run-value").get_attribute("class") or "")
    assert row.locator(".run-value").inner_text() == "nan"
    assert page.locator(".run", has_text="oldest").locator("em").count() == 0


def test_the_gravest_finding_comes_first(runs: Path, serve: Serve, open_page: OpenPage) -> None:
    page = open_page(serve(runs).url)
    page.locator(".run-name", has_text="nan").click()
    card = page.locator(".has-errors")
    card.wait_for()
    assert "is-error" in (card.locator(".finding").first.get_attribute("class") or "")
    page.set_viewport_size({"width": 390, "height": 844})
    chart = page.locator(".headline").bounding_box()
    errors = card.bounding_box()
    assert chart is not None
    assert errors is not None
    assert errors["y"] < chart["y"]
