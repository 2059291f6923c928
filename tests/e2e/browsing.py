"""What tests do with a page: start its server, look at its charts, take its downloads."""

from __future__ import annotations

import inspect
import multiprocessing
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from epochal.api.serving import find_address, serve

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkServerProcess

    from playwright.sync_api import Locator, Page

DESKTOP = {"width": 1360, "height": 860}
PHONE = {"width": 390, "height": 844}
# How long a condition is waited for: on a machine that does much else, a page takes its time.
WAIT_MS = 120_000
TRY_MS = 250
# Resolves when everything that was due has been drawn.
NEXT_FRAME = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
EXTENT = """[...document.querySelectorAll('.panel')].map((panel) =>
  [panel.querySelectorAll('*').length, panel.scrollHeight, panel.scrollWidth])"""
# Forks of a process that has loaded what a server needs: they start in a tenth of the time.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(
    [
        *("epochal.server.app", "epochal.server.process", "epochal.exports.export"),
        *("epochal.store.local.catalog", "epochal.health.rule_settings"),
    ]
)
_Lines = list[list[tuple[float, float]]]


@dataclass
class Site:
    """A server process; ``url`` is where it answers."""

    folder: Path
    port: int = 0
    url: str = ""
    _process: ForkServerProcess | None = field(default=None, repr=False)

    def start(self) -> None:
        """Start it, at the same port as before."""
        receiver, sender = PROCESSES.Pipe(duplex=False)
        args = (self.folder, self.port, dict(os.environ), sender)
        self._process = PROCESSES.Process(target=serve_folder, args=args, daemon=True)
        self._process.start()
        sender.close()
        self.url = receiver.recv()
        self.port = int(re.search(r":(\d+)", self.url.removeprefix("http"))[1])  # type: ignore[index]

    def stop(self) -> None:
        """Kill it: what a page does then, it does after a crash too."""
        if self._process is None:
            return
        self._process.kill()
        self._process.join()
        self._process = None


def serve_folder(folder: Path, port: int, environment: dict[str, str], sender: Connection) -> None:
    """Serve a folder as ``python -m epochal.api.serving`` does, and send the address."""
    os.environ.clear()
    os.environ.update(environment)
    address = find_address([folder], port=port)
    serve([folder], address, on_ready=lambda: sender.send(address.url))


class Serve(Protocol):
    def __call__(self, folder: Path) -> Site: ...


class OpenPage(Protocol):
    def __call__(self, url: str, **context: Any) -> Page: ...


def download(page: Page, metric: str, what: str) -> str:
    """The text of a chart's download, such as ``CSV``."""
    card = page.locator(f'[data-metric="{metric}"]').first
    card.get_by_role("button", name=f"Actions for {metric}").click()
    with page.expect_download() as caught:
        page.get_by_role("menuitem", name=f"Download {what}").click()
    return Path(caught.value.path()).read_text(encoding="utf-8")


def drawn_lines(page: Page, metric: str) -> _Lines:
    """The points of every line in a chart as it is on screen, read from its picture."""
    svg = download(page, metric, "SVG")
    # Series have colours of the palette, grids those of the theme; marks have widths of their own.
    paths = re.findall(
        r'<path d="([^"]+)" fill="none" stroke="#\w+" stroke-width="(?:1|1\.5|2\.3)"'
        r"(?![^>]*opacity)",
        svg,
    )
    return [
        [(float(x), float(y)) for x, y in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", path)]
        for path in paths
    ]


def wait_for_lines(page: Page, metric: str, count: int) -> _Lines:
    """The lines of a chart, once there are so many."""
    return _once(page, metric, lambda lines: len(lines) == count)


def wait_for_points(page: Page, metric: str, count: int) -> list[tuple[float, float]]:
    """The only line of a chart, once it has so many points."""
    line = _once(page, metric, lambda lines: bool(lines) and len(lines[0]) >= count)[0]
    assert len(line) == count
    return line


def _once(page: Page, metric: str, are_so: Callable[[_Lines], bool]) -> _Lines:
    """The lines of a chart, once they are so."""
    deadline_s = time.monotonic() + WAIT_MS / 1000
    while not are_so(lines := drawn_lines(page, metric)):
        assert time.monotonic() < deadline_s, lines
        page.wait_for_timeout(TRY_MS)
    return lines


def drag(page: Page, target: Locator, start: float, end: float) -> None:
    """Drag along the middle of something, between two shares of its width."""
    target.scroll_into_view_if_needed()
    box = target.bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * start, y)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * (start + end) / 2, y, steps=4)
    page.mouse.move(box["x"] + box["width"] * end, y, steps=4)
    page.mouse.up()


def point_at(page: Page, target: Locator, share: float, *, down: float = 0.5) -> None:
    """Move the pointer onto something, to shares of its width and height."""
    target.scroll_into_view_if_needed()
    box = target.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * share, box["y"] + box["height"] * down)


def has_drawn(page: Page) -> None:
    """Wait until the panel that is open shows all it has: nothing loads, nothing comes or moves."""
    page.locator(".panel > *").first.wait_for(state="attached")
    page.wait_for_load_state("load")
    waiting = page.locator(".panel [aria-busy=true], .groups-waiting, .metric-waiting")

    def look() -> Any:
        page.evaluate(NEXT_FRAME)
        return page.evaluate(EXTENT)

    def is_still() -> bool:
        before = look()
        page.wait_for_timeout(TRY_MS)
        return waiting.count() == 0 and look() == before

    until(page, is_still)


def until(page: Page, is_so: Callable[[], bool]) -> None:
    """Wait for something; the page's own policy forbids to have the browser wait for it."""
    deadline_s = time.monotonic() + WAIT_MS / 1000
    while not is_so():
        assert time.monotonic() < deadline_s, inspect.getsource(is_so)
        page.wait_for_timeout(TRY_MS / 5)
