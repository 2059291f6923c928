"""Tables and pictures of several runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import StartRun
from tests.e2e.browsing import OpenPage, Serve, has_drawn, until


@pytest.fixture
def sweep(start_run: StartRun, tmp_path: Path) -> Path:
    for index, (lr, seed) in enumerate([(0.1, 0), (0.1, 1), (0.01, 0), (0.01, 1)]):
        with start_run(f"run-{index}", config={"lr": lr, "seed": seed, "same": 1}) as run:
            for step in range(20):
                run.log({"train/loss": lr + seed / 100 + 1 / (step + 1)}, step=step)
    return tmp_path / "runs"


def test_runs_are_sorted_and_columns_hidden(sweep: Path, serve: Serve, open_page: OpenPage) -> None:
    page = open_page(serve(sweep).url + "#place=compare")

    def names() -> list[str]:
        found = page.locator(".compare-run").evaluate_all("(all) => all.map((one) => one.title)")
        return list(found)

    # The best run is first until another order is chosen.
    until(page, lambda: names() == ["run-2", "run-3", "run-0", "run-1"])
    page.get_by_title("Sort by seed").click()
    until(page, lambda: set(names()[:2]) == {"run-0", "run-2"})
    heads = page.get_by_role("columnheader")
    assert heads.all_inner_texts()[1:4] == ["lr", "seed ↑", "train/loss"]
    page.get_by_role("button", name="Columns").click()
    page.get_by_label("same").check()
    page.get_by_label("seed", exact=True).uncheck()
    heads.filter(has_text="same").wait_for()
    heads.filter(has_text="seed").wait_for(state="detached")


def test_the_table_downloads_what_it_shows(sweep: Path, serve: Serve, open_page: OpenPage) -> None:
    page = open_page(serve(sweep).url + "#place=compare")
    page.locator(".compare-cell", has_text="0.06").first.wait_for()
    with page.expect_download() as caught:
        page.get_by_role("button", name="CSV").click()
    lines = Path(caught.value.path()).read_text(encoding="utf-8").splitlines()
    columns = lines[0].split(",")
    row = next(line for line in lines if line.startswith("run-2,")).split(",")
    assert float(row[columns.index("train/loss")]) == pytest.approx(0.01 + 1 / 20, abs=1e-12)
    assert row[columns.index("lr")] == "0.01"


def test_brushing_an_axis_keeps_the_runs_that_pass(
    sweep: Path, serve: Serve, open_page: OpenPage
) -> None:
    page = open_page(serve(sweep).url + "#place=compare&compare=parallel")
    chart = page.locator("[data-title='Parallel coordinates'] canvas")
    chart.wait_for()
    has_drawn(page)
    box = chart.bounding_box()
    assert box is not None
    # The first axis is the first setting; its upper half holds the larger rate.
    x = box["x"] + 32
    page.mouse.move(x, box["y"] + 46)
    page.mouse.down()
    page.mouse.move(x, box["y"] + box["height"] / 2, steps=5)
    page.mouse.up()
    page.get_by_role("button", name="Show these 2 in charts").click()
    page.wait_for_url(re.compile("runs="))


def test_groups_have_a_mean_and_a_deviation(sweep: Path, serve: Serve, open_page: OpenPage) -> None:
    page = open_page(serve(sweep).url + "#place=compare&compare=groups&group=lr")
    page.get_by_role(
        "row", name=re.compile(r"^0\.01 2 0\.0650 ± 0\.0635 0\.00707 .* best mean")
    ).wait_for()
    page.get_by_role("row", name=re.compile(r"^0\.1 2 0\.1550 ± 0\.0635 0\.00707 ")).wait_for()
