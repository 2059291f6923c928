"""A run with more metrics than its answer lists: the page finds the others, from a file too."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from epochal.server.rows import MOST_METRICS
from tests.doubles.archives import write_archive
from tests.e2e.browsing import OpenPage, Serve, until, wait_for_points
from tests.store.journals import Journal

if TYPE_CHECKING:
    from playwright.sync_api import Page

COUNT = MOST_METRICS + 300
LAST = f"layers/{COUNT - 1}/norm"
pytestmark = pytest.mark.slow


def write(root: Path) -> Path:
    names = ["loss", *(f"layers/{number}/norm" for number in range(COUNT))]
    journal = Journal(root)
    for step in range(3):
        values = dict.fromkeys(names, 0.5 + step)
        journal.add({"log": "metrics", "step": step, "m": values})
    journal.finish()
    return journal.folder.path


def look_for_others(page: Page) -> None:
    """Find a metric that is not listed, and have more of a section listed."""
    until(page, lambda: f"of {COUNT + 1:,}" in page.locator(".search-count").last.inner_text())
    until(page, lambda: page.get_by_text("Filter charts by name to find others").is_visible())
    page.get_by_role("button", name="layers").first.click()
    page.get_by_role("button", name="List more of layers").click()
    until(page, lambda: page.get_by_role("button", name="List more of layers").count() == 0)
    page.get_by_label("Filter charts").fill(LAST)
    assert len(wait_for_points(page, LAST, 3)) == 3
    until(page, lambda: page.locator(".search-count").last.inner_text() == f"1 of {COUNT + 1:,}")


def test_metrics_that_are_not_listed_are_found(
    tmp_path: Path, serve: Serve, open_page: OpenPage
) -> None:
    write(tmp_path)
    page = open_page(f"{serve(tmp_path).url}#place=board")
    look_for_others(page)


def test_a_chart_of_the_address_is_found(tmp_path: Path, serve: Serve, open_page: OpenPage) -> None:
    write(tmp_path)
    page = open_page(f"{serve(tmp_path).url}#place=board&full={LAST}")
    page.get_by_role("button", name=f"Actions for {LAST}").click()
    with page.expect_download() as caught:
        page.get_by_role("menuitem", name="Download CSV").click()
    assert len(Path(caught.value.path()).read_text().splitlines()) == 4


def test_a_saved_page_finds_them_too(tmp_path: Path, open_page: OpenPage) -> None:
    write_archive(write(tmp_path / "runs"), tmp_path / "saved.html")
    page = open_page(f"{(tmp_path / 'saved.html').as_uri()}#place=board")
    look_for_others(page)
