"""A folder of many runs, some of which went wrong: what a person sees who has just come."""

from __future__ import annotations

import json
import math
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import StartRun
from tests.e2e.browsing import OpenPage, Serve, download, until, wait_for_lines

if TYPE_CHECKING:
    from playwright.sync_api import Page

STEPS = 40
STRONG = r'stroke="#\w+" stroke-width="2\.3"'


def losses(kind: str) -> Iterator[float]:
    for step in range(STEPS):
        usual = 1 + 3 * math.exp(-step / 10)
        yield {
            "exploded": usual if step < 20 else 1200.0,
            "nan": usual if step < 20 else math.nan,
        }.get(kind, usual + len(kind) / 50)


@pytest.fixture(scope="module")
def runs(start_for_all: StartRun) -> Path:
    """Ten runs; the oldest two are not in the charts at first."""
    good = ["good" + "o" * index for index in range(7)]
    for name in ("oldest", "nan", "exploded", *good):
        with start_for_all(name) as run:
            for step, loss in enumerate(losses(name)):
                run.log({"train/loss": loss, "acc": 1 / (1 + loss)}, step=step)
    return run.dir.parent.parent


@pytest.fixture
def own_runs(runs: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(runs, tmp_path / "runs"))


def top_of_axis(page: Page, metric: str = "train/loss") -> float:
    """The largest label of the y axis, as it is drawn."""
    svg = download(page, metric, "SVG")
    labels = re.findall(r'text-anchor="end"[^>]*>([\d.,k\u202f]+)</text>', svg)
    return max(float(re.sub(r"[^\d.]", "", one)) * (1000 if "k" in one else 1) for one in labels)


def test_a_run_that_is_chosen_is_drawn_in_front_in_every_chart_and_stays_unticked(
    runs: Path, serve_all: Serve, open_page: OpenPage
) -> None:
    page = open_page(serve_all(runs).url + "#place=board")
    wait_for_lines(page, "train/loss", 8)
    page.locator(".run-name", has_text="oldest").click()
    wait_for_lines(page, "train/loss", 9)
    box = page.get_by_role("checkbox", name="Show oldest in the charts")
    until(page, lambda: box.get_attribute("aria-checked") == "false")
    until(page, lambda: "8 of 10 shown" in page.locator(".runs-count").inner_text())
    for metric in ("train/loss", "acc"):
        wait_for_lines(page, metric, 9)
        assert len(re.findall(STRONG, download(page, metric, "SVG"))) == 1
    page.locator(".run-name", has_text=re.compile("^goodoo$")).click()
    wait_for_lines(page, "train/loss", 8)


def test_a_run_that_exploded_does_not_flatten_the_others(
    runs: Path, serve_all: Serve, open_page: OpenPage
) -> None:
    page = open_page(serve_all(runs).url + "#place=board")
    wait_for_lines(page, "train/loss", 8)
    assert top_of_axis(page) < 10
    assert "clipped, 1 line beyond" in download(page, "train/loss", "SVG")
    page.get_by_role("button", name="Beyond the axis: exploded").click()
    until(page, lambda: "clip=0" in page.url)
    assert top_of_axis(page) >= 1000
    page.get_by_role("button", name="Display").click()
    page.get_by_label("Outliers").select_option(label="Clip runs that flatten the others")
    until(page, lambda: "clip" not in page.url)
    assert top_of_axis(page) < 10


def test_a_run_by_itself_is_shown_whole(runs: Path, serve_all: Serve, open_page: OpenPage) -> None:
    page = open_page(serve_all(runs).url + "#place=board")
    wait_for_lines(page, "train/loss", 8)
    page.locator(".run-name", has_text="exploded").dblclick()
    wait_for_lines(page, "train/loss", 1)
    assert top_of_axis(page) >= 1000


def test_runs_in_trouble_are_marked_in_the_list(
    own_runs: Path, serve: Serve, open_page: OpenPage
) -> None:
    folder = own_runs / "tests" / "exploded" / "journal"
    found = [
        {"id": "1", "severity": "error", "state": "open"},
        {"id": "2", "severity": "warning", "state": "open"},
        {"id": "3", "severity": "warning", "state": "closed"},
    ]
    usual = {"log": "finding", "t": 1.0, "rule": "divergence", "sentence": "It diverges."}
    lines = [json.dumps({**usual, **one}) + "\n" for one in found]
    (folder / "findings.0001.0000.jsonl").write_text("".join(lines))
    page = open_page(serve(own_runs).url)
    row = page.locator(".run", has_text="exploded")
    row.get_by_role("img", name="1 error, 1 warning still open").wait_for()
    until(page, lambda: row.locator("em").inner_text() == "✕1")
    row = page.locator(".run", has_text="nan")
    row.get_by_role("img", name="the last loss is not finite").wait_for()
    until(page, lambda: "is-critical" in (row.locator(".run-value").get_attribute("class") or ""))
    until(page, lambda: row.locator(".run-value").inner_text() == "nan")
    assert page.locator(".run", has_text="oldest").locator("em").count() == 0


def test_the_gravest_finding_comes_first(runs: Path, serve_all: Serve, open_page: OpenPage) -> None:
    page = open_page(serve_all(runs).url)
    page.locator(".run-name", has_text="nan").click()
    card = page.locator(".has-errors")
    card.wait_for()
    until(page, lambda: "is-error" in (card.locator(".finding").first.get_attribute("class") or ""))
    page.set_viewport_size({"width": 390, "height": 844})
    chart = page.locator(".overview-top .run-chart").bounding_box()
    errors = card.bounding_box()
    assert chart is not None
    assert errors is not None
    assert errors["y"] < chart["y"]


def test_a_comparison_shows_what_runs_ended_with_or_their_best(
    runs: Path, serve_all: Serve, open_page: OpenPage
) -> None:
    page = open_page(serve_all(runs).url + "#place=compare")
    row = page.get_by_role("row", name="Show nan in the charts")
    until(page, lambda: "not finite" in row.inner_text())
    until(page, lambda: row.locator(".compare-cell.is-critical").first.inner_text() == "nan")
    page.get_by_role("combobox", name="Value").select_option(label="Best value")
    page.get_by_role("columnheader", name="loss best").wait_for()
    page.locator(".compare-cell.is-critical").first.wait_for(state="detached")


def test_the_colours_of_the_strip_under_the_loss_are_named(
    tmp_path: Path, serve: Serve, open_page: OpenPage, start_run: StartRun
) -> None:
    with start_run("phases") as run:
        for step in range(STEPS):
            run.log({"loss": 1.0}, step=step)
    file = next((tmp_path / "runs").rglob("loop.0001.0000.jsonl"))
    event = {"log": "event", "t": 1.0, "name": "phase", "phase": "converging", "step": 3}
    (file.parent / "findings.0001.0000.jsonl").write_text(json.dumps(event) + "\n")
    page = open_page(serve(tmp_path / "runs").url)
    named = page.locator(".phase-key .is-good")
    named.wait_for()
    until(page, lambda: named.inner_text() == "converging")
    until(page, lambda: named.get_attribute("title") == "The loss is falling.")


def test_charts_of_one_record_say_so(
    tmp_path: Path, serve: Serve, open_page: OpenPage, start_run: StartRun
) -> None:
    with start_run("short") as run:
        run.log({"loss": 1.0}, step=0)
    folder = next((tmp_path / "runs").rglob("journal"))
    record = {"log": "system", "t": time.time(), "cpu_pct": 12.0, "ram_used": 1e9, "ram_total": 8e9}
    (folder / "telemetry-host.0001.0000.jsonl").write_text(json.dumps(record) + "\n")
    page = open_page(serve(tmp_path / "runs").url + "#place=run&at=system")
    page.locator(".section", has_text="Memory of the machine").get_by_text(
        "only one record"
    ).wait_for()
