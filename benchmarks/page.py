"""A server and a browser: what the measures of the page and the browser tests share."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

# Without most of these, Chromium asks its maker's hosts for updates at every start.
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--js-flags=--expose-gc",
)
_WAIT_S = 600.0
# Server and browser rest when they take less of a core than this.
_REST_SHARE = 0.05
_REST_S = 0.5
_MOST_REST_S = 15.0


@contextmanager
def served(name: str, write: Callable[[Path], object]) -> Iterator[tuple[str, int]]:
    """The address and process of a server that has read the runs that ``write`` writes.

    ``RUNS`` names a folder that is kept, and written only while it is empty.
    """
    folder = Path(os.environ.get("RUNS") or tempfile.mkdtemp(prefix=f"{name}-"))
    if not any(folder.iterdir()):
        write(folder)
    command = [sys.executable, "-m", "epochal.api.serving", str(folder), "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        url = json.loads(server.stdout.readline())["url"]
        _wait_until_read(url)
        yield url, server.pid
    finally:
        server.kill()
        server.wait()
        if "RUNS" not in os.environ:
            shutil.rmtree(folder)


def _wait_until_read(url: str) -> None:
    until = time.monotonic() + _WAIT_S
    while time.monotonic() < until:
        with urllib.request.urlopen(f"{url.rstrip('/')}/api/runs?limit=1") as answer:
            if json.load(answer)["unsummarised"] == 0:
                return
        time.sleep(1.0)
    raise TimeoutError("the server has not read all runs.")


def find_chromium() -> str | None:
    """The path of Chromium, which ``CHROMIUM`` may name; None where there is none."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)


@contextmanager
def opened_browser() -> Iterator[Browser]:
    """Chromium without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=list(FLAGS))
        yield browser
        browser.close()


def rested_page(browser: Browser, times: CpuTimes, **options: Any) -> Page:
    """A window as if in a browser of its own, once nothing goes on in it."""
    page = browser.new_context(**options).new_page()
    times.wait_for_rest()
    return page


class CpuTimes:
    """CPU seconds of a server and a browser, which other work does not change much."""

    def __init__(self, server: int, browser: Browser) -> None:
        self._server = server
        self._session = browser.new_browser_cdp_session()
        self.restart()

    def restart(self) -> None:
        """Count from now on."""
        self._before = self._now()

    def passed(self) -> tuple[float, float]:
        """The seconds of the server and of all processes of the browser."""
        now = self._now()
        return round(now[0] - self._before[0], 2), round(now[1] - self._before[1], 2)

    def wait_for_rest(self) -> None:
        """Wait until server and browser have nothing left to do.

        A new window of Chromium costs 0.9 s of CPU in a process of its own, and a server still
        looks for findings when the charts have been drawn. Neither is part of the next opening.
        """
        until = time.monotonic() + _MOST_REST_S
        while time.monotonic() < until:
            before = self._now()
            time.sleep(_REST_S)
            if sum(self._now()) - sum(before) < _REST_SHARE * _REST_S:
                return

    def _now(self) -> tuple[float, float]:
        fields = Path(f"/proc/{self._server}/stat").read_text().rpartition(")")[2].split()
        server = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        found: list[dict[str, Any]] = self._session.send("SystemInfo.getProcessInfo")["processInfo"]
        return server, sum(float(one["cpuTime"]) for one in found)
