"""How the page answers with 2,000 metrics in a run, and with 1,000 runs in each chart.

    python -m benchmarks.page_interactions

Prints seconds from an action to what it shows, medians of some rounds, and the longest time between
two pictures while the charts are scrolled, and pictures a second while 1,000 runs are zoomed or one
of them is put in front. Needs playwright and Chromium (``CHROMIUM`` names it).
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
RUNS_IN_FRONT = 8
# Of the first runs of the list the page has the points already, and asks for nothing.
RUNS_AT_FIRST = 10
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
# Notes the times between pictures until it is asked for them.
RECORD = """() => {
  const [times, begun] = [[], performance.now()];
  let [before, id] = [begun, 0];
  const step = (now) => {
    times.push(now - before);
    before = now;
    id = requestAnimationFrame(step);
  };
  id = requestAnimationFrame(step);
  window.pictures = () => {
    cancelAnimationFrame(id);
    return { rate: 1000 * times.length / (performance.now() - begun), longest: Math.max(...times) };
  };
}"""


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
    """Show all runs, zoom, put runs in front, then show half of them."""
    page.get_by_role("button", name="Which runs are listed and shown").click()
    begun = time.perf_counter()
    page.get_by_role("menuitem", name="Show all that fit").click()
    page.locator(".metric-coarse").first.wait_for()
    shown = time.perf_counter() - begun
    page.locator(".metric-waiting").first.wait_for(state="detached")
    every = time.perf_counter() - begun
    zoomed = of_zoom(page)
    in_front = of_runs_in_front(page)
    begun = time.perf_counter()
    page.get_by_label("Filter runs").fill("large")
    page.locator(".metric-coarse", has_text="500 runs").first.wait_for()
    filtered = time.perf_counter() - begun
    return {
        "all runs, first chart, s": shown,
        "all runs, all charts in view, s": every,
        "filter to half of them, first chart, s": filtered,
        **zoomed,
        **in_front,
    }


def of_zoom(page: Page) -> dict[str, float]:
    """Drag over part of the first chart, wait for the finer curves, and leave the part again."""
    box = page.locator(".metric-chart .chart-plot").first.bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    page.evaluate(RECORD)
    page.mouse.move(box["x"] + box["width"] * 0.3, y)
    page.mouse.down()
    for share in range(300, 700, 10):
        page.mouse.move(box["x"] + box["width"] * share / 1000, y)
    begun = time.perf_counter()
    with page.expect_response(lambda answer: "group_curves" in answer.url and "lo=" in answer.url):
        page.mouse.up()
    answered = time.perf_counter() - begun
    pictures = page.evaluate("() => window.pictures()")
    page.mouse.dblclick(box["x"] + box["width"] / 2, y)
    return {
        "zoom, finer curves, s": answered,
        "zoom, pictures a second": pictures["rate"],
        "zoom, longest picture, s": pictures["longest"] / 1000,
    }


def of_runs_in_front(page: Page) -> dict[str, float]:
    """Choose some runs of the list, one after another, whose points the page does not have."""
    names = page.locator(".run[data-run] .run-name")
    page.evaluate(RECORD)
    begun = time.perf_counter()
    for number in range(RUNS_IN_FRONT):
        with page.expect_response(lambda answer: "/series" in answer.url):
            names.nth(number + RUNS_AT_FIRST).click()
    chosen = (time.perf_counter() - begun) / RUNS_IN_FRONT
    pictures = page.evaluate("() => window.pictures()")
    return {
        "a run in front, its points, s": chosen,
        "runs in front, pictures a second": pictures["rate"],
        "runs in front, longest picture, s": pictures["longest"] / 1000,
    }


if __name__ == "__main__":
    sys.exit(main())
