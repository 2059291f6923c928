"""The overview of projects, several projects in one view, and news of runs that end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.browsing import OpenPage, Serve, until
from tests.store.journals import Journal

if TYPE_CHECKING:
    from playwright.sync_api import Route

# Stands in for the browser's own: a headless one shows none, and says so.
NOTIFICATIONS = """
window.told = [];
window.Notification = class {
  static permission = "granted";
  static requestPermission = async () => "granted";
  constructor(title, options) { window.told.push(`${title} | ${options.body}`); }
};
"""


@pytest.fixture
def projects(tmp_path: Path) -> Path:
    for number, project in enumerate(("alpha", "alpha", "beta", "gamma")):
        journal = Journal(tmp_path, f"r{number}", project=project, owner="ann")
        journal.metrics(1, loss=3.0 - number).finish("failed" if number == 1 else "finished")
    return tmp_path


def test_the_overview_opens_a_project_and_shows_several(
    projects: Path, serve: Serve, open_page: OpenPage
) -> None:
    page = open_page(serve(projects).url)
    page.locator(".run").nth(3).wait_for()
    page.keyboard.press("q")
    row = page.get_by_role("row", name="alpha")
    row.wait_for()
    cells = row.get_by_role("cell").all_inner_texts()
    assert (cells[1], cells[3], cells[7]) == ("2", "1", "ann")
    assert cells[5].startswith("2.0000")
    page.get_by_label("View alpha").check()
    page.get_by_label("View gamma").check()
    until(page, lambda: "of 3 shown" in page.locator(".runs-count").inner_text())
    until(page, lambda: "gamma" in page.url)
    page.reload()
    until(page, lambda: "of 3 shown" in page.locator(".runs-count").inner_text())
    page.get_by_role("row", name="beta").get_by_role("button", name="beta").click()
    until(page, lambda: "of 1 shown" in page.locator(".runs-count").inner_text())
    until(
        page, lambda: page.get_by_role("tab", name="Run").get_attribute("aria-selected") == "true"
    )


def test_a_run_that_fails_is_notified_if_the_person_wants_it(
    tmp_path: Path, serve: Serve, open_page: OpenPage
) -> None:
    journal = Journal(tmp_path).metrics(1, loss=2.0)
    site = serve(tmp_path)
    page = open_page("about:blank")
    page.add_init_script(NOTIFICATIONS)
    page.goto(site.url)
    page.locator(".run").wait_for()
    page.get_by_role("button", name="Which runs are listed and shown").click()
    page.get_by_role("menuitemcheckbox", name="Notify when a run ends").click()
    # Only what ends after both is told: the browser's leave, and a stream that is open.
    until(page, lambda: page.evaluate("localStorage.getItem('epochal notify')") == "1")
    page.get_by_text("live", exact=True).wait_for()
    journal.add({"log": "finish", "status": "failed", "reason": "out of memory"})
    until(page, lambda: page.evaluate("window.told") == ["x: failed | out of memory"])


def test_a_live_run_says_its_phase_in_the_list(
    tmp_path: Path, serve: Serve, open_page: OpenPage
) -> None:
    journal = Journal(tmp_path, host="node7").metrics(1, loss=2.0)
    journal.add({"log": "event", "name": "phase", "phase": "converging"}, writer="findings")
    page = open_page(serve(tmp_path).url)
    phase = page.locator(".run-phase")
    phase.wait_for()
    until(page, lambda: phase.get_attribute("title") == "converging on node7")


def test_a_run_that_ends_before_the_event_stream_opens_is_notified(
    tmp_path: Path, serve: Serve, open_page: OpenPage
) -> None:
    # Not in the charts, so that the stream says nothing of it by itself.
    journal = Journal(tmp_path, created=1e9).metrics(1, loss=2.0)
    for number in range(9):
        Journal(tmp_path, f"newer-{number}", created=2e9 + number).metrics(1, loss=1.0).finish()
    site = serve(tmp_path)
    page = open_page("about:blank")
    page.add_init_script(NOTIFICATIONS + "localStorage.setItem('epochal notify', '1');")
    held: list[Route] = []
    has_ended = False

    def hold(route: Route) -> None:
        if has_ended:
            route.continue_()
        else:
            held.append(route)

    page.route("**/api/events?*", hold)
    page.goto(site.url)
    page.locator('.run[data-run="id-x"]').wait_for()
    until(page, lambda: len(held) > 0)
    journal.add({"log": "finish", "status": "failed", "reason": "out of memory"})
    has_ended = True
    held[-1].abort()  # the page opens another
    until(page, lambda: page.evaluate("window.told") == ["x: failed | out of memory"])
