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
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.page import CpuTimes, opened_browser, rested_page, served
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

    def write(folder: Path) -> None:
        write_sweep(folder, steps=steps)

    with served("page-sweep", write) as (url, server), opened_browser() as browser:
        times = CpuTimes(server, browser)
        for number in range(ROUNDS):
            found = one_round(browser, url, times)
            print(json.dumps({"round": number, "load": os.getloadavg()[0], **found}), flush=True)
    return 0


def one_round(browser: Browser, url: str, times: CpuTimes) -> dict[str, Any]:
    """Open the page as if in a browser of its own, and wait for its last chart."""
    page = rested_page(browser, times, viewport=WINDOW, bypass_csp=True)
    page.set_default_timeout(120_000)
    times.restart()
    page.goto(url + ADDRESS, wait_until="commit")
    phases = page.evaluate(PHASES, CHARTS)
    server, of_browser = times.passed()
    page.context.close()
    return {**phases, "CPU of the server, s": server, "CPU of the browser, s": of_browser}


if __name__ == "__main__":
    sys.exit(main())
