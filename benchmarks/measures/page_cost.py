"""CPU time of the browser's renderer while it shows a live run, and of its server.

A run logs four records a second; Chromium without a GPU shows it at 1440 × 900.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.outcome import Hold, Outcome, Table
from benchmarks.stage import Stage

if TYPE_CHECKING:
    from playwright.sync_api import Page

NAME = "page-cost"
RECORDS_PER_S = 4
EARLIER = 400
_WARM_UP_S = 10
_WAIT_MS = 60_000

TRAINING = f"""
import math, random, sys, time
import epochal

source = random.Random(7)
run = epochal.init("live", "training", dir=sys.argv[1], console=False, total_steps=100_000)
for step in range(10**9):
    loss = 2 * (1 + step / 100) ** -0.3 * (1 + 0.05 * source.gauss(0, 1))
    values = {{"train/loss": loss, "train/grad_norm": abs(source.gauss(1, 0.1)),
               "train/lr": 1e-3 * math.exp(-step / 1e4), "train/tokens_per_second": 5e5 + step}}
    run.log({{**values, "eval/loss": loss + 0.1, "eval/accuracy": 1 - loss / 3}}, step=step)
    if step == {EARLIER}:
        print("logged", flush=True)
    if step >= {EARLIER}:
        time.sleep(1 / {RECORDS_PER_S})
"""


def run(stage: Stage) -> Outcome:
    from benchmarks.page import opened_browser
    from benchmarks.served import serving

    folder = stage.scratch / "page-cost"
    folder.mkdir()
    seconds = 15 if stage.quick else 60
    command = [sys.executable, "-c", TRAINING, str(folder)]
    training = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert training.stdout is not None
        training.stdout.readline()
        with serving(folder) as server, opened_browser() as browser:
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            page.set_default_timeout(_WAIT_MS)
            page.goto(f"http://127.0.0.1:{server.port}/")
            page.locator("canvas").first.wait_for()
            time.sleep(_WARM_UP_S)
            renderer = renderer_of(page)
            before = cpu_s(renderer), server.cpu_s
            time.sleep(seconds)
            shares = [
                100 * (now - then) / seconds
                for now, then in zip((cpu_s(renderer), server.cpu_s), before, strict=True)
            ]
    finally:
        training.kill()
        training.wait()
    table = Table(
        title=f"A live run on the page, {RECORDS_PER_S} records/s, % of a core over {seconds} s",
        columns=("renderer", "server"),
        rows={"epochal": tuple(shares)},
        remarks={},
        ratios=False,
    )
    hold = Hold("renderer with a live run", 8, shares[0], "% of a core")
    return Outcome("Page cost", "Chromium draws in software.", (table,), (hold,))


def renderer_of(page: Page) -> int:
    """The process that draws the page: the busiest renderer of its browser."""
    assert page.context.browser is not None
    session = page.context.browser.new_browser_cdp_session()
    found: list[dict[str, Any]] = session.send("SystemInfo.getProcessInfo")["processInfo"]
    renderers = [one for one in found if one["type"] == "renderer"]
    return int(max(renderers, key=lambda one: one["cpuTime"])["id"])


def cpu_s(process: int) -> float:
    """User and system time of a process."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
