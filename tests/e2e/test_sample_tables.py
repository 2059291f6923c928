"""Tables, their charts, Markdown, figures of Plotly, and files that try to run something."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import epochal
from epochal.exchange.media.types import Plotly
from tests.conftest import StartRun
from tests.doubles.archives import write_archive
from tests.e2e.browsing import PHONE, OpenPage, Serve, has_drawn, until
from tests.e2e.test_run_place import width_beyond
from tests.store.journals import Journal

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

NUM_ROWS = 100_000
# Samples far from what is in view are not on the page.
TALL = {"width": 1360, "height": 2400}
ATTACK = "document.documentElement.dataset.ran = 'yes'"
SVG = (
    f'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9" onload="{ATTACK}">'
    f'<script>{ATTACK}</script><image href="/healthz?from-svg" onerror="{ATTACK}"/></svg>'
)
HTML = (
    f'<script>{ATTACK}</script><img src="/healthz?from-html" onerror="{ATTACK}">'
    f'<h1 onclick="{ATTACK}">A page</h1><link rel="stylesheet" href="/healthz?from-link">'
    '<a href="/healthz?left" target="_top">leave</a>'
)


@pytest.fixture
def runs(tmp_path: Path, start_run: StartRun) -> Path:
    """A run with rollouts at two steps, a table of pictures, and charts."""
    with start_run("rollouts") as run:
        for step in (1, 2):
            run.log(
                {
                    "rollouts": [
                        {
                            "prompt": f"Question {number} of step {step}: what is {number} + 1?",
                            "completion": f"<b>Thinking</b>\n\nAnswer: {number + 1}",
                            "reward": float("nan") if number == 3 else number / 7,
                        }
                        for number in range(20)
                    ]
                },
                step=step,
            )
        pixels = np.full((8, 8, 3), 200, np.uint8)
        picture = epochal.Image(pixels, caption="a cat")
        sound = epochal.Audio(np.zeros(8000), 8000)
        columns = ["picture", "sound"]
        run.log({"cells": epochal.Table([[picture, sound]], columns=columns)}, step=2)
        counts = [["cat", "cat", 3], ["cat", "dog", 1], ["dog", "dog", 4]]
        names = ["Actual", "Predicted", "n"]
        chart = {"kind": "matrix", "x": "Predicted", "y": "Actual", "value": "n"}
        run.log({"confusion": epochal.Table(counts, names, chart=chart)}, step=2)
        curve = [[x / 10, 1 - x / 10] for x in range(11)]
        line = {"kind": "line", "x": "recall", "y": "precision", "title": "PR of cats"}
        run.log({"curve": epochal.Table(curve, ["recall", "precision"], chart=line)}, step=2)
        run.log({"notes": epochal.Markdown("## Done\n\n- **one**\n- <i>two</i>")}, step=2)
    return tmp_path / "runs"


def named(page: Page, name: str) -> Locator:
    return page.locator(f"[data-title='{name}']")


def first_cells(table: Locator, column: int) -> list[str]:
    rows = table.locator(".sheet-space .sheet-row")
    return rows.locator(f"[role=gridcell]:nth-child({column})").all_inner_texts()


def check_table(page: Page) -> None:
    """Sort, filter, open a row by key and mouse, and save what is left."""
    table = named(page, "rollouts")
    table.get_by_text("Question 0 of step 2").wait_for()
    sort = table.get_by_role("button", name="reward", exact=True)
    sort.click()
    until(page, lambda: first_cells(table, 3)[:2] == ["0", "0.142857"])
    sort.click()
    until(page, lambda: first_cells(table, 3)[:2] == ["2.71429", "2.57143"])
    sort.click()  # the order of the file
    sort.click()
    table.get_by_text("Filter columns").click()
    table.get_by_label("Filter by reward").fill("> 2.4")
    until(page, lambda: first_cells(table, 3) == ["2.42857", "2.57143", "2.71429"])
    table.get_by_label("Search all cells").fill("answer: 20")
    until(page, lambda: first_cells(table, 3) == ["2.71429"])
    with page.expect_download() as caught:
        table.get_by_role("button", name="Download CSV").click()
    text = Path(caught.value.path()).read_text(encoding="utf-8")
    assert text.startswith("prompt,completion,reward\n")
    assert "2.7142857142857144" in text
    assert text.count("Question") == 1
    table.get_by_label("Search all cells").fill("")
    table.get_by_role("grid").focus()
    for key in ("ArrowDown", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    card = page.locator("dialog[open] .row-card")
    card.get_by_text("Question 18 of step 2").wait_for()
    assert card.locator("dd").nth(1).inner_text() == "<b>Thinking</b>\n\nAnswer: 19"
    page.keyboard.press("ArrowRight")
    card.get_by_text("Question 19 of step 2").wait_for()
    page.keyboard.press("Escape")
    card.wait_for(state="detached")
    table.locator(".sheet-space .sheet-row").first.click()
    card.get_by_text("Question 17 of step 2").wait_for()
    page.keyboard.press("Escape")


def check_others(page: Page) -> None:
    cells = named(page, "cells")
    cells.get_by_role("button", name="Open a cat").click()
    full = page.locator("dialog[open] img")
    until(page, lambda: full.evaluate("image => image.naturalWidth") == 8)
    page.keyboard.press("Escape")
    sound = cells.locator("audio")
    sound.evaluate("player => { player.muted = true; return player.play() }")
    until(page, lambda: sound.evaluate("player => player.duration") == 1)
    confusion = named(page, "confusion")
    confusion.get_by_text("Rows: Actual. Columns: Predicted.").wait_for()
    assert "2 rows, 2 columns" in (confusion.locator("canvas").get_attribute("aria-label") or "")
    confusion.get_by_role("radio", name="Table").check()
    until(page, lambda: first_cells(confusion, 3) == ["3", "1", "4"])
    named(page, "curve").get_by_text("PR of cats").wait_for()
    notes = named(page, "notes")
    notes.get_by_role("heading", name="Done", exact=True).wait_for()
    assert notes.locator("li").all_inner_texts() == ["one", "<i>two</i>"]


def test_tables_and_charts_on_the_live_page(runs: Path, serve: Serve, open_page: OpenPage) -> None:
    page = open_page(f"{serve(runs).url}#place=run&at=samples", viewport=TALL)
    check_table(page)
    check_others(page)
    # The order and the filter stay at another step.
    page.get_by_label("Earlier step").click()
    table = named(page, "rollouts")
    table.get_by_text("Question 17 of step 1").wait_for()
    until(page, lambda: first_cells(table, 3) == ["2.42857", "2.57143", "2.71429"])


def test_tables_and_charts_in_an_archive(runs: Path, tmp_path: Path, open_page: OpenPage) -> None:
    write_archive(runs / "tests" / "rollouts", tmp_path / "run.html")
    page = open_page("about:blank", offline=True, viewport=TALL)
    page.goto((tmp_path / "run.html").as_uri() + "#place=run&at=samples")
    check_table(page)
    check_others(page)


def test_tables_on_a_phone(runs: Path, serve: Serve, open_page: OpenPage) -> None:
    page = open_page(f"{serve(runs).url}#place=run&at=samples", viewport=PHONE)
    table = named(page, "rollouts")
    table.get_by_text("Question 0 of step 2").click()
    card = page.locator("dialog[open] .row-card")
    card.get_by_text("Question 0 of step 2").wait_for()
    box = card.bounding_box()
    assert box is not None
    assert box["width"] <= PHONE["width"]
    page.keyboard.press("Escape")
    has_drawn(page)
    assert width_beyond(page) <= 0


def test_a_long_table_has_only_the_rows_in_view_on_the_page(
    tmp_path: Path, start_run: StartRun, serve: Serve, open_page: OpenPage
) -> None:
    with start_run("long") as run:
        columns = {"n": range(NUM_ROWS), "text": [f"row {n}" for n in range(NUM_ROWS)]}
        run.log({"table": epochal.Table(columns)}, step=1)
    page = open_page(f"{serve(tmp_path / 'runs').url}#place=run&at=samples")
    table = named(page, "table")
    table.get_by_text("row 0", exact=True).wait_for()
    assert table.locator(".sheet-space .sheet-row").count() < 100
    table.get_by_role("grid").focus()
    page.keyboard.press("End")
    table.get_by_text(f"row {NUM_ROWS - 1}").wait_for()
    table.get_by_label("Search all cells").fill(f"row {NUM_ROWS // 2}")
    until(page, lambda: first_cells(table, 2) == [f"row {NUM_ROWS // 2}"])


def test_an_archive_says_what_did_not_fit(
    tmp_path: Path, start_run: StartRun, open_page: OpenPage
) -> None:
    with start_run("much") as run:
        for step in range(3):
            noise = np.random.default_rng(step).integers(0, 255, (100, 100, 3), np.uint8)
            run.log({"noise": epochal.Image(noise)}, step=step)
    folder = tmp_path / "runs" / "tests" / "much"
    write_archive(folder, tmp_path / "run.html", sample_bytes=50_000)
    page = open_page("about:blank", offline=True)
    page.goto((tmp_path / "run.html").as_uri() + "#place=run&at=samples")
    page.get_by_text("2 older or larger samples did not fit").wait_for()


def test_hostile_files_execute_and_load_nothing(
    tmp_path: Path, serve: Serve, open_page: OpenPage
) -> None:
    journal = Journal(tmp_path / "runs").metrics(1, loss=1.0)
    journal.folder.blobs.mkdir()
    files = {"picture": ("a.svg", "image/svg+xml", SVG), "page": ("b.html", "text/html", HTML)}
    for name, (file, media_type, text) in files.items():
        (journal.folder.blobs / file).write_text(text)
        about = {"name": name, "file": file, "media_type": media_type}
        journal.add({"log": "blob", "step": 1, **about})
    site = serve(tmp_path / "runs")
    page = open_page("about:blank")
    asked: list[str] = []
    page.on("response", lambda response: asked.append(response.url))
    page.goto(f"{site.url}#place=run&at=samples")
    assert named(page, "picture").locator("svg, object, embed, iframe").count() == 0
    picture = named(page, "picture").locator("img").first
    until(page, lambda: picture.evaluate("image => image.complete && image.naturalWidth > 0"))
    frame = page.frame_locator("[data-title='page'] iframe")
    frame.get_by_role("heading", name="A page").click()
    frame.get_by_text("leave").click()
    has_drawn(page)
    assert page.url.startswith(f"{site.url}#")
    assert frame.locator("html").get_attribute("data-ran") is None
    for file, _, _ in files.values():  # opened by themselves
        alone = open_page(f"{site.url}api/runs/id-x/blob/{file}")
        alone.wait_for_load_state("load")
        assert alone.locator(":root").get_attribute("data-ran") is None
    assert not [url for url in asked if "healthz" in url]


def test_plotly_draws_in_a_frame_without_an_origin(
    tmp_path: Path, start_run: StartRun, serve: Serve, open_page: OpenPage
) -> None:
    go = pytest.importorskip("plotly.graph_objects")
    with start_run("figures") as run:
        for step in (1, 2):
            figure = go.Figure(go.Scatter(x=[1, 2, 3], y=[step, 1, 2]))
            run.log({"figure": figure.update_layout(title=f"Step {step}")}, step=step)
    site = serve(tmp_path / "runs")
    page = open_page("about:blank")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{site.url}#place=run&at=samples")
    frame = page.frame_locator("[data-title='figure'] iframe")
    frame.get_by_text("Step 2").wait_for()
    assert frame.locator(".scatterlayer .point, .scatterlayer .js-line").count() > 0
    assert frame.locator("html").evaluate("() => self.origin") == "null"
    page.get_by_label("Earlier step").click()
    frame.get_by_text("Step 1").wait_for()
    assert all(url.startswith((site.url, "data:", "blob:")) for url in asked)


def test_an_archive_says_how_to_see_a_figure_of_plotly(
    tmp_path: Path, start_run: StartRun, open_page: OpenPage
) -> None:
    class Figure:
        def to_json(self) -> str:
            return json.dumps({"data": [], "layout": {}})

    with start_run("figures") as run:
        run.log({"figure": Plotly(Figure())}, step=1)
    write_archive(tmp_path / "runs" / "tests" / "figures", tmp_path / "run.html")
    page = open_page("about:blank", offline=True)
    page.goto((tmp_path / "run.html").as_uri() + "#place=run&at=samples")
    page.get_by_text("A saved file cannot draw figures of Plotly").wait_for()
