"""A real server over real run folders, and a real browser that looks at them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.page import find_chromium, opened_browser
from epochal.run.run import Run
from epochal.run.start import init
from tests.conftest import StartRun
from tests.e2e.browsing import DESKTOP, WAIT_MS, OpenPage, Serve, Site

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture
def serve() -> Iterator[Serve]:
    with starting() as start:
        yield start


@pytest.fixture(scope="module")
def serve_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serve]:
    """Starts servers for all tests of a module, which must not change the folder."""
    with pytest.MonkeyPatch.context() as patch, starting() as start:
        folder = tmp_path_factory.mktemp("environment")
        patch.setenv("EPOCHAL_CACHE_DIR", str(folder / "cache"))
        patch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
        yield start


@pytest.fixture(scope="module")
def start_for_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartRun]:
    """Starts runs for all tests of a module, as ``start_run`` does for one test."""
    folder = tmp_path_factory.mktemp("runs")

    def start(name: str = "run", **arguments: Any) -> Run:
        return init("tests", name, **{"dir": folder, "console": False, **arguments})

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EPOCHAL_GIT", "0")
        yield start


@contextmanager
def starting() -> Iterator[Serve]:
    """Start one server for each folder, and stop them at the end."""
    sites: dict[Path, Site] = {}

    def start(folder: Path) -> Site:
        if folder not in sites:
            sites[folder] = Site(folder)
            sites[folder].start()
        return sites[folder]

    yield start
    for site in sites.values():
        site.stop()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if find_chromium() is None:
        pytest.skip("no Chromium on this machine: install Debian's chromium or set CHROMIUM")
    with opened_browser() as browser:
        yield browser


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    with opening(browser) as open_one:
        yield open_one


@pytest.fixture(scope="module")
def open_page_for_all(browser: Browser) -> Iterator[OpenPage]:
    """Opens pages for all tests of a module."""
    with opening(browser) as open_one:
        yield open_one


@contextmanager
def opening(browser: Browser) -> Iterator[OpenPage]:
    """Pages, each as if in a browser of its own; nothing may go wrong in any of them."""
    contexts: list[Any] = []
    faults: list[str] = []

    def note_console(message: Any) -> None:
        # A server that was stopped on purpose breaks connections off, half a query is wrong, and
        # a board that is outdated is refused.
        parts = ("?query=", "pattern=1", "/blob/")  # the last is of a page that a run keeps
        url = message.location["url"]
        is_meant = "net::ERR_" in message.text or any(part in url for part in parts)
        is_meant = is_meant or ("409 (Conflict)" in message.text and "/api/boards" in url)
        # A page that a run keeps is shown in a frame where scripts and links cannot do anything.
        blocked = ("Blocked script execution", "Unsafe attempt to initiate navigation")
        is_meant = is_meant or message.text.startswith(blocked)
        if message.type == "error" and not is_meant:
            faults.append(message.text + " " + url)

    def note_dialog(dialog: Any) -> None:
        faults.append(f"a dialog: {dialog.message}")
        dialog.dismiss()

    def open_one(url: str, **options: Any) -> Page:
        context = browser.new_context(**{"viewport": DESKTOP, "accept_downloads": True, **options})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(WAIT_MS)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", note_console)
        page.on("dialog", note_dialog)
        page.goto(url)
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert not faults, faults
