"""A run as the last expression of a cell: a real kernel, and what it answers in a real browser."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.doubles.kernels import Kernel
from tests.e2e.browsing import OpenPage

if TYPE_CHECKING:
    from playwright.sync_api import FrameLocator

    Show = Callable[[str], FrameLocator]

WAIT_S = 120.0
BEGIN = """
import epochal
run = epochal.init(project="notebook", name="shown", dir={folder!r}, total_steps=100)
for step in range(10):
    run.log({{"loss": 1 / (step + 1)}}, step=step)
run
"""


@pytest.fixture
def kernel() -> Iterator[Kernel]:
    kernel = Kernel()
    yield kernel
    kernel.close()


class _Output(BaseHTTPRequestHandler):
    """Answers with what a cell answered, from another port of this machine, as notebooks do."""

    html = ""

    def do_GET(self) -> None:
        body = f"<!doctype html><link rel=icon href=data:,><div>{self.html}</div>".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def notebook(open_page: OpenPage) -> Iterator[Show]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Output)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()

    def show(html: str) -> FrameLocator:
        _Output.html = html
        page = open_page(f"http://127.0.0.1:{server.server_address[1]}/")
        return page.frame_locator("iframe")

    yield show
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_run_shows_itself_live_and_afterwards_as_its_archive(
    tmp_path: Path, kernel: Kernel, notebook: Show
) -> None:
    live = kernel.run(BEGIN.format(folder=str(tmp_path)))
    frame = notebook(live["text/html"])
    frame.locator(".progress", has_text="step 10 of 100").wait_for()
    kernel.run("for step in range(10, 20): run.log({'loss': 0.1}, step=step)")
    frame.locator(".progress", has_text="step 20 of 100").wait_for()
    saved = kernel.run("run.finish()\nrun")
    frame = notebook(saved["text/html"])
    frame.get_by_text("saved page").wait_for()
    frame.locator(".vital-value", has_text="0.1000").wait_for()
    assert "http://127" not in saved["text/html"]


def test_a_kernel_with_a_run_restarts_by_itself(tmp_path: Path, kernel: Kernel) -> None:
    kernel.run(BEGIN.format(folder=str(tmp_path)))
    process = kernel.manager.provisioner.process
    kernel.restart()
    # It went when it was asked to: a hanging one would have been killed.
    assert process.wait(timeout=WAIT_S) == 0
    assert kernel.run("1 + 1")["text/plain"] == "2"
    again = kernel.run(BEGIN.format(folder=str(tmp_path)))
    assert "<iframe src=" in again["text/html"]
