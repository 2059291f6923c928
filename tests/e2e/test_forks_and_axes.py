"""The page over a fork: lineage, alerts, what was set as the summary, axes that were defined."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.conftest import StartRun
from tests.e2e.browsing import TRY_MS, OpenPage, Serve, download, until


@pytest.fixture
def folder(start_run: StartRun) -> Path:
    with start_run("parent", companion=False) as parent:
        for step in range(6):
            parent.log({"loss": 6.0 - step}, step=step)
    with start_run("child", companion=False, fork_from="parent?step=3") as child:
        child.define("val/*", x="images")
        child.summary["verdict"] = "worth it"
        child.alert("accuracy is low", "below 10 %", level="warning")
        for step in range(4, 8):
            child.log({"loss": 1.0, "images": 64 * step, "val/acc": step / 10}, step=step)
    return parent.dir.parent.parent


def test_a_fork_shows_where_it_comes_from_and_its_parent_what_came_of_it(
    folder: Path, serve: Serve, open_page: OpenPage
) -> None:
    page = open_page(serve(folder).url)
    lineage = page.get_by_label("Lineage")
    lineage.get_by_text("after step 3").wait_for()
    until(page, lambda: "Forked from parent after step 3." in lineage.inner_text())
    table = download(page, "loss", "CSV")
    assert [row.split(",")[5] for row in table.splitlines()[1:9]] == list("01234567")
    lineage.get_by_role("button", name="parent").click()
    lineage.get_by_text("Forks:").wait_for()
    until(page, lambda: "child" in lineage.inner_text())


def test_a_chart_goes_along_the_metric_that_was_defined(
    folder: Path, serve: Serve, open_page: OpenPage
) -> None:
    page = open_page(serve(folder).url + "#place=board")
    card = page.locator("[data-metric='val/acc']")
    card.get_by_text("along images").wait_for()
    rows = [line.split(",") for line in download(page, "val/acc", "CSV").splitlines()[1:]]
    assert [(row[4], row[5]) for row in rows] == [("images", str(64 * s)) for s in range(4, 8)]


def test_alerts_and_the_summary_have_their_places(
    folder: Path, serve: Serve, open_page: OpenPage, start_run: StartRun
) -> None:
    url = serve(folder).url
    page = open_page(url + "#place=run&at=findings")
    page.get_by_label("Alerts").get_by_text("accuracy is low").wait_for()
    page.goto(url + "#place=run&at=log")
    page.locator(".log-text >> text=accuracy is low").first.wait_for()
    page.goto(url + "#place=run&at=config")
    page.locator(".tree-value >> text=worth it").wait_for()
    live = start_run("live", companion=False)
    live.log({"loss": 1.0})
    page = open_page(url)
    page.get_by_text("live").first.wait_for()
    live.log({"loss": 0.125})
    page.get_by_text("0.125").first.wait_for()
    numbers = itertools.count()

    def is_told() -> bool:
        # Only a page that follows the run already tells of an alert.
        live.alert(f"loss is high {next(numbers)}", level="error")
        page.wait_for_timeout(4 * TRY_MS)
        return page.locator(".toasts >> text=loss is high").count() > 0

    until(page, is_told)
    live.finish()
