"""The page as it looks and as it is held: dark, small, by keyboard, with nothing to show."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.conftest import StartRun
from tests.e2e.browsing import PHONE, OpenPage, Serve, has_drawn, until


@pytest.fixture(scope="module")
def runs(start_for_all: StartRun) -> Path:
    for name in ("first", "second"):
        with start_for_all(name, total_steps=40) as run:
            for step in range(40):
                run.log({"loss": 1 / (step + 1), "some/quite/long/metric_name": step}, step=step)
            run.log({"sample": "once upon a time"}, step=39)
    return run.dir.parent.parent


@pytest.fixture
def own_runs(runs: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(runs, tmp_path / "runs"))


def test_dark_follows_the_system_and_can_be_chosen(
    runs: Path, serve_all: Serve, open_page: OpenPage
) -> None:
    page = open_page(serve_all(runs).url, color_scheme="dark")
    page.locator(".run").first.wait_for()
    background = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(background) == "rgb(14, 16, 19)"
    page.get_by_role("button", name="Theme").click()
    page.get_by_role("menuitemcheckbox", name="Light").click()
    assert page.evaluate(background) == "rgb(246, 247, 249)"
    page.reload()
    page.locator(".run").first.wait_for()
    assert page.evaluate(background) == "rgb(246, 247, 249)"


@pytest.mark.parametrize("place", ["run", "board", "compare"])
def test_a_phone_scrolls_only_up_and_down(
    runs: Path, serve_all: Serve, open_page: OpenPage, place: str
) -> None:
    page = open_page(
        f"{serve_all(runs).url}#place={place}", viewport=PHONE, has_touch=True, is_mobile=True
    )
    has_drawn(page)
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    too_wide = "[...document.querySelectorAll('.panel *')].filter((e) => {"
    # A table of runs scrolls in a frame of its own.
    too_wide += " if (e.closest('[role=table]')) return false;"
    too_wide += " const b = e.getBoundingClientRect(); return b.width > 0 && b.right > 391;"
    too_wide += "}).map((e) => e.className)"
    assert page.evaluate(too_wide) == []


def test_a_phone_has_its_runs_in_a_drawer(
    runs: Path, serve_all: Serve, open_page: OpenPage
) -> None:
    page = open_page(serve_all(runs).url, viewport=PHONE, has_touch=True, is_mobile=True)
    has_drawn(page)
    assert not page.locator(".side").is_visible()
    page.get_by_role("button", name="Runs", exact=True).tap()
    page.locator(".run-name", has_text="first").tap()
    page.locator(".run-head h2", has_text="first").wait_for()
    page.locator(".drawer-shade").tap(position={"x": 380, "y": 400})
    page.locator(".side").wait_for(state="hidden")


def test_a_tap_reads_values_until_the_next_tap_elsewhere(
    runs: Path, serve_all: Serve, open_page: OpenPage
) -> None:
    url = serve_all(runs).url + "#place=board"
    page = open_page(url, viewport=PHONE, has_touch=True, is_mobile=True)
    has_drawn(page)
    tooltip = page.locator(".chart-tooltip:visible")
    for chart in range(2):
        page.locator(".chart-over").nth(chart).tap()
        until(page, lambda: tooltip.count() == 1)
    page.get_by_role("heading", name="loss", exact=True).tap()
    until(page, lambda: tooltip.count() == 0)


def test_everything_is_within_reach_of_the_keyboard(
    runs: Path, serve_all: Serve, open_page: OpenPage
) -> None:
    page = open_page(serve_all(runs).url)
    has_drawn(page)
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Keyboard shortcuts").wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    focused = "document.activeElement?.ariaLabel"
    until(page, lambda: page.evaluate(focused) == "Filter charts")
    page.keyboard.type("loss")
    until(page, lambda: "metrics=loss" in page.url)
    page.keyboard.press("Escape")
    until(page, lambda: "metrics=" not in page.url)
    page.keyboard.press("Tab")
    page.keyboard.press("x")
    until(page, lambda: page.get_by_role("button", name="Axes: Epoch").is_visible())
    page.keyboard.press("o")
    page.get_by_role("tab", name="Run", selected=True).wait_for()
    page.keyboard.press("k")
    page.keyboard.press("j")
    page.locator('.run-name[aria-current="true"]', has_text="first").wait_for()


def test_going_back_leads_to_the_place_before(
    runs: Path, serve_all: Serve, open_page: OpenPage
) -> None:
    page = open_page(serve_all(runs).url)
    has_drawn(page)
    page.get_by_role("tab", name="Board").click()
    page.get_by_role("tab", name="Board", selected=True).wait_for()
    page.go_back()
    page.get_by_role("tab", name="Run", selected=True).wait_for()


# A shift that nobody causes counts from the first moment on.
COUNT_SHIFTS = """
{
  let shifts = 0;
  const count = (entry) => { shifts += entry.value; };
  const observer = new PerformanceObserver((list) => list.getEntries().forEach(count));
  observer.observe({type: 'layout-shift', buffered: true});
  window.allShifts = () => { observer.takeRecords().forEach(count); return shifts; };
}
"""


def test_nothing_jumps_once_it_is_there(runs: Path, serve_all: Serve, open_page: OpenPage) -> None:
    page = open_page("about:blank")
    page.add_init_script(COUNT_SHIFTS)
    page.goto(serve_all(runs).url)
    has_drawn(page)
    assert page.evaluate("window.allShifts()") < 0.1


def test_every_control_has_a_name(runs: Path, serve_all: Serve, open_page: OpenPage) -> None:
    page = open_page(serve_all(runs).url)
    has_drawn(page)
    nameless = (
        "[...document.querySelectorAll('button, input, select, [role=img], [role=progressbar]')]"
        ".filter((e) => !(e.ariaLabel || e.textContent.trim() || e.labels?.length || e.title))"
        ".map((e) => e.outerHTML)"
    )
    assert page.evaluate(nameless) == []


def test_an_empty_folder_says_what_to_do(tmp_path: Path, serve: Serve, open_page: OpenPage) -> None:
    page = open_page(serve(tmp_path).url)
    page.get_by_text("No runs in this folder yet").wait_for()
    until(page, lambda: "epochal.init" in page.locator(".empty").inner_text())


def test_a_run_that_cannot_be_read_is_listed_with_its_reason(
    own_runs: Path, serve: Serve, open_page: OpenPage
) -> None:
    broken = own_runs / "tests" / "broken"
    (broken / "journal").mkdir(parents=True)
    (broken / "run.json").write_text('{"v": 999, "id": "broken"}')
    page = open_page(serve(own_runs).url)
    page.locator(".run", has_text="first").wait_for()
    until(page, lambda: page.locator(".run", has_text="broken").count() == 1)
