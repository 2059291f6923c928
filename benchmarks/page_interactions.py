"""How the page answers with 2,000 metrics in a run, and with 1,000 runs in each chart.

    python -m benchmarks.page_interactions

Prints seconds from an action to what it shows, medians of some rounds, and the longest time between
two pictures while the charts are scrolled. Needs playwright and Chromium (``CHROMIUM`` names it).
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.page import CpuTimes, opened_browser, rested_page, served
from benchmarks.page_list import middle
from benchmarks.run_folders import write_many
from benchmarks.sweep import write_sweep

if TYPE_CHECKING:
    from playwright.sync_api import Page

ROUNDS = 3
METRICS = 2000
SEEDS = 50  # of 20 combinations
WINDOW: Any = {"width": 1360, "height": 860}
DRAWN = '.metric-chart[aria-busy="false"] .chart-plot canvas'
# The longest time between two pictures while the charts move from one end to the other.
SCROLL = """() => new Promise((resolve) => {
  const panel = document.querySelector('.panel');
  let [longest, before, share] = [0, performance.now(), 0];
  const step = (now) => {
    longest = Math.max(longest, now - before);
    before = now;
    panel.scrollTop = panel.scrollHeight * share;
    share += 0.01;
    if (share <= 1) requestAnimationFrame(step);
    else resolve(longest);
  };
  requestAnimationFrame(step);
})"""


def main() -> int:
    """Measure, and print one JSON object for each kind of store."""
    wide = run_all("page-wide", write_wide, "#panel=charts", of_wide)
    print(json.dumps({"metrics": METRICS, **wide}), flush=True)
    crowd = run_all("page-crowd", write_crowd, "#panel=charts", of_crowd)
    print(json.dumps({"runs": 20 * SEEDS + 1, **crowd}), flush=True)
    return 0


def write_wide(folder: Path) -> None:
    """Two runs with many metrics."""
    write_many(folder, count=2, steps=300, metrics=METRICS)


def write_crowd(folder: Path) -> None:
    """A sweep with many seeds."""
    write_sweep(folder, steps=300, seeds=SEEDS)


def run_all(
    name: str,
    write: Callable[[Path], object],
    address: str,
    measure: Callable[[Page], dict[str, float]],
) -> dict[str, float]:
    """The medians of some rounds, each in a window of its own."""
    with served(name, write) as (url, server), opened_browser() as browser:
        times = CpuTimes(server, browser)
        rounds = []
        for _ in range(ROUNDS):
            page = rested_page(browser, times, viewport=WINDOW)
            page.set_default_timeout(120_000)
            begun = time.perf_counter()
            page.goto(url + address, wait_until="commit")
            page.locator(DRAWN).first.wait_for()
            opened = time.perf_counter() - begun
            times.wait_for_rest()
            rounds.append({"first chart, s": opened, **measure(page)})
            page.context.close()
    found = {key: middle([one[key] for one in rounds]) for key in rounds[0]}
    return {"load": os.getloadavg()[0], **found}


def of_wide(page: Page) -> dict[str, float]:
    """Open the section, search for a metric, clear the search, scroll through all charts."""
    begun = time.perf_counter()
    page.locator('.group-head[aria-expanded="false"]').first.click()
    page.locator(f'.chart-card[data-metric="metric_0"] {DRAWN}').wait_for()
    opened = time.perf_counter() - begun
    box = page.get_by_label("Filter charts")
    begun = time.perf_counter()
    box.fill("metric_1234")
    page.locator(f'.chart-card[data-metric*="metric_1234"] {DRAWN}').first.wait_for()
    page.locator('.chart-card:not([data-metric*="metric_1234"])').first.wait_for(state="detached")
    searched = time.perf_counter() - begun
    begun = time.perf_counter()
    box.fill("")
    page.locator(f'.chart-card:not([data-metric*="metric_1234"]) {DRAWN}').first.wait_for()
    cleared = time.perf_counter() - begun
    return {
        "section opened, s": opened,
        "search of a metric, s": searched,
        "search cleared, s": cleared,
        "longest picture while scrolling, s": page.evaluate(SCROLL) / 1000,
    }


def of_crowd(page: Page) -> dict[str, float]:
    """Show all runs, then half of them."""
    page.get_by_role("button", name="Which runs are listed and shown").click()
    begun = time.perf_counter()
    page.get_by_role("menuitem", name="Show all that fit").click()
    page.locator(".metric-coarse").first.wait_for()
    shown = time.perf_counter() - begun
    page.locator(".metric-waiting").first.wait_for(state="detached")
    every = time.perf_counter() - begun
    begun = time.perf_counter()
    page.get_by_label("Filter runs").fill("large")
    page.locator(".metric-coarse", has_text="500 runs").first.wait_for()
    filtered = time.perf_counter() - begun
    return {
        "all runs, first chart, s": shown,
        "all runs, all charts in view, s": every,
        "filter to half of them, first chart, s": filtered,
    }


if __name__ == "__main__":
    sys.exit(main())
