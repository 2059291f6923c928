"""What a cell showed, in a real browser without its kernel; and a kernel that restarts."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.doubles.kernels import Kernel
from tests.e2e.browsing import OpenPage

WAIT_S = 120.0
TRAIN = """
import epochal
run = epochal.init(project="notebook", name="<i>shown", dir={folder!r}, total_steps=100)
for step in range(100):
    run.log({{"loss": 1 / (step + 1), "val_loss": 2 / (step + 1)}}, step=step)
"""


@pytest.fixture
def kernel() -> Iterator[Kernel]:
    kernel = Kernel()
    yield kernel
    kernel.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_a_saved_summary_is_drawn_without_kernel_and_server(
    tmp_path: Path, kernel: Kernel, site: str, open_page: OpenPage
) -> None:
    output = kernel.execute(TRAIN.format(folder=str(tmp_path / "runs")) + "run.finish()")
    (states,) = output.displays.values()
    kernel.manager.shutdown_kernel(now=True)
    page_file = "<!doctype html><meta charset=utf-8><link rel=icon href=data:,><body>" + states[-1]
    (tmp_path / "saved.html").write_text(page_file, encoding="utf-8")
    page = open_page(f"{site}/saved.html")
    page.get_by_text("notebook/<i>shown").wait_for()
    page.get_by_text("100% · 100 of 100 steps").wait_for()
    for line in page.locator("svg polyline").all():
        box = line.bounding_box()
        assert box is not None
        assert box["width"] > 200
        assert box["height"] > 50
    assert page.locator("svg polyline").count() == 2


def test_a_kernel_with_a_run_restarts_by_itself(tmp_path: Path, kernel: Kernel) -> None:
    kernel.execute(TRAIN.format(folder=str(tmp_path)))
    process = kernel.manager.provisioner.process
    kernel.restart()
    # It went when it was asked to: a hanging one would have been killed.
    assert process.wait(timeout=WAIT_S) == 0
    assert kernel.run("1 + 1")["text/plain"] == "2"
    assert kernel.execute(TRAIN.format(folder=str(tmp_path))).displays
