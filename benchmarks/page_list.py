"""The page over a store of 20,000 runs: first rows, a filter, memory of the tab.

The filter also in CPU seconds of the server and of the browser, which other work on the machine
does not change much.

    python -m benchmarks.page_list [COUNT]

Needs playwright and Chromium (``CHROMIUM`` names it). The server has read the runs before: what it
costs to read them is measured by ``first_look``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.page import CpuTimes, opened_browser, rested_page, served
from benchmarks.run_folders import write_many

if TYPE_CHECKING:
    from playwright.sync_api import Page, Response

ROUNDS = 3


def main() -> int:
    """Measure, and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", metavar="COUNT", type=int, nargs="?", default=20_000)
    count = parser.parse_args().count

    def write(folder: Path) -> None:
        write_many(folder, count=count, steps=20, metrics=3)

    with served("page-list", write) as (url, server):
        print(json.dumps(measured(url, count, server), indent=1))
    return 0


def measured(url: str, count: int, server: int) -> dict[str, Any]:
    """Seconds and megabytes, medians of some rounds."""
    first, answers, filters, sorts = [], [], [], []
    settled: list[float] = []
    memory: list[float] = []
    cpu: list[tuple[float, float]] = []
    with opened_browser() as browser:
        times = CpuTimes(server, browser)
        for number in range(ROUNDS):
            page = rested_page(browser, times, viewport={"width": 1360, "height": 860})
            page.set_default_timeout(60_000)
            answered: dict[str, float] = {}

            def note(got: Response, seen: dict[str, float] = answered) -> None:
                note_answer(got.url, seen)

            page.on("response", note)
            begun = time.perf_counter()
            page.goto(url)
            page.locator(".run[data-run]").first.wait_for()
            first.append(time.perf_counter() - begun)
            answers.append(time.perf_counter() - answered["runs"])
            page.wait_for_timeout(1500)
            times.restart()
            filters.append(timed(page, f"run-{number + 3:02}12"))
            cpu.append(times.passed())
            page.wait_for_timeout(3000)
            settled.append(timed(page, f"run-{number + 3:02}34"))
            page.get_by_label("Filter runs").fill("")
            page.wait_for_timeout(1000)
            sorts.append(sorted_by(page, "Smallest loss"))
            scroll(page)
            page.wait_for_timeout(1000)
            memory.append(heap_mb(page))
            page.context.close()
    return {
        "runs": count,
        "load": os.getloadavg()[0],
        "first rows, s": middle(first),
        "first rows after the first answer of the list, s": middle(answers),
        "filter typed 1.5 s after opening, to rows, s": middle(filters),
        "of it CPU of the server, s": middle([one for one, _ in cpu]),
        "of it CPU of the browser, s": middle([one for _, one in cpu]),
        "another filter 3 s later, s": middle(settled),
        "order to rows, s": middle(sorts),
        "heap of the tab after scrolling, MB": middle(memory),
    }


def note_answer(address: str, seen: dict[str, float]) -> None:
    """Remember when the first answer with runs came."""
    if "/api/runs?" in address:
        seen.setdefault("runs", time.perf_counter())


def timed(page: Page, word: str) -> float:
    """From the last key of a word to the rows that contain it."""
    page.locator("body").press("r")
    box = page.get_by_label("Filter runs")
    box.wait_for()
    box.focus()
    begun = time.perf_counter()
    box.fill(word)
    page.locator(f'.run[data-run*="{word}"]').first.wait_for()
    page.locator(f'.run[data-run]:not([data-run*="{word}"])').first.wait_for(state="detached")
    return time.perf_counter() - begun


def sorted_by(page: Page, order: str) -> float:
    """From the choice of an order to its first row."""
    before = page.locator(".run[data-run]").first.get_attribute("data-run")
    page.get_by_role("button", name="Order of runs").click()
    begun = time.perf_counter()
    page.get_by_role("menuitemcheckbox", name=order).click()
    page.locator(f'.run[data-run="{before}"]').wait_for(state="detached")
    return time.perf_counter() - begun


def scroll(page: Page) -> None:
    """Look at rows all over the list."""
    rows = page.locator(".list").first
    for share in (0.1, 0.3, 0.5, 0.7, 0.9, 1.0, 0.0):
        rows.evaluate("(list, share) => (list.scrollTop = list.scrollHeight * share)", share)
        page.wait_for_timeout(400)


def heap_mb(page: Page) -> float:
    """The heap of the tab after a collection."""
    client = page.context.new_cdp_session(page)
    client.send("HeapProfiler.enable")
    client.send("HeapProfiler.collectGarbage")
    client.send("Performance.enable")
    metrics = client.send("Performance.getMetrics")["metrics"]
    return float(next(m["value"] for m in metrics if m["name"] == "JSHeapUsedSize")) / 1e6


def middle(values: list[float]) -> float:
    """The median."""
    return round(sorted(values)[len(values) // 2], 3)


if __name__ == "__main__":
    sys.exit(main())
