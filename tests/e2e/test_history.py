"""Back undoes what a person changed, settings survive the tab, and addresses stay short."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.browsing import OpenPage, Serve, Site, until
from tests.store.journals import Journal

if TYPE_CHECKING:
    from playwright.sync_api import Page


@pytest.fixture
def site(tmp_path: Path, serve: Serve) -> Site:
    """Ten runs of two learning rates."""
    for number in range(10):
        journal = Journal(tmp_path, f"run-{number}", config={"lr": (1e-3, 1e-4)[number % 2]})
        for step in range(5):
            journal.metrics(step, loss=5.0 - step)
        journal.finish()
    return serve(tmp_path)


def address(page: Page) -> str:
    return page.url.partition("#")[2]


def smooth_to(page: Page, value: float) -> None:
    slider = page.get_by_role("slider", name="Smooth")
    slider.focus()
    while float(slider.input_value()) < value:
        slider.press("ArrowRight")


def test_back_takes_back_one_change_after_the_other(site: Site, open_page: OpenPage) -> None:
    page = open_page(site.url)
    page.get_by_role("tab", name="Board").click()
    until(page, lambda: address(page) == "place=board")
    # Many small changes of one thing are one step.
    smooth_to(page, 0.05)
    until(page, lambda: "smooth=0.05" in address(page))
    page.get_by_role("button", name="Group runs").click()
    page.get_by_role("menuitemcheckbox", name="lr").click()
    until(page, lambda: address(page) == "group=lr&place=board&smooth=0.05")
    page.get_by_role("button", name="Full screen: loss").click()
    until(page, lambda: "full=loss" in address(page))
    until(page, lambda: page.get_by_label("Filter runs").is_visible())
    until(page, lambda: page.get_by_role("complementary", name="Runs").count() == 0)
    page.keyboard.press("Escape")
    until(page, lambda: "full=" not in address(page))
    for wanted in (
        "full=loss&group=lr&place=board&smooth=0.05",
        "group=lr&place=board&smooth=0.05",
        "place=board&smooth=0.05",
        "place=board",
        "",
    ):
        page.go_back()
        until(page, lambda wanted=wanted: address(page) == wanted)  # type: ignore[misc]
    until(page, lambda: page.get_by_role("tab", name="Run", selected=True).is_visible())
    page.go_forward()
    until(page, lambda: page.get_by_role("tab", name="Board", selected=True).is_visible())


def test_settings_apply_to_addresses_that_name_none(site: Site, open_page: OpenPage) -> None:
    page = open_page(site.url)
    smooth_to(page, 0.03)
    until(page, lambda: "smooth=0.03" in address(page))
    other = page.context.new_page()
    other.goto(f"{site.url}#place=board")
    until(other, lambda: "smooth=0.03" in address(other))
    named = page.context.new_page()
    named.goto(f"{site.url}#place=board&x=epoch")
    until(named, lambda: named.get_by_role("button", name="Axes: Epoch").is_visible())
    assert "smooth" not in address(named)


def test_all_matches_are_shown_without_naming_them(site: Site, open_page: OpenPage) -> None:
    page = open_page(site.url)
    count = page.locator(".runs-count")
    until(page, lambda: "8 of 10 shown" in count.inner_text())
    page.get_by_role("button", name="Which runs are listed and shown").click()
    page.get_by_role("menuitemcheckbox", name="Show all matches").click()
    until(page, lambda: "10 of 10 shown" in count.inner_text())
    until(page, lambda: address(page) == "all=1")
    page.get_by_label("Show run-3 in the charts").click()
    until(page, lambda: "9 of 10 shown" in count.inner_text())
    # The address follows within a tenth of a second; Back before that would lead further back.
    until(page, lambda: "without=" in address(page))
    assert address(page).count("run-") <= 1
    page.go_back()
    until(page, lambda: "10 of 10 shown" in count.inner_text())
