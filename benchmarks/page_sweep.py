"""The page of a sweep of 60 runs with 12 grouped charts: from the address to the last chart.

    python -m benchmarks.page_sweep [--steps N]

Prints the phases of each round in milliseconds since the navigation began, and the CPU seconds of
server and browser, which other work on the machine does not change much. The first round has a
server that has just read the list. Needs playwright and Chromium (``CHROMIUM`` names it).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.page_list import FLAGS, cpu_of_browser_s, cpu_s, wait_until_read
from benchmarks.sweep import write_sweep

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHARTS = 12
ROUNDS = 5
ADDRESS = "#panel=charts&group=lr,model&spread=ci&columns=4&chart-size=s"
# All charts at once: the page draws those that are in view, here in four columns.
WINDOW: Any = {"width": 1920, "height": 1200}
# Says when the last chart has lines, and what came before.
PHASES = """(charts) => new Promise((resolve) => {
  const drawn = () => document.querySelectorAll('.metric-chart .chart-plot canvas').length;
  const look = () => {
    if (drawn() < charts || document.querySelector('.metric-waiting') !== null) {
      requestAnimationFrame(look);
      return;
    }
    const at = performance.now();
    const all = performance.getEntriesByType('resource');
    const asked = all.filter(({ name }) => name.includes('/api/'));
    const of = (word) => asked.filter(({ name }) => name.includes(word));
    const first = (some) => Math.round(Math.min(...some.map(({ startTime }) => startTime)));
    const last = (some) => Math.round(Math.max(...some.map(({ responseEnd }) => responseEnd)));
    const [navigation] = performance.getEntriesByType('navigation');
    resolve({
      'page there': Math.round(navigation.responseEnd),
      'list asked': first(of('/api/runs?')),
      'list there': Math.round(of('/api/runs?')[0].responseEnd),
      'metrics there': last(asked.filter(({ name }) => /runs\\/[^/?]+\\?/.test(name))),
      'curves asked': first(of('group_curves')),
      'curves there': last(of('group_curves')),
      'requests': asked.length,
      'kB': Math.round(asked.reduce((sum, { encodedBodySize }) => sum + encodedBodySize, 0) / 1000),
      'last chart': Math.round(at),
    });
  };
  look();
})"""


def main() -> int:
    """Measure, and print one JSON object for each round."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=3000)
    steps = parser.parse_args().steps
    folder = Path(os.environ.get("RUNS") or tempfile.mkdtemp(prefix="page-sweep-"))
    if not any(folder.iterdir()):
        write_sweep(folder, steps=steps)
    command = [sys.executable, "-m", "epochal.serving", str(folder), "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        url = json.loads(server.stdout.readline())["url"]
        wait_until_read(url)
        measure(url, server.pid)
    finally:
        server.kill()
        server.wait()
        if "RUNS" not in os.environ:
            shutil.rmtree(folder)
    return 0


def measure(url: str, server: int) -> None:
    """Open the page some times, each as if in a browser of its own."""
    from playwright.sync_api import sync_playwright

    names = ("chromium", "chromium-browser", "google-chrome")
    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        for number in range(ROUNDS):
            found = one_round(browser, url, server)
            print(json.dumps({"round": number, "load": os.getloadavg()[0], **found}), flush=True)
        browser.close()


def one_round(browser: Browser, url: str, server: int) -> dict[str, Any]:
    """Open the page and wait for its last chart."""
    context = browser.new_context(viewport=WINDOW, bypass_csp=True)
    page = context.new_page()
    page.set_default_timeout(120_000)
    session = browser.new_browser_cdp_session()
    before = cpu_s(server), cpu_of_browser_s(session)
    page.goto(url + ADDRESS, wait_until="commit")
    phases = page.evaluate(PHASES, CHARTS)
    after = cpu_s(server), cpu_of_browser_s(session)
    context.close()
    return {
        **phases,
        "CPU of the server, s": round(after[0] - before[0], 2),
        "CPU of the browser, s": round(after[1] - before[1], 2),
    }


if __name__ == "__main__":
    sys.exit(main())
