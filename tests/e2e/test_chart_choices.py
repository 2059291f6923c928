"""What a user chooses about charts: smoothing, colours, sections, pictures."""

from __future__ import annotations

import math
import re
import struct
from pathlib import Path

import numpy as np
import pytest

import epochal
from epochal.records.format import format_number
from tests.doubles.archives import write_archive
from tests.e2e.browsing import OpenPage, Serve, download, until
from tests.store.journals import Journal

STEPS = 4000


@pytest.fixture(scope="module")
def noisy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs of 4,000 noisy steps."""
    root = tmp_path_factory.mktemp("noisy")
    for number, rate in enumerate((0.1, 0.2, 0.2)):
        noise = np.random.default_rng(number).normal(size=STEPS)
        losses = [3 * math.exp(-step / 800) + 1 + 0.2 * float(noise[step]) for step in range(STEPS)]
        Journal(root, f"run{number}", config={"lr": rate}).add(
            *(
                {"log": "metrics", "step": step, "m": {"loss": loss, "acc": 1 / loss}}
                for step, loss in enumerate(losses)
            )
        )
    return root


def test_a_smoothed_value_is_that_of_python(
    noisy: Path, serve_all: Serve, open_page: OpenPage
) -> None:
    page = open_page(serve_all(noisy).url + "#place=board&runs=id-run0&smooth=0.9")
    chart = page.locator('[data-metric="loss"] .chart-plot')
    chart.locator(".chart-over").wait_for()
    chart.focus()
    # Smoothed values follow the lines, so the key is pressed until they are there.
    values = epochal.load(noisy / "p" / "run0").series("loss", smooth="ema:0.9").values

    def agrees() -> bool:
        page.keyboard.press("ArrowRight")
        said = chart.locator("output").inner_text()
        # Of several points, the smoothed value is that of the last one.
        found = re.match(r"step (?:[\d,]+ – )?([\d,]+), run0 ([\d.]+)", said)
        if found is None:
            return False
        step = int(found[1].replace(",", ""))
        return format_number(float(values[step])) == found[2]

    until(page, agrees)


def test_pictures_have_title_names_and_legend_and_png_has_twice_the_pixels(
    noisy: Path, serve_all: Serve, open_page: OpenPage
) -> None:
    page = open_page(serve_all(noisy).url + "#place=board&log-y-all=1")
    page.locator('[data-metric="loss"] .metric-chart[aria-busy="false"]').wait_for()
    svg = download(page, "loss", "SVG")
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", svg)
    assert {"loss", "Step", "run0", "run1", "run2"} <= set(texts)
    assert "rotate(-90" in svg
    assert texts.count("loss") == 2  # the title and the name of the y axis
    width, height = map(int, re.findall(r'<svg[^>]*width="(\d+)" height="(\d+)"', svg)[0])
    page.locator('[data-metric="loss"]').get_by_role("button", name="Actions").click()
    with page.expect_download() as caught:
        page.get_by_role("menuitem", name="Download PNG").click()
    png = Path(caught.value.path()).read_bytes()
    assert struct.unpack(">II", png[16:24]) == (2 * width, 2 * height)


def test_colours_by_a_key_are_in_the_address(
    noisy: Path, serve_all: Serve, open_page: OpenPage
) -> None:
    page = open_page(serve_all(noisy).url + "#place=board")
    page.get_by_role("button", name="Display").click()
    page.get_by_label("Colours").select_option("By lr")
    until(page, lambda: page.locator(".color-keys").inner_text().split("\n")[0] == "lr")
    marks = page.locator(".run-mark i")
    colors = [marks.nth(index).evaluate("mark => mark.style.background") for index in range(3)]
    assert len(set(colors)) == 2
    assert "color-by=lr" in page.url


def test_hundreds_of_metrics_are_in_sections_that_open(
    tmp_path: Path, serve: Serve, open_page: OpenPage
) -> None:
    names = [f"layers/{layer}/{part}" for layer in range(100) for part in ("w", "b", "g", "n")]
    journal = Journal(tmp_path)
    for step in range(3):
        journal.add({"log": "metrics", "step": step, "m": dict.fromkeys(names, 1.0)})
    page = open_page(serve(tmp_path).url + "#place=board")
    section = page.get_by_role("region", name="layers/42", exact=True)
    section.wait_for()
    assert page.locator("[data-metric]").count() == 0
    section.get_by_role("button", name="42").click()
    until(page, lambda: page.locator("[data-metric]").count() == 4)
    page.get_by_label("Filter charts").fill("7/w")
    until(page, lambda: page.locator(".search-count", has_text="10 of 400").count() == 1)
    page.locator('[data-metric="layers/7/w"]').wait_for()


def test_more_runs_than_lines_can_be_told_apart_are_quantiles_and_say_so(
    tmp_path: Path, serve: Serve, open_page: OpenPage
) -> None:
    for number in range(101):
        journal = Journal(tmp_path, f"run{number:03}")
        for step in range(3):
            journal.metrics(step, loss=float(number + step))
        journal.add({"log": "finish", "status": "finished"})
    page = open_page(serve(tmp_path).url + "#place=board&run=id-run007")
    page.locator(".runs-count", has_text="of 101 shown").wait_for()
    page.get_by_role("button", name="Which runs are listed and shown").click()
    page.get_by_role("menuitemcheckbox", name="Show all matches").click()
    chart = page.locator('[data-metric="loss"]')
    chart.get_by_text("101 runs: median, quartiles, range").wait_for()
    until(page, lambda: "all=1" in page.url)
    until(page, lambda: page.locator(".runs-count").inner_text() == "101 of 101 shown")
    until(page, lambda: "run007" in download(page, "loss", "SVG"))
    assert "median of 101 runs" in download(page, "loss", "SVG")
    page.get_by_role("button", name="Which runs are listed and shown").click()
    page.get_by_role("menuitemcheckbox", name="Show the newest").click()
    until(page, lambda: "all=1" not in page.url)


def test_an_archive_with_slices_smooths_within_a_hundredth_of_the_range_and_says_so(
    tmp_path: Path, open_page: OpenPage
) -> None:
    noise = np.random.default_rng(5).normal(size=6000)
    loss = 3 * np.exp(-np.arange(6000) / 800) + 1 + 0.2 * noise
    journal = Journal(tmp_path, "long")
    journal.add(
        *(
            {"log": "metrics", "step": step, "m": {"loss": one}}
            for step, one in enumerate(loss.tolist())
        )
    )
    journal.add({"log": "finish", "status": "finished"})
    archive = tmp_path / "long.html"
    write_archive(tmp_path / "p" / "long", archive, budget_bytes=100_000)
    page = open_page(archive.as_uri() + "#place=board&smooth=0.8")
    note = page.locator('[data-metric="loss"] .metric-coarse')
    note.get_by_text("error below 1 %").wait_for()
    values = epochal.load(tmp_path / "p" / "long").series("loss", smooth="ema:0.8").values
    chart = page.locator('[data-metric="loss"] .chart-plot')
    chart.focus()
    for _ in range(12):
        page.keyboard.press("ArrowRight")
        text = chart.locator("output").inner_text()
        said = re.match(r"step (?:[\d,]+ – )?([\d,]+), long ([\d.]+)", text)
        assert said is not None, text
        off = abs(values[int(said[1].replace(",", ""))] - float(said[2]))
        assert off < 0.01 * (loss.max() - loss.min())
