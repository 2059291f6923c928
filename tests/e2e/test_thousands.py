"""More runs than a page holds: the server filters, orders, groups, and sends the rows in view."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from epochal.store.local.catalog import folder_store
from tests.e2e.browsing import OpenPage, Serve, Site, until
from tests.store.journals import Journal

if TYPE_CHECKING:
    from playwright.sync_api import Page

COUNT = 2_100
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("thousands")
    for number in range(COUNT):
        journal = Journal(
            folder,
            f"run-{number:04}",
            project="pq"[number % 2],
            id=f"id-{number:04}",
            config={"lr": [1e-3, 1e-4][number % 2], "seed": number},
            created=1e9 + number,
        )
        journal.metrics(1, loss=float(number)).finish()
    return folder


@pytest.fixture(scope="module")
def site(runs: Path, serve_all: Serve) -> Site:
    return serve_all(runs)


@pytest.fixture
def own_runs(runs: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(runs, tmp_path / "runs", copy_function=os.link))


def count(page: Page) -> str:
    return re.sub(r"[\s,]", "", page.locator(".runs-count").inner_text())


def first(page: Page) -> str:
    return str(page.locator(".run[data-run]").first.get_attribute("data-run"))


def test_a_list_of_thousands_is_filtered_ordered_and_grouped(
    site: Site, open_page: OpenPage
) -> None:
    page = open_page(site.url)
    until(page, lambda: "of2100shown" in count(page))
    assert first(page) == "id-2099"
    assert page.locator(".run").count() < 100
    page.get_by_label("Filter runs").fill("run-001")
    until(page, lambda: "of10shown" in count(page))
    until(page, lambda: first(page) == "id-0019")
    page.get_by_label("Filter runs").fill("")
    until(page, lambda: "of2100shown" in count(page))
    page.get_by_role("button", name="Order of runs").click()
    page.get_by_role("menuitemcheckbox", name="Smallest loss").click()
    until(page, lambda: first(page) == "id-0000")
    # Until the losses of all runs have been read, the list grows.
    until(page, lambda: page.locator(".runs-reading").count() == 0)
    rows = page.locator(".runs-list .list")
    rows.evaluate("list => (list.scrollTop = list.scrollHeight)")
    page.locator('.run[data-run="id-2099"]').wait_for()
    rows.evaluate("list => (list.scrollTop = 0)")
    page.get_by_role("button", name="Group runs").click()
    page.get_by_role("menuitemcheckbox", name="lr", exact=True).click()
    until(page, lambda: page.locator(".run-group").count() == 1)
    until(
        page,
        lambda: re.sub(r"[\s,]", "", page.locator(".run-group").inner_text()).startswith(
            "lr=0.00011050"
        ),
    )


def test_a_filter_by_last_points_ends_with_all_runs_that_match(
    site: Site, open_page: OpenPage
) -> None:
    page = open_page(f"{site.url}#filter=summary.loss.mean@5%20%3C%201500")
    until(page, lambda: "of1500shown" in count(page))
    until(page, lambda: page.locator(".runs-reading").count() == 0)
    assert first(page) == "id-1499"


def test_a_link_to_an_old_run_of_thousands_finds_it(site: Site, open_page: OpenPage) -> None:
    page = open_page(f"{site.url}#run=id-0007&place=compare")
    until(page, lambda: "run-0007" in page.title())
    page.get_by_text("The first 2,000 of 2,100 runs").wait_for()
    page.get_by_title("Sort by loss", exact=True).click()
    # Beyond the rows that the page had.
    until(page, lambda: page.locator(".compare-run").first.inner_text().endswith("0000"))


def test_all_of_thousands_are_tagged_by_the_query(
    own_runs: Path, serve: Serve, open_page: OpenPage
) -> None:
    page = open_page(f"{serve(own_runs).url}#project=p&filter=run-20")
    until(page, lambda: "of50shown" in count(page))
    page.get_by_label("Filter runs").fill("run-1")
    until(page, lambda: "of500shown" in count(page))
    page.keyboard.press("Escape")
    page.get_by_label("Filter runs").fill("run-20")
    until(page, lambda: "of50shown" in count(page))
    page.keyboard.press("Tab")
    page.keyboard.press("a")
    page.get_by_role("button", name="Edit 50 runs").click()
    page.get_by_role("menuitem", name="Tags…").click()
    page.get_by_label("Tags, with commas between").fill("late")
    page.get_by_role("button", name="Add", exact=True).click()
    page.get_by_text("The tag late was added to 50 runs.").wait_for()
    assert len(folder_store(own_runs).runs('"late" in tags')) == 50


def test_all_but_some_of_thousands_are_tagged_and_deleted(
    own_runs: Path, serve: Serve, open_page: OpenPage
) -> None:
    page = open_page(serve(own_runs).url)
    until(page, lambda: "of2100shown" in count(page))
    page.get_by_role("button", name="Which runs are listed and shown").click()
    page.get_by_role("menuitemcheckbox", name="Show all matches").click()
    until(page, lambda: "2100of2100shown" in count(page))
    # The address does not name the runs.
    until(page, lambda: page.url.endswith("#all=1"))
    page.get_by_label("Show run-2099 in").click()
    page.get_by_label("Show run-2096 in").click(modifiers=["Shift"])
    until(page, lambda: "2096of2100shown" in count(page))
    page.get_by_role("button", name="Edit 2,096 runs").click()
    page.get_by_role("menuitem", name="Tags…").click()
    page.get_by_label("Tags, with commas between").fill("most")
    page.get_by_role("button", name="Add", exact=True).click()
    page.get_by_text("The tag most was added to 2,096 runs.").wait_for()
    left = {run.id for run in folder_store(own_runs).runs('not "most" in tags')}
    assert left == {"id-2096", "id-2097", "id-2098", "id-2099"}
    page.get_by_role("button", name="Edit 2,096 runs").click()
    page.get_by_role("menuitem", name="Delete 2,096 runs").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete 2,096 runs").click()
    until(page, lambda: "of4shown" in count(page))
    assert {run.id for run in folder_store(own_runs).runs()} == left
